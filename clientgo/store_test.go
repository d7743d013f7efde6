package clientgo_test

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	"k8s.io/client-go/tools/cache"
	"pgregory.net/rapid"

	"github.com/tarnproject/tarn/clientgo"
)

// letters is an index function that may return a value twice.
func letters(obj any) (values []string, err error) {
	for _, letter := range fmt.Sprint(obj) {
		values = append(values, string(letter))
	}
	return values, nil
}

// TestAStoreAgreesWithAMap makes random writes to a store and to a map. A list that a caller has
// received does not change with later writes.
func TestAStoreAgreesWithAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := clientgo.NewThreadSafeStore(cache.Indexers{"letters": letters}, nil)
		model := map[string]any{}
		type listed struct{ list, want []any }
		var lists []listed
		keys := rapid.SampledFrom([]int{5, 40, 700}).Draw(t, "keys")
		objects := []any{"a", "ab", "ba", "aa", 7, nil}
		for step := range rapid.IntRange(1, 3000).Draw(t, "steps") {
			n := rapid.IntRange(0, 1<<20).Draw(t, "n")
			key := fmt.Sprint("key-", n%keys)
			switch op := n / 1000 % 100; {
			case op < 70:
				obj := objects[n%len(objects)]
				s.Update(key, obj)
				model[key] = obj
			case op < 95:
				s.Delete(key)
				delete(model, key)
			case op < 96:
				s.Replace(maps.Clone(model), "")
			default:
				list := s.List()
				if values := s.ListIndexFuncValues("letters"); op == 99 && len(values) > 0 {
					list, _ = s.ByIndex("letters", values[0])
				}
				lists = append(lists, listed{list, slices.Clone(list)})
			}
			if item, exists := s.Get(key); exists != hasKey(model, key) || item != model[key] {
				t.Fatalf("step %d: got %v, %v of %s; want %v", step, item, exists, key, model[key])
			}
		}
		if got, want := s.ListKeys(), slices.Collect(maps.Keys(model)); !sameTexts(got, want) {
			t.Fatalf("keys %q; want %q", got, want)
		}
		if got, want := s.List(), slices.Collect(maps.Values(model)); !sameTexts(got, want) {
			t.Fatalf("list %v; want %v", got, want)
		}
		byLetter := map[string][]any{}
		for _, obj := range model {
			if obj != nil {
				values, _ := letters(obj)
				for _, v := range slices.Compact(slices.Sorted(slices.Values(values))) {
					byLetter[v] = append(byLetter[v], obj)
				}
			}
		}
		if got := s.ListIndexFuncValues("letters"); !sameTexts(got, slices.Collect(maps.Keys(byLetter))) {
			t.Fatalf("values %q; want those of %v", got, byLetter)
		}
		for v, want := range byLetter {
			if got, _ := s.ByIndex("letters", v); !sameTexts(got, want) {
				t.Fatalf("by %s: %v; want %v", v, got, want)
			}
		}
		for i, l := range lists {
			if !slices.Equal(l.list, l.want) {
				t.Fatalf("list %d has changed from %v to %v", i, l.want, l.list)
			}
		}
	})
}

func hasKey(m map[string]any, key string) bool { _, ok := m[key]; return ok }

func sameTexts[E any](got, want []E) bool {
	sorted := func(of []E) []string {
		texts := []string{}
		for _, v := range of {
			texts = append(texts, fmt.Sprint(v))
		}
		slices.Sort(texts)
		return texts
	}
	return slices.Equal(sorted(got), sorted(want))
}

// TestReadersSeeWholeTransactions has readers beside a writer that writes the next number to two
// objects in one transaction.
func TestReadersSeeWholeTransactions(t *testing.T) {
	s := clientgo.NewThreadSafeStore(cache.Indexers{"all": func(any) ([]string, error) { return []string{"x"}, nil }}, nil).(cache.ThreadSafeStoreWithTransaction)
	write := func(n int) {
		s.Transaction(
			cache.ThreadSafeStoreTransaction{Key: "a", Transaction: cache.Transaction{Type: cache.TransactionTypeUpdate, Object: n}},
			cache.ThreadSafeStoreTransaction{Key: "b", Transaction: cache.Transaction{Type: cache.TransactionTypeUpdate, Object: n}})
	}
	write(0)
	const last = 3000
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			for seen := 0; seen < last; {
				a, _ := s.Get("a")
				b, _ := s.Get("b")
				list := s.List()
				some, _ := s.ByIndex("all", "x")
				if a.(int) < seen || b.(int) < a.(int) || list[0] != list[1] || list[0].(int) < b.(int) || some[0] != some[1] || some[0].(int) < list[0].(int) {
					t.Errorf("after %d: a is %v, then b is %v, then the list %v, then by index %v", seen, a, b, list, some)
					return
				}
				seen = some[0].(int)
			}
		})
	}
	for n := range last {
		write(n + 1)
		if n%7 == 0 {
			s.Replace(map[string]any{"a": n + 1, "b": n + 1}, "")
		}
	}
	readers.Wait()
}
