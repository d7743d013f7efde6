package tarntest

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/wire"
)

// Get returns a copy of an object that the server has, or a NotFound error. T is a built-in type or one with a
// method APIResource. It is not a request, so no fault hits it.
func Get[T tarn.Object](e *Env, key tarn.Key) (obj T, err error) {
	resource, err := wire.Of[T]()
	if err != nil {
		return obj, err
	}
	stored, err := e.Server.Get(resource.GVR(), key)
	if err != nil {
		return obj, err
	}
	if same, ok := stored.DeepCopyObject().(T); ok {
		return same, nil
	}
	tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(stored)
	if err == nil {
		obj = resource.New()
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(tree, obj)
	}
	if err != nil {
		return obj, fmt.Errorf("tarntest: reading %s %s: %w", resource.Resource, key, err)
	}
	return obj, nil
}
