package mvcc

import (
	"fmt"
	"sync"
	"testing"

	"github.com/tarnproject/tarn/internal/soak"
	"github.com/tarnproject/tarn/object"
)

// TestMoreNamespacesThanNumbers has more namespaces than there are numbers: first a few at a
// time, then all at once.
func TestMoreNamespacesThanNumbers(t *testing.T) {
	soak.Measures(t)
	h := NewHistory(0)
	m := NewMap(h)
	value := Value(new(int))
	key := func(i int) object.Key { return object.Key{Namespace: fmt.Sprint("ns-", i), Name: "x"} }
	put := func(i int) { m.Put(key(i), m.Lookup(key(i)), value) }
	has := func(i int, want bool) {
		t.Helper()
		if v, _ := m.Find(key(i), h.Current().Revision); (v != nil) != want {
			t.Fatalf("%v found: %v, want %v", key(i), v != nil, want)
		}
	}
	const all = noNumber * 2
	for i := range all {
		put(i)
		if i%1000 == 0 {
			h.Publish(0)
			has(i, true)
			has(i-1, false)
		}
		m.Delete(m.Lookup(key(i)))
	}
	h.Publish(0)
	if n := len(*m.spaces.list.Load()); n > 4096 {
		t.Errorf("%d numbers for namespaces of which few were there at a time", n)
	}
	for i := range noNumber + 1000 {
		put(i)
	}
	h.Publish(0)
	for i := range noNumber + 1000 {
		has(i, true)
		if got := m.Key(m.Lookup(key(i)).ID); got != key(i) {
			t.Fatalf("the key of %v is %v", key(i), got)
		}
		if i%1000 == 0 || i > noNumber {
			n := 0
			m.Namespace(key(i).Namespace, func(id uint32) bool {
				n++
				return m.Key(id) == key(i)
			})
			if n != 1 {
				t.Fatalf("%d keys in the namespace of %v", n, key(i))
			}
		}
	}
	has(all, false)
}

// TestReadersWhileNamespaceNumbersAreReused has readers look up keys that differ only in their
// namespace, while namespaces come and go and their numbers are given to others.
func TestReadersWhileNamespaceNumbersAreReused(t *testing.T) {
	const window = 100 // the state of payload n has the namespaces from n up to n+window
	h := NewHistory(0)
	m := NewMap(h)
	key := func(i int) object.Key { return object.Key{Namespace: fmt.Sprint("ns-", i), Name: "x"} }
	put := func(i int) { m.Put(key(i), m.Lookup(key(i)), Value(&i)) }
	for i := range window {
		put(i)
	}
	h.Publish(0)
	var readers sync.WaitGroup
	done := make(chan struct{})
	for range 2 {
		readers.Go(func() {
			for step := 0; ; step++ {
				select {
				case <-done:
					return
				default:
				}
				s := h.Pin()
				first := s.Payload
				i := first - window/2 + step*7%(2*window)
				v, _ := m.Find(key(i), s.Revision)
				if exists := i >= first && i < first+window; (v != nil) != exists || v != nil && *(*int)(v) != i {
					t.Errorf("state %d, %v: found %v, want it found: %v", first, key(i), v != nil, exists)
					s.Unpin()
					return
				}
				s.Unpin()
			}
		})
	}
	for n := range soak.Rounds(20_000) {
		put(n + window)
		m.Delete(m.Lookup(key(n)))
		h.Publish(n + 1)
	}
	close(done)
	readers.Wait()
	if n := len(*m.spaces.list.Load()); n > 4*window {
		t.Errorf("%d numbers for %d namespaces at a time: none was reused", n, window)
	}
}
