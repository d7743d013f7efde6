package store

import (
	"fmt"
	"unsafe"

	"github.com/tarnproject/tarn/object"
)

// resting is an object that is on its way to a store, in the store's form already.
type resting[T any] struct {
	held Held[T]
	// values are what each of the indexes has for it; nil where that could not be told.
	values  []any
	indexes *[]bound[T]
}

// Object implements [object.Resting].
func (r *resting[T]) Object() T { return r.held.Object() }

// Rest puts an object into the store's form ahead of time: in an item of a list, the result
// stands for the object, which can go. That way a list that is being received takes as
// little memory as the store will. What the indexes need of the object is taken from it
// here. It reports false for an object that the form refuses, as Apply will, and for a
// store that has no form.
//
// It may be called from any goroutine, and does not change the store.
func (s *Store[T]) Rest(obj T) (r object.Resting[T], ok bool) {
	if s.form == nil {
		return nil, false
	}
	hold := s.form.Hold
	if f, ok := s.form.(loner[T]); ok {
		hold = f.holdAlone
	}
	held, err := formed(hold, obj)
	if err != nil {
		return nil, false
	}
	out := &resting[T]{held: held, indexes: s.indexes.Load()}
	out.values, _ = extract(*out.indexes, obj) // Apply will find out why, and count it
	return out, true
}

// extract has all indexes compute the values of obj. A panic is an error.
func extract[T any](indexes []bound[T], obj T) (values []any, err error) {
	defer func() {
		if p := recover(); p != nil {
			values, err = nil, fmt.Errorf("index function panicked: %v", p)
		}
	}()
	values = make([]any, len(indexes))
	for i, x := range indexes {
		if values[i], err = x.extract(obj); err != nil {
			return nil, err
		}
	}
	return values, nil
}

// settle writes an object that is at rest as the newest version of key, which is at r.
func (t *txn[T]) settle(key object.Key, r ref, rest object.Resting[T], id *identity) (ref, error) {
	s := t.store
	own, ok := rest.(*resting[T])
	if ok && s.form != nil && own.values != nil && own.indexes == s.indexes.Load() {
		c := newCell[T](id)
		c.held = own.held
		var none T
		return t.write(key, r, unsafe.Pointer(c), none, unseen, own.values, id, lenient)
	}
	// It rests in another's form, or an index was added since, or fails.
	obj, err := awake(rest)
	if err != nil {
		return r, &ObjectError{Key: key, Cause: err}
	}
	return t.put(key, r, obj, unseen, id, lenient)
}

// awake returns the object that is at rest. A panic is an error.
func awake[T any](rest object.Resting[T]) (obj T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("store: an object at rest cannot be read: %v", p)
		}
	}()
	return rest.Object(), nil
}
