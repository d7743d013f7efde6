package workqueue

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// Lanes of groups and priorities without items are removed, however the items were added and
// taken.
func TestEmptyLanesAreRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Options[string]{Group: func(item string) string { return item }})
		take := func() {
			for q.Len() > 0 {
				item, _ := q.Get()
				q.Add(item)
				q.Done(item)
				item, _ = q.Get()
				q.Done(item)
			}
		}
		for i := range 2000 {
			item := fmt.Sprint(i)
			q.AddWith(Request{Priority: i}, item)
			q.AddWith(Request{Priority: i + 1}, item)
			q.AddWith(Request{Priority: i, After: 2 * time.Second}, item)
			q.AddWith(Request{Priority: i + 1, After: time.Second}, item)
			if i%10 == 9 {
				q.AddAfter(item, time.Second)
				take()
				q.Add(item) // waiting when its delay ends
				<-time.After(2 * time.Second)
				take()
			}
		}
		for what, n := range map[string]int{
			"lanes": len(q.line.lanes), "levels": len(q.line.levels), "names": len(q.line.names),
			"priorities": len(q.line.priorities), "in order": len(q.line.order),
		} {
			if n > 500 {
				t.Errorf("%d %s", n, what)
			}
		}
		q.AddWith(Request{Priority: 1, After: time.Hour}, "x")
		q.ShutDown()
		for id := range q.line.lanes {
			if n := q.line.lanes[id].refs; id > 0 && n != 0 {
				t.Errorf("lane %d has %d references", id, n)
			}
		}
	})
}

// Insertions and removals never lose another entry.
func TestIndexWithCollisions(t *testing.T) {
	q := New(Options[int]{})
	hash := func(i int) uint32 { return uint32(i * i % 7) } // many collisions
	ids := map[int]uint32{}
	for i := range 600 {
		k := i * 31 % 200
		if id, ok := ids[k]; ok {
			delete(ids, k)
			q.forget(id)
		} else {
			ids[k], _ = q.entry(k, hash(k))
		}
		for k, want := range ids {
			if id, _ := q.find(k, hash(k)); id != want {
				t.Fatalf("%d is entry %d, want %d", k, id, want)
			}
		}
		if q.index.n != len(ids) {
			t.Fatalf("%d entries, want %d", q.index.n, len(ids))
		}
	}
}
