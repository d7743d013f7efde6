package mvcc

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tarnproject/tarn/object"
	"pgregory.net/rapid"
)

// world is a Map from names to numbers, Postings of the numbers, and plain Go maps of what both
// must show.
type world struct {
	h     *History[int]
	m     *Map
	post  *Postings[int]
	place map[uint32]Place
	now   map[string]int
}

func newWorld(compare func(a, b int) int) *world {
	w := &world{h: NewHistory(0), place: map[uint32]Place{}, now: map[string]int{}}
	w.m = NewMap(w.h)
	w.post = NewPostings(w.h, nil, compare, func(id uint32, to Place) { w.place[id] = to })
	return w
}

func (w *world) put(name string, value int) {
	k := object.Key{Name: name}
	r := w.m.Lookup(k)
	old := w.m.Live(r)
	r = w.m.Put(k, r, Value(&value))
	w.now[name] = value
	if old != nil {
		if *(*int)(old) == value {
			return
		}
		w.post.Remove(w.place[r.ID], r.ID, false)
	}
	w.place[r.ID] = w.post.Add(value, r.ID)
}

func (w *world) delete(name string) {
	r := w.m.Lookup(object.Key{Name: name})
	if w.m.Live(r) == nil {
		return
	}
	created := w.m.Created(r)
	w.m.Delete(r)
	w.post.Remove(w.place[r.ID], r.ID, created)
	delete(w.place, r.ID)
	delete(w.now, name)
}

func (w *world) publish() {
	w.h.Publish(len(w.now))
	w.post.Settle()
}

// check compares the postings of a pinned state with what they must show.
func (w *world) check(t *rapid.T, s *State[int], want map[string]int) {
	members := map[int][]string{}
	for name, value := range want {
		members[value] = append(members[value], name)
	}
	var values []int
	w.post.Values(nil, func(value int, m *Members[int]) bool {
		got := w.members(s, value, m)
		if len(got) == 0 {
			return true
		}
		values = append(values, value)
		slices.Sort(members[value])
		if !slices.Equal(got, members[value]) {
			t.Fatalf("revision %d: value %d has %v, want %v", s.Revision, value, got, members[value])
		}
		if w.post.Find(value) != m {
			t.Fatalf("revision %d: Find(%d) is not what Values yields", s.Revision, value)
		}
		return true
	})
	if w.post.compare == nil {
		slices.Sort(values)
	}
	if wanted := slices.Sorted(maps.Keys(members)); !slices.Equal(values, wanted) {
		t.Fatalf("revision %d: values %v, want %v", s.Revision, values, wanted)
	}
	if w.post.compare != nil {
		from := 3
		w.post.Values(&from, func(value int, _ *Members[int]) bool {
			if value < from {
				t.Fatalf("Values from %d yields %d", from, value)
			}
			return true
		})
	}
}

// members returns the names that have a value in a state.
func (w *world) members(s *State[int], value int, m *Members[int]) (names []string) {
	m.Visit(func(id uint32) bool {
		v := w.m.At(id, s.Revision)
		return v != nil && *(*int)(v) == value
	}, func(id uint32) bool {
		names = append(names, w.m.Key(id).Name)
		return true
	})
	slices.Sort(names)
	return names
}

// TestPostingsShowEveryPinnedRevision writes at random, so that values appear and disappear and
// their cells grow and shrink, while some revisions are pinned.
func TestPostingsShowEveryPinnedRevision(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		compare := cmp.Compare[int]
		if rapid.Bool().Draw(t, "unordered") {
			compare = nil
		}
		w := newWorld(compare)
		type pin struct {
			state *State[int]
			want  map[string]int
		}
		var pins []pin
		size := 1 + r.IntN(300)
		for range 10 {
			grow, values := r.IntN(3) > 0, 1+r.IntN(40)
			for range r.IntN(150) {
				name := fmt.Sprintf("pod-%04d", r.IntN(size))
				if grow || r.IntN(8) == 0 {
					w.put(name, r.IntN(values))
				} else {
					w.delete(name)
				}
			}
			w.publish()
			switch r.IntN(3) {
			case 0:
				pins = append(pins, pin{w.h.Pin(), maps.Clone(w.now)})
			case 1:
				if len(pins) > 0 {
					i := r.IntN(len(pins))
					pins[i].state.Unpin()
					pins = slices.Delete(pins, i, i+1)
				}
			}
			now := w.h.Pin()
			w.check(t, now, w.now)
			now.Unpin()
			if len(pins) > 0 {
				p := pins[r.IntN(len(pins))]
				w.check(t, p.state, p.want)
			}
		}
		for _, p := range pins {
			w.check(t, p.state, p.want)
			p.state.Unpin()
		}
		w.h.Sweep()
		w.post.Settle()
		w.nothingLeft(t)
	})
}

// nothingLeft checks that, without pins, there is one cell for each id and none is loose.
func (w *world) nothingLeft(t *rapid.T) {
	if len(w.post.loose) != 0 || len(w.post.coming) != 0 || len(w.post.fresh) != 0 {
		t.Fatalf("%d loose, %d coming, %d fresh cells", len(w.post.loose), len(w.post.coming), len(w.post.fresh))
	}
	all, used, values := *w.post.all.Load(), 0, 0
	for i := range all {
		if m := all[i].Load(); m != nil {
			values++
			used += int(m.ids.used)
			if int(m.ids.used) != m.Count() {
				t.Fatalf("value %d: %d cells in use for %d members", m.value, m.ids.used, m.Count())
			}
		}
	}
	if used != len(w.now) || values != w.post.table.Load().ids {
		t.Fatalf("%d cells for %d keys; %d values, %d in the table", used, len(w.now), values, w.post.table.Load().ids)
	}
}

// TestLongPinKeepsMemoryBounded churns under one pin that is never released: what is kept
// must follow what the pin sees, not the number of writes.
func TestLongPinKeepsMemoryBounded(t *testing.T) {
	w := newWorld(nil)
	for i := range 100 {
		w.put(fmt.Sprint("old-", i), i%5)
	}
	w.publish()
	pin := w.h.Pin()
	defer pin.Unpin()
	size := func() [4]int {
		return [4]int{w.h.Retained(), w.m.Len(), len(w.post.loose), len(w.post.coming)}
	}
	churn := func(rounds int) {
		for i := range rounds {
			w.put(fmt.Sprint("new-", i%50), i%7)
			w.put(fmt.Sprint("old-", i%100), i%7)
			w.publish()
			w.delete(fmt.Sprint("new-", (i+25)%50))
			w.delete(fmt.Sprint("old-", (i+50)%100))
			w.publish()
		}
	}
	churn(300)
	before := size()
	churn(3000)
	for i, after := range size() {
		if after > 2*before[i]+200 {
			t.Errorf("grew with the number of writes: %v, then %v", before, size())
		}
	}
}
