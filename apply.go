package tarn

import (
	"errors"
	"fmt"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/tarnproject/tarn/object"
)

// serverSet are the fields of metadata that the server sets. Sent with an apply they would be
// refused, or, as the resource version, make it conditional.
var serverSet = []string{"managedFields", "resourceVersion", "uid", "creationTimestamp", "generation", "selfLink", "deletionTimestamp", "deletionGracePeriodSeconds"}

// applied returns what server-side apply sends for a configuration, and its key. Of an object it
// leaves out what a user does not apply: fields that the server sets and the status, or with
// status everything else.
func applied(res object.Resource, config any, status bool) (body map[string]any, key Key, err error) {
	if body, err = treeOf(config); err != nil {
		return nil, key, err
	}
	meta, _ := body["metadata"].(map[string]any)
	key.Name, _ = meta["name"].(string)
	key.Namespace, _ = meta["namespace"].(string)
	switch {
	case key.Name == "":
		return nil, key, fmt.Errorf("%T has no name", config)
	case res.Namespaced && key.Namespace == "":
		return nil, key, fmt.Errorf("%s has no namespace", key.Name)
	}
	if _, ok := config.(metav1.Object); ok {
		if status {
			body = map[string]any{"status": body["status"]}
			meta = map[string]any{"name": key.Name}
			if key.Namespace != "" {
				meta["namespace"] = key.Namespace
			}
		} else {
			delete(body, "status")
			for _, field := range serverSet {
				delete(meta, field)
			}
		}
	}
	body["metadata"] = meta
	apiVersion, kind := res.GVK().ToAPIVersionAndKind()
	if v, k := body["apiVersion"], body["kind"]; v != nil && v != apiVersion || k != nil && k != kind {
		return nil, key, fmt.Errorf("%s is a %v of %v; want a %s of %s", key, k, v, kind, apiVersion)
	}
	body["apiVersion"], body["kind"] = apiVersion, kind
	return body, key, nil
}

// pointerTo returns a pointer to a copy of a struct, whose methods make it an object, and anything
// else unchanged.
func pointerTo(config any) any {
	v := reflect.ValueOf(config)
	if v.Kind() != reflect.Struct {
		return config
	}
	p := reflect.New(v.Type())
	p.Elem().Set(v)
	return p.Interface()
}

// otherType returns an error for an object of another type than that of the client, which need
// not name its kind.
func otherType(config any) error {
	if _, ok := config.(*unstructured.Unstructured); ok {
		return nil
	}
	if _, ok := config.(metav1.Object); ok {
		return fmt.Errorf("%T is an object of another type than the client's", config)
	}
	return nil
}

var errNotObject = errors.New("want an apply configuration or an object")

// treeOf returns the JSON of an object as a tree, in which integers are int64: as float64 they
// would lose digits.
func treeOf(obj any) (tree map[string]any, err error) {
	text, err := json.Marshal(obj)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &tree); err != nil || tree == nil {
		return nil, fmt.Errorf("%T is not an object: %w", obj, errors.Join(err, errNotObject))
	}
	return tree, nil
}

// mergeDiff returns the merge patch that changes old into changed.
func mergeDiff(old, changed map[string]any) map[string]any {
	diff := map[string]any{}
	for name, now := range changed {
		was, had := old[name]
		wasTree, ok := was.(map[string]any)
		nowTree, both := now.(map[string]any)
		switch {
		case ok && both:
			if d := mergeDiff(wasTree, nowTree); len(d) > 0 {
				diff[name] = d
			}
		case !had || !reflect.DeepEqual(was, now):
			diff[name] = now
		}
	}
	for name := range old {
		if _, ok := changed[name]; !ok {
			diff[name] = nil
		}
	}
	return diff
}
