package clientgo

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/tools/cache"

	"github.com/tarnproject/tarn/internal/soak"
)

// TestReadersAlwaysFindWhatIsThere has readers beside a writer under whose hands an object
// changes its type, which moves it to another slot, and others come and go, which makes the
// slots anew. It is never missed, and what is removed is never found empty.
func TestReadersAlwaysFindWhatIsThere(t *testing.T) {
	s := newThreadSafe(cache.Indexers{})
	s.Add("stays", new(int))
	var over atomic.Bool
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			for !over.Load() {
				switch obj, ok := s.Get("stays"); is := obj.(type) {
				case *int:
					ok = ok && is != nil
					if !ok {
						t.Errorf("found %v, %t", obj, ok)
						return
					}
				case string:
					if is != "text" {
						t.Errorf("found %q", is)
						return
					}
				default:
					t.Errorf("found %v, %t", obj, ok)
					return
				}
				if obj, ok := s.Get("comes-7"); ok && obj.(*int) == nil {
					t.Error("found nothing in the place of what was removed")
					return
				}
			}
		})
	}
	for round := range soak.Rounds(300) {
		for i := range 30 {
			s.Add(fmt.Sprint("comes-", i), new(int))
		}
		if round%2 == 0 {
			s.Update("stays", "text")
		} else {
			s.Update("stays", new(int))
		}
		for i := range 30 {
			s.Delete(fmt.Sprint("comes-", i))
		}
	}
	over.Store(true)
	readers.Wait()
	if live, keys := s.contents.Load().objects.live, s.ListKeys(); live != 1 || len(keys) != 1 {
		t.Errorf("%d live, keys %q; want one", live, keys)
	}
}

// TestATableForgetsWhatIsRemoved looks whether a slot that is not used again keeps its
// object alive.
func TestATableForgetsWhatIsRemoved(t *testing.T) {
	tab := newTable(0)
	tab.add("a", new([1 << 10]byte), nil)
	at := tab.find("a")
	tab.remove(at)
	if obj, _ := at.load().(*[1 << 10]byte); obj != nil || at.entry != nil {
		t.Errorf("the slot still has %T, %v", obj, at.entry)
	}
	if obj, ok := tab.get("a"); ok {
		t.Errorf("found %v", obj)
	}
}
