package object

import (
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
	"strings"
)

// Held reports whether the receiver of a list or a watch holds the object with this key, UID
// and version, so that the source need not decode it. A nil Held holds nothing.
type Held func(key Key, uid UID, version Version) bool

// Intake is what a source does with each object it reads, before the object leaves the
// goroutine that decoded it. The functions must be safe for concurrent use. A nil *Intake and
// the zero Intake leave objects unchanged.
type Intake[T any] struct {
	// Held reports which objects need not be decoded. Defaults to none.
	Held Held
	// Shard drops objects that are not in it, before they are decoded where the source can.
	// Defaults to all objects.
	Shard Shard
	// Unshared requires that objects share no parts even without a Transform. Defaults to
	// false: objects are read-only and may share equal parts.
	Unshared bool
	// Transform changes an object in place or returns another. It owns its argument: no
	// other goroutine can reach it, and it shares no part with any other object. It must
	// not change key, UID or version. After an error, a panic, a nil result or a changed
	// identity the object is quarantined. Defaults to none.
	Transform func(T) (T, error)
	// Accessor reads the identity of what Transform returns. Defaults to none: the identity
	// is not checked.
	Accessor Accessor[T]
	// Encoder is how the receiver encodes objects. Defaults to none: it holds them decoded.
	Encoder[T]
}

// Encoder encodes objects for their receiver.
type Encoder[T any] struct {
	// Encode returns the encoded form in which the receiver holds an object, or nil for an
	// object that it holds decoded. An object for which it returns an error is quarantined. raw is the object in the source's encoding, or nil: the source
	// does not have it, or a transform changed the object. Encode reads both and keeps neither: the
	// source uses their memory again. It may keep strings of obj.
	Encode func(obj T, raw []byte) (Encoded[T], error)
	// Reads are the fields that Encode reads of an object if it has raw. The source may leave all
	// others zero. Defaults to nil: the whole object. An empty list that is not nil is none.
	Reads []FieldPath
}

// Owned reports whether objects must share no part with each other or with the source,
// because a transform writes to them or Unshared is set.
func (in *Intake[T]) Owned() bool { return in != nil && (in.Unshared || in.Transform != nil) }

// Holds reports whether the receiver holds the object.
func (in *Intake[T]) Holds(key Key, uid UID, version Version) bool {
	return in != nil && in.Held != nil && in.Held(key, uid, version)
}

// Prepare marks an item that is not in the shard as Outside, and transforms and then encodes the other
// decoded ones. The goroutine that decoded the object calls it. A second call does nothing, so the reflector can call it for sources that do
// not.
func (in *Intake[T]) Prepare(item *Item[T]) {
	if item.Prepared {
		return
	}
	item.Prepared = true
	if in == nil || item.Outside {
		return
	}
	// The identity of an item that could not be decoded may be unknown.
	if (item.Err == nil || item.UID != "") && !in.Shard.Contains(item.UID, item.Key.Namespace) {
		outside := Item[T]{Version: item.Version, Prepared: true, Outside: true}
		if in.Shard.By() == ByUID {
			outside.Key = item.Key
		}
		*item = outside
		return
	}
	if item.Held || item.Err != nil {
		return
	}
	if in.Transform != nil {
		item.Raw = nil
		if err := in.transform(item); err != nil {
			var none T
			item.Object, item.Err = none, fmt.Errorf("transform: %w", err)
			return
		}
	}
	if in.Encode == nil {
		return
	}
	encoded, err := in.Encode(item.Object, item.Raw)
	item.Raw = nil
	var none T
	switch {
	case err != nil:
		item.Object, item.Err = none, err
	case encoded != nil:
		item.Value = Value[T]{Object: none, Encoded: encoded}
		item.detach()
	}
}

// errNilObject is the error of a transform that returns nil.
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

// isNil reports whether obj is nil, or a nil pointer or map.
func isNil[T any](obj T) bool {
	switch v := reflect.ValueOf(obj); v.Kind() {
	case reflect.Invalid:
		return true
	case reflect.Pointer, reflect.Map, reflect.Interface:
		return v.IsNil()
	}
	return false
}

// detach copies the item's strings, which may alias a buffer that holds the whole object.
func (i *Item[T]) detach() {
	name, uid := len(i.Key.Name), len(i.UID)
	text := i.Key.Name + string(i.UID) + string(i.Version)
	i.Key.Name, i.UID, i.Version = text[:name], UID(text[name:name+uid]), Version(text[name+uid:])
	i.Key.Namespace = strings.Clone(i.Key.Namespace)
}
