package reflector

import (
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/object"
)

// transform applies Options.Transform to an object that no other goroutine and no other
// object can reach. Whatever the transform does wrong is an error, which puts this one
// object in quarantine (O04).
func (r *Reflector[T]) transform(obj T) (out T, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
		if err != nil {
			var none T
			out, err = none, fmt.Errorf("transform: %w", err)
		}
	}()
	was, err := r.identify(obj)
	if err != nil {
		return out, err
	}
	if out, err = r.opts.Transform(obj); err != nil {
		return out, err
	}
	if isNil(out) {
		return out, errors.New("it returned no object")
	}
	is, err := r.identify(out)
	switch {
	case err != nil:
		return out, err
	case is.key != was.key:
		return out, fmt.Errorf("it changed the key from %q to %q", was.key, is.key)
	case is.uid != was.uid:
		return out, fmt.Errorf("it changed the UID from %q to %q", was.uid, is.uid)
	case is.version != was.version:
		return out, fmt.Errorf("it changed the version from %q to %q", was.version, is.version)
	}
	return out, nil
}

// identity is what a transform must leave unchanged.
type identity struct {
	key     object.Key
	uid     object.UID
	version object.Version
}

// identify reads an object's identity, which is zero where that cannot be read.
func (r *Reflector[T]) identify(obj T) (id identity, err error) {
	if acc := &r.opts.Accessor; acc.Key != nil {
		if id.key, err = acc.Key(obj); err != nil {
			return id, err
		}
		id.uid, id.version = acc.UIDOf(obj), acc.VersionOf(obj)
	} else if m, ok := any(obj).(metav1.Object); ok {
		id = identity{
			key:     object.Key{Namespace: m.GetNamespace(), Name: m.GetName()},
			uid:     m.GetUID(),
			version: object.Version(m.GetResourceVersion()),
		}
	}
	return id, nil
}

// isNil reports whether an object is a nil pointer, map or interface.
func isNil[T any](obj T) bool {
	switch v := reflect.ValueOf(&obj).Elem(); v.Kind() {
	case reflect.Pointer, reflect.Map, reflect.Interface:
		return v.IsNil()
	default:
		return false
	}
}
