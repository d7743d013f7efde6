package mvcc

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/tarnproject/tarn/internal/soak"
	"github.com/tarnproject/tarn/object"
	"pgregory.net/rapid"
)

// names sorts strings, with and without digests.
func names(digests bool) Sorting[string] {
	s := Sorting[string]{Compare: cmp.Compare[string]}
	if digests {
		s.Common = func(a, b string) int {
			n := 0
			for n < len(a) && n < len(b) && a[n] == b[n] {
				n++
			}
			return n
		}
		s.First = func(k string, n int) string { return k[:n] }
		s.Between = func(a, b string) string { return b[:s.Common(a, b)+1] }
		s.Digest = func(k string, skip int) uint32 {
			var d uint32
			for i := range 4 {
				d <<= 8
				if skip+i < len(k) {
					d |= uint32(k[skip+i])
				}
			}
			return d
		}
	}
	return s
}

// TestOrderAgreesWithSortedSlice inserts, removes and rebuilds at random, with enough keys
// that leaves and inner nodes split and merge.
func TestOrderAgreesWithSortedSlice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		keys := map[uint32]string{}
		taken := map[string]uint32{}
		o := NewOrder(names(rapid.Bool().Draw(t, "digests")), Keys[uint32, string]{Of: func(id uint32) string { return keys[id] }})
		// Few bytes and long common parts make equal digests likely.
		draw := func() string {
			return strings.Repeat("ns-", r.IntN(3)) + fmt.Sprintf("%0*b", 1+r.IntN(12), r.IntN(1<<r.IntN(13)))
		}
		var next uint32
		for range rapid.IntRange(0, 6).Draw(t, "phases") {
			grow := r.IntN(3) > 0
			for range r.IntN(600) {
				k := draw()
				id, there := taken[k]
				switch {
				case grow && !there:
					keys[next], taken[k] = k, next
					o.Insert(next, k)
					next++
				case !grow && there:
					o.Remove(id, k)
					delete(taken, k)
					delete(keys, id)
				}
			}
			if r.IntN(4) == 0 {
				o.Build(sortedIDs(keys))
			}
			want := sortedIDs(keys)
			var got []uint32
			o.Leaves(collect(&got))
			if !slices.Equal(got, want) {
				t.Fatalf("Leaves: %d ids, want %d", len(got), len(want))
			}
			for range 20 {
				from := draw()
				at, _ := slices.BinarySearchFunc(want, from, func(id uint32, k string) int { return cmp.Compare(keys[id], k) })
				got = nil
				o.From(from, collect(&got))
				if !slices.Equal(got, want[at:]) {
					t.Fatalf("From(%q): %d ids, want %d", from, len(got), len(want)-at)
				}
			}
		}
	})
}

func collect(into *[]uint32) func([]Cell[uint32], uint64) bool {
	return func(cells []Cell[uint32], marks uint64) bool {
		for i, c := range cells {
			if !Gone(marks, i) {
				*into = append(*into, c.Elem)
			}
		}
		return true
	}
}

func sortedIDs(keys map[uint32]string) []uint32 {
	return slices.SortedFunc(maps.Keys(keys), func(a, b uint32) int { return cmp.Compare(keys[a], keys[b]) })
}

// world is a map, its order and postings of its values, with what they must show.
type world struct {
	h     *History[int]
	m     *Map
	order *Order[uint32, string]
	post  *Postings[int]
	place map[uint32]Place
	now   map[string]int
}

func newWorld() *world {
	w := &world{h: NewHistory(0), place: map[uint32]Place{}, now: map[string]int{}}
	w.m = NewMap(w.h, func(id uint32, k object.Key) { w.order.Remove(id, k.Name) })
	w.order = NewOrder(names(true), Keys[uint32, string]{
		Of:   func(id uint32) string { return w.m.Key(id).Name },
		View: w.m.View,
		In: func(view any, id uint32) (string, bool) {
			k, ok := w.m.KeyIn(view, id)
			return k.Name, ok
		},
		Shifts: w.m.Shifts,
	})
	w.post = NewPostings(w.h, nil, Sorting[int]{Compare: cmp.Compare[int]}, func(id uint32, to Place) { w.place[id] = to })
	return w
}

func (w *world) put(name string, value int) {
	k := object.Key{Name: name}
	r := w.m.Lookup(k)
	old := w.m.Live(r)
	fresh := !r.Known()
	r = w.m.Put(k, r, unsafe.Pointer(&value))
	if fresh {
		w.order.Insert(r.ID, w.m.Key(r.ID).Name)
	}
	w.now[name] = value
	if old != nil {
		if *(*int)(old) == value {
			return
		}
		w.post.Remove(w.place[r.ID], r.ID, false)
	}
	w.place[r.ID] = w.post.Add(value, r.ID)
}

func (w *world) kill(name string) {
	r := w.m.Lookup(object.Key{Name: name})
	if w.m.Live(r) == nil {
		return
	}
	newborn := w.m.Newborn(r)
	w.m.Kill(r)
	w.post.Remove(w.place[r.ID], r.ID, newborn)
	delete(w.place, r.ID)
	delete(w.now, name)
}

func (w *world) publish() {
	w.h.Publish(len(w.now))
	w.post.Settle()
}

// check compares a pinned state with what it must show.
func (w *world) check(t *rapid.T, s *State[int], want map[string]int) {
	var got []string
	w.order.Leaves(func(cells []Cell[uint32], marks uint64) bool {
		for i, c := range cells {
			id := c.Elem
			if Gone(marks, i) {
				continue
			}
			if v := w.m.At(id, s.Revision); v != nil {
				name := w.m.Key(id).Name
				got = append(got, name)
				if *(*int)(v) != want[name] {
					t.Fatalf("revision %d: %s is %d, want %d", s.Revision, name, *(*int)(v), want[name])
				}
			}
		}
		return true
	})
	if !slices.Equal(got, slices.Sorted(maps.Keys(want))) {
		t.Fatalf("revision %d: %d keys, want %d", s.Revision, len(got), len(want))
	}
	for name, value := range want {
		v, _ := w.m.Find(object.Key{Name: name}, s.Revision)
		if v == nil || *(*int)(v) != value {
			t.Fatalf("revision %d: Find(%s) = %v, want %d", s.Revision, name, v, value)
		}
	}
	members := map[int][]string{}
	for name, value := range want {
		members[value] = append(members[value], name)
	}
	w.post.Values(nil, func(value int, m *Members[int]) bool {
		var got []string
		m.Visit(func(id uint32) bool {
			v := w.m.At(id, s.Revision)
			return v != nil && *(*int)(v) == value
		}, func(id uint32) bool {
			got = append(got, w.m.Key(id).Name)
			return true
		})
		slices.Sort(got)
		slices.Sort(members[value])
		if !slices.Equal(got, members[value]) {
			t.Fatalf("revision %d: value %d has %v, want %v", s.Revision, value, got, members[value])
		}
		delete(members, value)
		return true
	})
	if len(members) > 0 {
		t.Fatalf("revision %d: values without members: %v", s.Revision, members)
	}
}

// TestEveryPinnedRevisionStays writes at random over enough keys that tables are rebuilt,
// leaves split and cells grow and shrink, while some revisions are pinned.
func TestEveryPinnedRevisionStays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		w := newWorld()
		type pin struct {
			state *State[int]
			want  map[string]int
		}
		var pins []pin
		space := 1 + r.IntN(600)
		for range 8 {
			grow := r.IntN(3) > 0
			for range r.IntN(300) {
				name := fmt.Sprintf("pod-%04d", r.IntN(space))
				if grow || r.IntN(8) == 0 {
					w.put(name, r.IntN(6))
				} else {
					w.kill(name)
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
			for _, p := range pins {
				w.check(t, p.state, p.want)
			}
		}
		for _, p := range pins {
			p.state.Unpin()
		}
		w.h.Sweep()
		w.post.Settle()
		w.nothingLeft(t)
	})
}

// nothingLeft checks that, when nobody holds an old revision, just what is there is kept.
func (w *world) nothingLeft(t *rapid.T) {
	if w.h.Retained() != 0 || len(w.h.older) != 0 {
		t.Fatalf("%d retained for %d states that nobody holds", w.h.Retained(), len(w.h.older))
	}
	if w.m.Len() != len(w.now) {
		t.Fatalf("%d keys in the table, want %d", w.m.Len(), len(w.now))
	}
	w.m.Since(0, func(id uint32) bool {
		if w.m.record(id).older.Load() != nil {
			t.Fatalf("%v has an old version", w.m.Key(id))
		}
		return true
	})
	if len(w.post.loose) != 0 || len(w.post.coming) != 0 || len(w.post.fresh) != 0 {
		t.Fatalf("%d loose, %d coming, %d fresh cells", len(w.post.loose), len(w.post.coming), len(w.post.fresh))
	}
	used := 0
	w.post.Values(nil, func(value int, m *Members[int]) bool {
		used += int(m.used)
		if int(m.used) != m.Count() {
			t.Fatalf("value %d: %d cells in use for %d members", value, m.used, m.Count())
		}
		return true
	})
	if used != len(w.now) {
		t.Fatalf("%d cells for %d keys", used, len(w.now))
	}
}

// TestLongPinKeepsMemoryBounded churns under one pin that is never released: what is kept
// must follow what the pin sees, not the number of writes.
func TestLongPinKeepsMemoryBounded(t *testing.T) {
	w := newWorld()
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
			w.kill(fmt.Sprint("new-", (i+25)%50))
			w.kill(fmt.Sprint("old-", (i+50)%100))
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

// TestKeysOfAnyLength has keys that fit their records just so, or do not.
func TestKeysOfAnyLength(t *testing.T) {
	h := NewHistory(0)
	m := NewMap(h, nil)
	var keys []object.Key
	for _, ns := range []int{0, 1, 63, 70000} {
		for _, n := range []int{0, 1, maxName - 1, maxName, maxName + 1, 253, 254, 255, 256, 65536} {
			keys = append(keys, object.Key{Namespace: strings.Repeat("n", ns), Name: strings.Repeat("x", n)})
		}
	}
	values := make([]int, len(keys))
	for i, k := range keys {
		values[i] = i
		m.Put(k, m.Lookup(k), unsafe.Pointer(&values[i]))
		h.Publish(0)
	}
	m.Reserve(10000) // and once more, by way of another table
	for i, k := range keys {
		v, _ := m.Find(k, h.Current().Revision)
		if v != unsafe.Pointer(&values[i]) || m.Key(m.Lookup(k).ID) != k {
			t.Errorf("key %d/%d bytes: %v", len(k.Namespace), len(k.Name), v)
		}
	}
}

// TestNamespacesComeAndGo has more namespaces than there are numbers, some at a time and
// all at once.
func TestNamespacesComeAndGo(t *testing.T) {
	soak.Measures(t)
	h := NewHistory(0)
	m := NewMap(h, nil)
	value := unsafe.Pointer(new(int))
	key := func(i int) object.Key { return object.Key{Namespace: fmt.Sprint("ns-", i), Name: "x"} }
	put := func(i int) { m.Put(key(i), m.Lookup(key(i)), value) }
	has := func(i int, want bool) {
		t.Helper()
		if v, _ := m.Find(key(i), h.Current().Revision); (v != nil) != want {
			t.Fatalf("%v found: %v, want %v", key(i), v != nil, want)
		}
	}
	const all = noSpace * 2
	for i := range all {
		put(i)
		if i%1000 == 0 {
			h.Publish(0)
			has(i, true)
			has(i-1, false)
		}
		m.Kill(m.Lookup(key(i)))
	}
	h.Publish(0)
	if n := len(*m.table.Load().spaces.list.Load()); n > 4096 {
		t.Errorf("%d numbers for namespaces of which few were there at a time", n)
	}
	for i := range noSpace + 1000 {
		put(i)
	}
	h.Publish(0)
	for i := range noSpace + 1000 {
		has(i, true)
		if got := m.Key(m.Lookup(key(i)).ID); got != key(i) {
			t.Fatalf("the key of %v is %v", key(i), got)
		}
	}
	has(all, false)
}

// TestIdsAreUsedAgain churns through many keys: the memory must follow those that are there.
func TestIdsAreUsedAgain(t *testing.T) {
	soak.Measures(t)
	h := NewHistory(0)
	m := NewMap(h, nil)
	value := unsafe.Pointer(new(int))
	key := func(i int) object.Key {
		return object.Key{Name: fmt.Sprintf("a-name-of-some-length-that-varies-%*d", i%20, i)}
	}
	const live = 3 * blockSize
	for i := range 10 * live {
		m.Put(key(i), m.Lookup(key(i)), value)
		if i >= live {
			m.Kill(m.Lookup(key(i - live)))
		}
		h.Publish(0)
	}
	if m.Len() != live || m.Limit() > live*5/4 {
		t.Errorf("%d keys with ids up to %d, want %d", m.Len(), m.Limit(), live)
	}
	for i := 9 * live; i < 10*live; i++ {
		if v, _ := m.Find(key(i), h.Current().Revision); v == nil || m.Key(m.Lookup(key(i)).ID) != key(i) {
			t.Fatalf("%v is not there", key(i))
		}
		m.Kill(m.Lookup(key(i)))
	}
	h.Publish(0)
	full := 0
	for _, b := range *m.dir.Load() {
		if len(b.records) == blockSize && b != m.blank {
			full++
		}
	}
	if full > 1 || m.Len() != 0 {
		t.Errorf("%d blocks are kept for %d keys", full, m.Len())
	}
}

// TestUnpinnedReaderIsTold shows the one thing that a reader without a pin must heed: what
// its revision saw may be unlinked, and then Find is not sure.
func TestUnpinnedReaderIsTold(t *testing.T) {
	h := NewHistory(0)
	m := NewMap(h, nil)
	k := object.Key{Name: "x"}
	write := func(v int) {
		m.Put(k, m.Lookup(k), unsafe.Pointer(&v))
		h.Publish(0)
	}
	write(1)
	old := h.Current()
	write(2)
	if v, sure := m.Find(k, old.Revision); v != nil || sure {
		t.Errorf("Find at an old revision without a pin: %v, sure %v", v, sure)
	}
	if v, sure := m.Find(k, h.Current().Revision); v == nil || *(*int)(v) != 2 || !sure {
		t.Errorf("Find at the current revision: %v, sure %v", v, sure)
	}
	if _, sure := m.Find(object.Key{Name: "none"}, h.Current().Revision); sure {
		t.Error("a key that is not there may be one that was removed just now")
	}
}
