package store_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/tarnproject/tarn/internal/soak"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/store"
)

// Records have 16 bits for the number of a namespace. The keys of namespaces beyond that are kept
// in full, and stay where they are when the namespace gets a number later.
func TestANamespaceThatGetsItsNumberLateKeepsItsFirstKey(t *testing.T) {
	soak.Measures(t)
	type row struct{ key object.Key }
	acc := object.Accessor[*row]{
		Key:     func(r *row) (object.Key, error) { return r.key, nil },
		UID:     func(*row) object.UID { return "" },
		Version: func(*row) object.Version { return "" },
	}
	s := store.Must(store.New(acc, store.Options[*row]{}))
	model := map[object.Key]*row{}
	put := func(key object.Key) {
		t.Helper()
		model[key] = &row{key}
		if err := s.Set(model[key]); err != nil {
			t.Fatal(err)
		}
	}
	key := func(namespace int, name string) object.Key {
		return object.Key{Namespace: fmt.Sprintf("n%05d", namespace), Name: name}
	}
	const namespaces = 1<<16 + 8
	all := make([]*row, 0, namespaces)
	for i := range namespaces {
		all = append(all, &row{key(i, "first")})
		model[all[i].key] = all[i]
	}
	if err := s.Replace("", all...); err != nil {
		t.Fatal(err)
	}
	for i := range 4 { // their numbers are free
		delete(model, key(i, "first"))
		s.Delete(key(i, "first"))
	}
	for i := range 8 { // the last four get one now, those before have none
		put(key(namespaces-1-i, "second"))
	}
	for i := range 8 {
		put(key(namespaces-1-i, "first")) // again
	}

	var got []object.Key
	for k := range s.Keys() {
		got = append(got, k)
	}
	if distinct := len(slices.Compact(slices.Clone(got))); distinct != len(model) || len(got) != distinct || s.Len() != distinct {
		t.Errorf("%d objects, %d keys of which %d differ; want %d", s.Len(), len(got), distinct, len(model))
	}
	for k, want := range model {
		if obj, ok := s.Get(k); !ok || obj != want {
			t.Fatalf("%s: got %v, %v", k, obj, ok)
		}
	}
	for i := range 8 {
		if k := key(namespaces-1-i, "first"); !s.Delete(k) {
			t.Errorf("%s could not be deleted", k)
		} else if _, ok := s.Get(k); ok {
			t.Errorf("%s is still there after its deletion", k)
		}
	}
}
