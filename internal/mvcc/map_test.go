package mvcc

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tarnproject/tarn/internal/soak"
	"github.com/tarnproject/tarn/object"
	"pgregory.net/rapid"
)

// mapModel is a Map beside a plain Go map of what it must hold.
type mapModel struct {
	h   *History[int]
	m   *Map
	now map[object.Key]int
}

// pinned is a revision and what it must show for as long as it is pinned.
type pinned struct {
	state *State[int]
	want  map[object.Key]int
}

func (x *mapModel) put(k object.Key, value int) {
	r := x.m.Put(k, x.m.Lookup(k), Value(&value))
	atomic.StoreUint64(&x.m.Note(r.ID)[0], uint64(value))
	x.now[k] = value
}

func (x *mapModel) delete(k object.Key) {
	r := x.m.Lookup(k)
	if (x.m.Live(r) != nil) != hasKey(x.now, k) {
		panic("Live does not agree with the model")
	}
	if x.m.Live(r) != nil {
		x.m.Delete(r)
		delete(x.now, k)
	}
}

func hasKey[K comparable, V any](m map[K]V, k K) bool { _, ok := m[k]; return ok }

func (x *mapModel) check(t *rapid.T, p pinned, before *pinned) {
	revision := p.state.Revision
	got := map[object.Key]int{}
	x.m.IDs(revision, func(id uint32, v Value) bool {
		if x.m.At(id, revision) != v {
			t.Fatalf("revision %d: IDs and At do not agree on %v", revision, x.m.Key(id))
		}
		got[x.m.Key(id)] = *(*int)(v)
		return true
	})
	if !maps.Equal(got, p.want) {
		t.Fatalf("revision %d: IDs yields %v, want %v", revision, got, p.want)
	}
	sum, n := 0, 0
	var some [SpanSize]Value
	for span := range x.m.Spans() {
		for _, v := range some[:x.m.Span(span, revision, &some)] {
			sum, n = sum+*(*int)(v), n+1
		}
	}
	for k, value := range p.want {
		sum, n = sum-value, n-1
		if v, _ := x.m.Find(k, revision); v == nil || *(*int)(v) != value {
			t.Fatalf("revision %d: Find(%v) is wrong", revision, k)
		}
		if v, note, sure := x.m.FindNote(k, revision); v == nil || *(*int)(v) != value || sure && int(note[0]) != value {
			t.Fatalf("revision %d: FindNote(%v) is wrong", revision, k)
		}
	}
	if sum != 0 || n != 0 {
		t.Fatalf("revision %d: the spans have %d values too many", revision, n)
	}
	var sorted []object.Key
	for _, id := range p.state.Sorted(x.m) {
		sorted = append(sorted, x.m.Key(id))
	}
	if want := slices.SortedFunc(maps.Keys(p.want), object.Key.Compare); !slices.Equal(sorted, want) {
		t.Fatalf("revision %d: Sorted is %v, want %v", revision, sorted, want)
	}
	x.checkNamespaces(t, p)
	if before == nil {
		return
	}
	changed := map[object.Key]bool{}
	x.m.Since(before.state.Revision, func(id uint32) bool {
		changed[x.m.Key(id)] = true
		return true
	})
	for k := range p.want {
		if p.want[k] != before.want[k] && !changed[k] {
			t.Fatalf("Since(%d) leaves out %v", before.state.Revision, k)
		}
	}
}

func (x *mapModel) checkNamespaces(t *rapid.T, p pinned) {
	for _, name := range []string{"", "a", "b", "c"} {
		var ids []uint32
		x.m.Namespace(name, func(id uint32) bool {
			ids = append(ids, id)
			return true
		})
		out := make([]Value, len(ids))
		n := x.m.Gather(ids, p.state.Revision, out)
		want := 0
		for k := range p.want {
			if k.Namespace == name {
				want++
			}
		}
		if n != want {
			t.Fatalf("revision %d: %d keys in namespace %q, want %d", p.state.Revision, n, name, want)
		}
	}
}

// TestMapShowsEveryPinnedRevision writes at random over enough keys that tables are rebuilt and
// blocks grow, while some revisions are pinned.
func TestMapShowsEveryPinnedRevision(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		h := NewHistory(0)
		x := &mapModel{h: h, m: NewMap(h), now: map[object.Key]int{}}
		x.m.Widen(3)
		var pins []pinned
		size := 1 + r.IntN(300)
		for range 10 {
			grow := r.IntN(3) > 0
			for range r.IntN(150) {
				k := object.Key{Namespace: []string{"", "a", "b"}[r.IntN(3)], Name: fmt.Sprintf("pod-%04d", r.IntN(size))}
				if r.IntN(50) == 0 {
					k.Name += strings.Repeat("x", maxName)
				}
				if grow || r.IntN(8) == 0 {
					x.put(k, r.IntN(1000))
				} else {
					x.delete(k)
				}
			}
			h.Publish(0)
			if r.IntN(8) == 0 {
				x.m.Widen(1)
			}
			var before *pinned
			if len(pins) > 0 {
				before = &pins[0]
			}
			now := pinned{h.Pin(), maps.Clone(x.now)}
			x.check(t, now, before)
			if len(pins) > 0 {
				x.check(t, pins[r.IntN(len(pins))], nil)
			}
			switch {
			case r.IntN(3) == 0:
				pins = append(pins, now)
				continue
			case len(pins) > 0 && r.IntN(2) == 0:
				i := r.IntN(len(pins))
				pins[i].state.Unpin()
				pins = slices.Delete(pins, i, i+1)
			}
			now.state.Unpin()
		}
		for _, p := range pins {
			x.check(t, p, nil)
			p.state.Unpin()
		}
		h.Sweep()
		x.nothingLeft(t)
	})
}

// nothingLeft checks that, without pins, the map keeps the newest versions only.
func (x *mapModel) nothingLeft(t *rapid.T) {
	if x.h.Retained() != 0 || len(x.h.older) != 0 {
		t.Fatalf("%d retained for %d states without pins", x.h.Retained(), len(x.h.older))
	}
	if x.m.Len() != len(x.now) {
		t.Fatalf("%d keys in the table, want %d", x.m.Len(), len(x.now))
	}
	x.m.Since(0, func(id uint32) bool {
		if x.m.record(id).older.Load() != nil {
			t.Fatalf("%v has an old version", x.m.Key(id))
		}
		return true
	})
}

// TestKeysOfAnyLength has keys that just fit their records, and keys that do not.
func TestKeysOfAnyLength(t *testing.T) {
	h := NewHistory(0)
	m := NewMap(h)
	var keys []object.Key
	for _, ns := range []int{0, 1, 63, 70000} {
		for _, n := range []int{0, 1, maxName - 1, maxName, maxName + 1, 253, 254, 255, 256, 65536} {
			keys = append(keys, object.Key{Namespace: strings.Repeat("n", ns), Name: strings.Repeat("x", n)})
		}
	}
	values := make([]int, len(keys))
	for i, k := range keys {
		values[i] = i
		m.Put(k, m.Lookup(k), Value(&values[i]))
		h.Publish(0)
	}
	m.Reserve(10000) // and again, after the table was rebuilt
	for i, k := range keys {
		v, _ := m.Find(k, h.Current().Revision)
		if v != Value(&values[i]) || m.Key(m.Lookup(k).ID) != k {
			t.Errorf("key %d/%d bytes: %v", len(k.Namespace), len(k.Name), v)
		}
	}
}

// TestIdsAreUsedAgain churns through many keys: memory must follow the number of live keys.
func TestIdsAreUsedAgain(t *testing.T) {
	soak.Measures(t)
	h := NewHistory(0)
	m := NewMap(h)
	value := Value(new(int))
	key := func(i int) object.Key {
		return object.Key{Name: fmt.Sprintf("a-name-of-some-length-that-varies-%*d", i%20, i)}
	}
	const live = 3 * blockSize
	for i := range 10 * live {
		m.Put(key(i), m.Lookup(key(i)), value)
		if i >= live {
			m.Delete(m.Lookup(key(i - live)))
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
		m.Delete(m.Lookup(key(i)))
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

// TestReusingIdsKeepsABlockSmall replaces all keys of a small map several times: the copies of its
// block that make their ids usable again are not larger than the block.
func TestReusingIdsKeepsABlockSmall(t *testing.T) {
	h := NewHistory(0)
	m := NewMap(h)
	value := Value(new(int))
	key := func(i int) object.Key { return object.Key{Namespace: "a", Name: fmt.Sprint(i)} }
	const live = renewable
	for i := range 10 * live {
		m.Put(key(i), m.Lookup(key(i)), value)
		if i >= live {
			m.Delete(m.Lookup(key(i - live)))
		}
		h.Publish(0)
	}
	for i := range 10 * live {
		if v, _ := m.Find(key(i), h.Current().Revision); (v != nil) != (i >= 9*live) {
			t.Fatalf("%v found: %v", key(i), v != nil)
		}
	}
	if dir := *m.dir.Load(); len(dir) != 1 || len(dir[0].records) > 4*live {
		t.Errorf("%d blocks, the first with room for %d keys; %d keys are live", len(dir), len(dir[0].records), live)
	}
}

// TestFindIsNotSureForASupersededRevision shows why a reader without a pin checks sure: what its
// revision saw may be unlinked.
func TestFindIsNotSureForASupersededRevision(t *testing.T) {
	h := NewHistory(0)
	m := NewMap(h)
	k := object.Key{Name: "x"}
	write := func(v int) {
		m.Put(k, m.Lookup(k), Value(&v))
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
		t.Error("Find is sure that a key is missing, which may have been removed just now")
	}
}
