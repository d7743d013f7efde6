package clientgo

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
)

// AddIndexers implements cache.ThreadSafeStore.
func (s *threadSafe) AddIndexers(newIndexers cache.Indexers) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.contents.Load()
	if both := sets.KeySet(old.funcs).Intersection(sets.KeySet(newIndexers)); both.Len() > 0 {
		return fmt.Errorf("indexer conflict: %v", both)
	}
	next := &contents{objects: old.objects, all: old.all, indexes: old.indexes, funcs: maps.Clone(old.funcs)}
	maps.Copy(next.funcs, newIndexers)
	var failed error
	for _, name := range slices.Sorted(maps.Keys(newIndexers)) {
		if err := next.addIndex(name, newIndexers[name]); err != nil {
			failed = err
		}
	}
	s.contents.Store(next)
	if failed != nil {
		panic(failed)
	}
	return nil
}

// GetIndexers implements cache.ThreadSafeStore.
func (s *threadSafe) GetIndexers() cache.Indexers { return s.contents.Load().funcs }

// viewOf returns what has a value in an index, which the caller may read and not change.
func (s *threadSafe) viewOf(x *index, value string) []chunk {
	r := x.roll(value)
	if r == nil {
		return nil
	}
	return s.view(r)
}

// ByIndex implements cache.ThreadSafeStore.
func (s *threadSafe) ByIndex(indexName, indexedValue string) ([]any, error) {
	x, err := s.contents.Load().named(indexName)
	if err != nil {
		return nil, err
	}
	return objectsOf(s.viewOf(x, indexedValue)), nil
}

// Index implements cache.ThreadSafeStore.
func (s *threadSafe) Index(indexName string, obj any) ([]any, error) {
	x, err := s.contents.Load().named(indexName)
	if err != nil {
		return nil, err
	}
	values, err := x.values(obj)
	if err != nil {
		return nil, err
	}
	if len(values) == 1 {
		return objectsOf(s.viewOf(x, values[0])), nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	found, seen := []any{}, map[*entry]bool{}
	for _, value := range values {
		r := x.roll(value)
		if r == nil {
			continue
		}
		for _, e := range r.who {
			if !seen[e] {
				seen[e] = true
				found = append(found, e.slot.load())
			}
		}
	}
	return found, nil
}

// IndexKeys implements cache.ThreadSafeStore.
func (s *threadSafe) IndexKeys(indexName, indexedValue string) ([]string, error) {
	x, err := s.contents.Load().named(indexName)
	if err != nil {
		return nil, err
	}
	keys := []string{}
	s.mu.Lock()
	if r := x.roll(indexedValue); r != nil {
		keys = keysOf(r)
	}
	s.mu.Unlock()
	slices.Sort(keys)
	return keys, nil
}

// ListIndexFuncValues implements cache.ThreadSafeStore.
func (s *threadSafe) ListIndexFuncValues(indexName string) []string {
	values := []string{}
	s.mu.Lock()
	defer s.mu.Unlock()
	if x, err := s.contents.Load().named(indexName); err == nil {
		values = slices.AppendSeq(values, x.rolls.keys)
	}
	return values
}
