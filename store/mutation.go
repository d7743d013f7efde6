package store

import (
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/tarnproject/tarn/internal/mvcc"
	"github.com/tarnproject/tarn/object"
)

// Mutation reports that a caller wrote to an object of the store. Objects are shared and
// read-only.
type Mutation struct {
	Key object.Key
	// Path is the first field that differs, such as "Spec.Containers[0].Image".
	Path string
	// Was and Is are the field's values before and after, as text. For a Secret both
	// are masked.
	Was, Is string
}

// String returns the mutation in one line.
func (m Mutation) String() string {
	return fmt.Sprintf("object %q was written to by a reader: %s was %s, is %s", m.Key, m.Path, m.Was, m.Is)
}

// mutable is an [object.Encoded] that detects writes to its object; path is empty if there were
// none. Readers may read the object at the same time. copy may be nil.
type mutable[T any] interface {
	mutation(copy func(T) T) (path, was, is string)
}

// detect turns the detector on. A decoded store keeps a copy beside each object; the encoded form has what
// it needs.
func (s *Store[T]) detect(report func(Mutation), copy func(T) T) error {
	if copy == nil {
		copy = deepCopier[T]()
	}
	s.onMutation, s.copyObject = report, copy
	if s.form == nil && copy == nil {
		return errors.New("store: the mutation detector needs Options.Copy: the type has no DeepCopyObject")
	}
	return nil
}

// deepCopier finds DeepCopyObject, which every API type has, without depending on the
// package that declares its result. That of an embedded type does not copy T.
func deepCopier[T any]() func(T) T {
	t := reflect.TypeFor[T]()
	if _, ok := t.MethodByName("DeepCopyObject"); !ok {
		return nil
	}
	if t.Kind() == reflect.Pointer {
		out := reflect.New(t.Elem()).MethodByName("DeepCopyObject").Call(nil)
		if _, ok := out[0].Interface().(T); !ok {
			return nil
		}
	}
	return func(obj T) T {
		out := reflect.ValueOf(obj).MethodByName("DeepCopyObject").Call(nil)
		return out[0].Interface().(T)
	}
}

// guardedObject is a decoded object under the detector.
type guardedObject[T any] struct{ object, copy T }

func guard[T any](obj T, copy func(T) T) (h object.Encoded[T], err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("store: copying a value of type %T panicked: %v", obj, r)
		}
	}()
	return guardedObject[T]{object: obj, copy: copy(obj)}, nil
}

// Get implements [object.Encoded].
func (h guardedObject[T]) Get() T { return h.object }

func (h guardedObject[T]) mutation(func(T) T) (path, was, is string) {
	return firstDifference(h.copy, h.object)
}

// checkMutation checks an object that is about to be superseded.
func (s *Store[T]) checkMutation(k object.Key, p mvcc.Value) {
	if s.onMutation == nil {
		return
	}
	held, ok := cellAt[T](p).held.(mutable[T])
	if !ok {
		return
	}
	if path, was, is := held.mutation(s.copyObject); path != "" {
		s.reports = append(s.reports, Mutation{Key: cloneKey(k), Path: path, Was: was, Is: is})
	}
}

// report calls OnMutation for each mutation found. It runs last, because that function may panic
// and the transaction must be complete.
func (s *Store[T]) report() {
	for len(s.reports) > 0 {
		m := s.reports[0]
		s.reports = s.reports[1:]
		s.onMutation(m)
	}
	s.reports = nil
}

// CheckMutations checks every object and reports those that were written to, to
// [Options.OnMutation]. It does nothing when the detector is off. A mutated object is
// reported by every check until it is replaced.
func (s *Store[T]) CheckMutations() {
	if s.onMutation == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	snap := Snapshot[T]{store: s, state: s.history.Pin()}
	defer snap.state.Unpin() // it is the current state: nothing to sweep
	snap.each(func(k object.Key, p mvcc.Value) bool {
		s.checkMutation(k, p)
		return true
	})
	s.report()
}

// firstDifference walks two values and returns the first field in which they differ, with
// both values as text; an empty path if there is none.
func firstDifference(was, is any) (path, wasText, isText string) {
	w := walker{visited: map[[2]uintptr]bool{}}
	a, b := reflect.ValueOf(was), reflect.ValueOf(is)
	if w.same(a, b, "") {
		return "", "", ""
	}
	if w.path == "" {
		w.path = "(object)"
	}
	if isSecret(a) {
		return w.path, "(masked)", "(masked)"
	}
	return w.path, w.was, w.is
}

// isSecret reports whether v is a Secret, typed or not. Its values must not be reported.
func isSecret(v reflect.Value) bool {
	if u, ok := v.Interface().(interface{ UnstructuredContent() map[string]any }); ok {
		return u.UnstructuredContent()["kind"] == "Secret"
	}
	for v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	return v.IsValid() && v.Type().Name() == "Secret"
}

// walker compares two values of one type, as reflect.DeepEqual does, but remembers where
// they differ, and takes an empty slice or map for a nil one, which forms may do too.
type walker struct {
	path, was, is string
	visited       map[[2]uintptr]bool
}

func (w *walker) differ(a, b reflect.Value, path string) bool {
	w.path, w.was, w.is = path, text(a), text(b)
	return false
}

func text(v reflect.Value) string {
	const most = 200
	for v.IsValid() && v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return "<nil>"
		}
		v = v.Elem()
	}
	if !v.IsValid() {
		return "(absent)"
	}
	s := fmt.Sprintf("%v", v)
	if v.Kind() == reflect.String {
		s = fmt.Sprintf("%q", v.String())
	}
	if len(s) > most {
		s = s[:most] + "…"
	}
	return s
}

func (w *walker) same(a, b reflect.Value, path string) bool {
	if a.IsValid() != b.IsValid() || a.IsValid() && a.Type() != b.Type() {
		return w.differ(a, b, path)
	}
	if !a.IsValid() {
		return true
	}
	if ta, ok := timeOf(a); ok {
		if tb, _ := timeOf(b); !ta.Equal(tb) {
			return w.differ(a, b, path)
		}
		return true
	}
	switch a.Kind() {
	case reflect.Pointer, reflect.Interface:
		return w.sameBehind(a, b, path)
	case reflect.Struct:
		for i := range a.NumField() {
			if !w.same(a.Field(i), b.Field(i), join(path, a.Type().Field(i))) {
				return false
			}
		}
		return true
	case reflect.Slice, reflect.Array:
		if a.Len() != b.Len() {
			return w.differ(a, b, path)
		}
		for i := range a.Len() {
			if !w.same(a.Index(i), b.Index(i), fmt.Sprintf("%s[%d]", path, i)) {
				return false
			}
		}
		return true
	case reflect.Map:
		return w.sameMap(a, b, path)
	case reflect.Func, reflect.Chan, reflect.UnsafePointer:
		if a.Pointer() != b.Pointer() {
			return w.differ(a, b, path)
		}
		return true
	}
	if !a.Equal(b) {
		return w.differ(a, b, path)
	}
	return true
}

func (w *walker) sameBehind(a, b reflect.Value, path string) bool {
	if a.IsNil() || b.IsNil() {
		if a.IsNil() != b.IsNil() {
			return w.differ(a, b, path)
		}
		return true
	}
	if a.Kind() == reflect.Pointer {
		pair := [2]uintptr{a.Pointer(), b.Pointer()}
		if pair[0] == pair[1] || w.visited[pair] {
			return true
		}
		w.visited[pair] = true
	}
	return w.same(a.Elem(), b.Elem(), path)
}

func (w *walker) sameMap(a, b reflect.Value, path string) bool {
	for it := a.MapRange(); it.Next(); {
		at := fmt.Sprintf("%s[%s]", path, text(it.Key()))
		if !w.same(it.Value(), b.MapIndex(it.Key()), at) {
			return false
		}
	}
	for it := b.MapRange(); it.Next(); {
		if !a.MapIndex(it.Key()).IsValid() {
			return w.differ(reflect.Value{}, it.Value(), fmt.Sprintf("%s[%s]", path, text(it.Key())))
		}
	}
	return true
}

// timeOf returns v as a time. Equal times may have different fields.
func timeOf(v reflect.Value) (time.Time, bool) {
	if v.Type() != reflect.TypeFor[time.Time]() || !v.CanInterface() {
		return time.Time{}, false
	}
	return v.Interface().(time.Time), true
}

func join(path string, f reflect.StructField) string {
	switch {
	case f.Anonymous:
		return path
	case path == "":
		return f.Name
	}
	return path + "." + f.Name
}
