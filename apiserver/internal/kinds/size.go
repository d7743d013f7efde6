package kinds

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// JSONSize returns the approximate size of a tree in JSON. It stops counting above limit.
func JSONSize(tree any, limit int) (n int) {
	add := func(value any) {
		if n <= limit {
			n += JSONSize(value, limit-n) + 1
		}
	}
	switch node := tree.(type) {
	case string:
		return len(node) + 2
	case map[string]any:
		for name, value := range node {
			n += len(name) + 3
			add(value)
		}
	case map[any]any: // from YAML
		for name, value := range node {
			add(name)
			add(value)
		}
	case []any:
		for _, value := range node {
			add(value)
		}
	default:
		return 4
	}
	return n + 2
}

// SizeOf returns the size of an object in etcd: protobuf for a built-in kind, JSON for a
// custom one.
func SizeOf(obj runtime.Object) int {
	switch o := obj.(type) {
	case *unstructured.Unstructured:
		return JSONSize(o.Object, 1<<30)
	case *Definition: // JSON too, but measuring that is slow
		if n := o.Size(); n < 1<<18 {
			return n
		}
		text, _ := json.Marshal(o) // never fails
		return len(text)
	case interface{ Size() int }:
		return o.Size()
	}
	return 0
}
