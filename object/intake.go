package object

import (
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
	"strings"
)

// Held reports whether the receiver of a list or a watch already has the object of
// this key with this UID and version, so that it need not be decoded. A nil Held
// holds nothing.
type Held func(key Key, uid UID, version Version) bool

// Intake says what a source does with each object it reads, before the object leaves the
// goroutine that decoded it. The functions are called from several goroutines at once. A nil
// *Intake and the zero Intake take objects as they are decoded.
type Intake[T any] struct {
	// Held reports which objects need not be decoded. Defaults to none.
	Held Held
	// Unshared has objects share no part with each other even if no Transform writes to
	// them. Defaults to false: equal parts may be shared, and objects are read-only.
	Unshared bool
	// Transform changes an object, or returns another. It owns the object it is given: no
	// other goroutine reaches it, and it shares no part with any other object. The key, UID
	// and version must stay. An error, a panic, a nil result or another identity puts the
	// object in quarantine. Defaults to none.
	Transform func(T) (T, error)
	// Accessor reads the identity of what Transform returns. Defaults to none: the identity
	// is not checked.
	Accessor Accessor[T]
	// Encode returns the form in which the receiver holds an object, or nil for one that it
	// holds decoded. It reads the object and does not keep it. Defaults to none.
	Encode func(T) Encoded[T]
}

// Owned reports whether objects must share no part with each other or with the source: a
// transform writes to them, or they are to be Unshared.
func (in *Intake[T]) Owned() bool { return in != nil && (in.Unshared || in.Transform != nil) }

// Holds reports whether the receiver has the object already.
func (in *Intake[T]) Holds(key Key, uid UID, version Version) bool {
	return in != nil && in.Held != nil && in.Held(key, uid, version)
}

// Prepare makes the final value of a decoded item: transformed, then encoded. The goroutine
// that decoded the object calls it, once; a second call does nothing. Sources that do not
// call it leave it to the reflector.
func (in *Intake[T]) Prepare(item *Item[T]) {
	if item.Prepared {
		return
	}
	item.Prepared = true
	if in == nil || item.Held || item.Err != nil {
		return
	}
	if in.Transform != nil {
		if err := in.transform(item); err != nil {
			var none T
			item.Object, item.Err = none, fmt.Errorf("transform: %w", err)
			return
		}
	}
	if in.Encode == nil {
		return
	}
	if encoded := in.Encode(item.Object); encoded != nil {
		var none T
		item.Value = Value[T]{Object: none, Encoded: encoded}
		item.detach()
	}
}

// errNilObject is what is wrong with a transform that returns nothing.
var errNilObject = errors.New("it returned no object")

func (in *Intake[T]) transform(item *Item[T]) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	obj, err := in.Transform(item.Object)
	if err != nil {
		return err
	}
	if isNil(obj) {
		return errNilObject
	}
	if in.Accessor.Key != nil {
		is, err := ItemOf(in.Accessor, obj)
		switch {
		case err != nil:
			return err
		case is.Key != item.Key:
			return fmt.Errorf("it changed the key from %q to %q", item.Key, is.Key)
		case is.UID != item.UID:
			return fmt.Errorf("it changed the UID from %q to %q", item.UID, is.UID)
		case is.Version != item.Version:
			return fmt.Errorf("it changed the version from %q to %q", item.Version, is.Version)
		}
	}
	item.Object = obj
	return nil
}

// isNil reports whether obj is nil, or a pointer or map that is.
func isNil[T any](obj T) bool {
	switch v := reflect.ValueOf(obj); v.Kind() {
	case reflect.Invalid:
		return true
	case reflect.Pointer, reflect.Map, reflect.Interface:
		return v.IsNil()
	}
	return false
}

// detach copies the item's strings, which a decoder may have cut from one buffer with the
// whole object.
func (i *Item[T]) detach() {
	name, uid := len(i.Key.Name), len(i.UID)
	text := i.Key.Name + string(i.UID) + string(i.Version)
	i.Key.Name, i.UID, i.Version = text[:name], UID(text[name:name+uid]), Version(text[name+uid:])
	i.Key.Namespace = strings.Clone(i.Key.Namespace)
}
