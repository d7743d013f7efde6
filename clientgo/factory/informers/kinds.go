package informers

import (
	"context"
	"reflect"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
)

// kind is one that the clientset has a typed client for.
type kind struct {
	resource   schema.GroupVersionResource
	object     reflect.Type // the struct
	namespaced bool
	group      string // method of the clientset, such as CoreV1
	plural     string // method of the group's client, such as Pods
}

// catalogue is all kinds, by the pointer type of their objects and by resource.
type catalogue struct {
	types     map[reflect.Type]kind
	resources map[schema.GroupVersionResource]kind
}

// kinds reads the catalogue out of the clientset's interface: a method for each group and
// version, on whose result is a method for each resource, on whose result is List. That is
// what client-gen makes, so a kind that comes with a new client-go is here by itself.
//
// Rejected: a table of the hundred and fifty there are, which nobody would check.
var kinds = sync.OnceValue(func() catalogue {
	c := catalogue{map[reflect.Type]kind{}, map[schema.GroupVersionResource]kind{}}
	clientset := reflect.TypeFor[kubernetes.Interface]()
	for i := range clientset.NumMethod() {
		group := clientset.Method(i)
		if group.Type.NumIn() != 0 || group.Type.NumOut() != 1 || group.Type.Out(0).Kind() != reflect.Interface {
			continue
		}
		for j := range group.Type.Out(0).NumMethod() {
			if k, ok := kindOf(group.Name, group.Type.Out(0).Method(j)); ok {
				c.types[reflect.PointerTo(k.object)] = k
				c.resources[k.resource] = k
			}
		}
	}
	return c
})

// kindOf returns the kind that a method of a group's client gives access to, if it does.
func kindOf(group string, plural reflect.Method) (kind, bool) {
	t := plural.Type
	if t.NumOut() != 1 || t.Out(0).Kind() != reflect.Interface || t.NumIn() > 1 {
		return kind{}, false
	}
	list, ok := t.Out(0).MethodByName("List")
	if !ok || list.Type.NumOut() != 2 || list.Type.Out(0).Kind() != reflect.Pointer {
		return kind{}, false
	}
	items, ok := list.Type.Out(0).Elem().FieldByName("Items")
	if !ok || items.Type.Kind() != reflect.Slice {
		return kind{}, false
	}
	k := kind{object: items.Type.Elem(), namespaced: t.NumIn() == 1, group: group, plural: plural.Name}
	example, ok := reflect.New(k.object).Interface().(runtime.Object)
	if !ok {
		return kind{}, false
	}
	gvks, _, err := scheme.Scheme.ObjectKinds(example)
	if err != nil || len(gvks) == 0 {
		return kind{}, false
	}
	k.resource = gvks[0].GroupVersion().WithResource(strings.ToLower(plural.Name))
	return k, true
}

// example returns a new, empty object.
func (k kind) example() runtime.Object { return reflect.New(k.object).Interface().(runtime.Object) }

// client returns the kind's typed client.
func (k kind) client(clientset kubernetes.Interface, namespace string) typedClient {
	group := reflect.ValueOf(clientset).MethodByName(k.group).Call(nil)[0]
	var args []reflect.Value
	if k.namespaced {
		args = []reflect.Value{reflect.ValueOf(namespace)}
	}
	client := group.MethodByName(k.plural).Call(args)[0]
	return typedClient{client.MethodByName("List"), client.Interface().(watcher)}
}

type watcher interface {
	Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
}

// typedClient is a typed client whose List has any type. It implements factory.Typed.
type typedClient struct {
	list reflect.Value
	watcher
}

// List calls the typed client's.
func (c typedClient) List(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	out := c.list.Call([]reflect.Value{reflect.ValueOf(ctx), reflect.ValueOf(opts)})
	if err, _ := out[1].Interface().(error); err != nil {
		return nil, err
	}
	return out[0].Interface().(runtime.Object), nil
}
