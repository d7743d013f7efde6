package store

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tarnproject/tarn/internal/soak"
	"github.com/tarnproject/tarn/object"
)

// committed remembers every state that was ever committed, by revision.
type committed struct {
	mu     sync.RWMutex // guards states
	states map[uint64]map[object.Key]*thing
}

func (c *committed) at(revision uint64) map[object.Key]*thing {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.states[revision]
}

// TestReadersSeeOnlyCommittedStates is S01, S02 and S03 under real concurrency: one writer
// applies batches, replaces and deletes over enough keys that every structure grows and
// shrinks, while readers take snapshots, hold some of them, and compare all they can see
// with what was committed at that revision.
func TestReadersSeeOnlyCommittedStates(t *testing.T) {
	byColor, byTag, _ := modelIndexes()
	s := Must(New(things, Options[*thing]{Indexes: []AnyIndex[*thing]{byColor, byTag}}))
	history := &committed{states: map[uint64]map[object.Key]*thing{1: {}, 2: {}, 3: {}}}
	commits := soak.Rounds(200)
	var done atomic.Bool
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() { read(t, s, history, byColor, byTag, &done, uint64(i)) })
	}
	wg.Go(func() {
		defer done.Store(true)
		write(s, history, commits)
	})
	wg.Wait()
	if st := s.Stats(); st.Retained != 0 {
		t.Errorf("%d versions retained for nobody", st.Retained)
	}
}

func write(s *Store[*thing], history *committed, commits int) {
	r := rand.New(rand.NewPCG(1, 2))
	now := map[object.Key]*thing{}
	version := 0
	colors, tags := []string{"red", "green", "blue"}, []string{"a", "b", "c", "d"}
	for range commits {
		var batch object.Batch[*thing]
		next := maps.Clone(now)
		grow := r.IntN(4) > 0
		for range 1 + r.IntN(60) {
			version++
			obj := &thing{
				key:     object.Key{Namespace: fmt.Sprint("ns-", r.IntN(5)), Name: fmt.Sprint("pod-", r.IntN(120))},
				uid:     "u",
				version: object.Version(strconv.Itoa(version)),
				color:   colors[r.IntN(3)],
				tags:    tags[:r.IntN(4)],
			}
			kind := object.Updated
			if !grow {
				kind = object.Deleted
				delete(next, obj.key)
			} else {
				next[obj.key] = obj
			}
			batch.Changes = append(batch.Changes, object.Change[*thing]{Kind: kind, Key: obj.key, UID: obj.uid, Version: obj.version, Value: object.Decoded(obj)})
		}
		// Known before it is published, so that no reader finds a revision unknown.
		history.mu.Lock()
		history.states[s.history.Next()] = next
		history.mu.Unlock()
		now = next
		if _, err := s.Apply(&batch, nil); err != nil {
			panic(err)
		}
		runtime.Gosched()
	}
}

func read(t *testing.T, s *Store[*thing], history *committed, byColor, byTag *Index[*thing, string], done *atomic.Bool, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 3))
	var kept []Snapshot[*thing]
	for !done.Load() && !t.Failed() {
		snap := s.Snapshot()
		compare(t, snap, history.at(snap.Revision()), byColor, byTag, r)
		if len(kept) < 5 {
			kept = append(kept, snap)
			continue
		}
		snap.Release()
		i := r.IntN(len(kept))
		compare(t, kept[i], history.at(kept[i].Revision()), byColor, byTag, r)
		kept[i].Release()
		kept = slices.Delete(kept, i, i+1)
		s.View(func(short Snapshot[*thing]) {
			compare(t, short, history.at(short.Revision()), byColor, byTag, r)
		})
	}
	for _, snap := range kept {
		snap.Release()
	}
}

func compare(t *testing.T, snap Snapshot[*thing], want map[object.Key]*thing, byColor, byTag *Index[*thing, string], r *rand.Rand) {
	seen := map[object.Key]bool{}
	for obj := range snap.All() {
		if want[obj.key] != obj || seen[obj.key] {
			t.Errorf("revision %d: %v, seen before: %v, want %v", snap.Revision(), obj, seen[obj.key], want[obj.key])
			return
		}
		seen[obj.key] = true
	}
	n := 0
	last := object.Key{}
	for obj := range snap.Sorted() {
		n++
		if want[obj.key] != obj || n > 1 && last.Compare(obj.key) >= 0 {
			t.Errorf("revision %d: %v after %v, want %v", snap.Revision(), obj, last, want[obj.key])
			return
		}
		last = obj.key
	}
	if n != len(want) || len(seen) != n || snap.Len() != n {
		t.Errorf("revision %d: %d objects, Len %d, want %d", snap.Revision(), n, snap.Len(), len(want))
		return
	}
	k := object.Key{Namespace: fmt.Sprint("ns-", r.IntN(5)), Name: fmt.Sprint("pod-", r.IntN(120))}
	if got, _ := snap.Get(k); got != want[k] {
		t.Errorf("revision %d: Get(%v) = %v, want %v", snap.Revision(), k, got, want[k])
	}
	if got := slices.Collect(snap.After(k, 1)); len(got) == 1 && (want[got[0].key] != got[0] || got[0].key.Compare(k) <= 0) {
		t.Errorf("revision %d: After(%v) = %v", snap.Revision(), k, got)
	}
	namespace := 0
	for obj := range snap.Namespace(k.Namespace) {
		if namespace++; obj.key.Namespace != k.Namespace || want[obj.key] != obj {
			t.Errorf("revision %d: Namespace(%s) has %v", snap.Revision(), k.Namespace, obj)
		}
	}
	colors, tags := map[string]int{}, map[string]int{}
	for key, obj := range want {
		colors[obj.color]++
		for _, tag := range obj.tags {
			tags[tag]++
		}
		if key.Namespace == k.Namespace {
			namespace--
		}
	}
	if namespace != 0 {
		t.Errorf("revision %d: Namespace(%s) is off by %d", snap.Revision(), k.Namespace, namespace)
	}
	for x, counts := range map[*Index[*thing, string]]map[string]int{byColor: colors, byTag: tags} {
		if got := slices.Sorted(x.Keys(snap)); !slices.Equal(got, slices.Sorted(maps.Keys(counts))) {
			t.Errorf("revision %d: index %s has %v, want %v", snap.Revision(), x.label, got, counts)
		}
		for value, count := range counts {
			got := 0
			for obj := range x.Get(snap, value) {
				got++
				if want[obj.key] != obj {
					t.Errorf("revision %d: index %s, %q: %v", snap.Revision(), x.label, value, obj)
				}
			}
			if got != count {
				t.Errorf("revision %d: index %s has %d of %q, want %d", snap.Revision(), x.label, got, value, count)
			}
		}
	}
}

// TestReplaceKeepsNoChanges: Replace returns no changes, so the store must not keep the replaced
// objects in them.
func TestReplaceKeepsNoChanges(t *testing.T) {
	s := Must(New(things, Options[*thing]{}))
	for i := range 3 {
		if err := s.Replace("", &thing{key: object.Key{Name: "x"}, uid: "u", version: object.Version(strconv.Itoa(i + 1))}); err != nil {
			t.Fatal(err)
		}
		if s.tx.changes != nil {
			t.Fatalf("%d changes kept", len(s.tx.changes))
		}
	}
}

// TestGetIsNeverOlderThanBefore has readers without pins follow one key that only grows,
// while another pin keeps an old version of it: what they see never goes back.
func TestGetIsNeverOlderThanBefore(t *testing.T) {
	s := Must(New(things, Options[*thing]{}))
	key := object.Key{Name: "x"}
	set := func(i int) {
		if err := s.Set(&thing{key: key, uid: "u", version: object.Version(strconv.Itoa(i))}); err != nil {
			t.Error(err)
		}
	}
	set(1)
	var done atomic.Bool
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			last := 0
			for !done.Load() {
				obj, ok := s.Get(key)
				if !ok || number(obj.version) < last {
					t.Errorf("got %v after version %d", obj, last)
					return
				}
				last = number(obj.version)
			}
		})
	}
	for i := 2; i < 5000; i++ {
		if i%100 == 0 {
			old := s.Snapshot()
			set(i)
			old.Release()
			continue
		}
		set(i)
	}
	done.Store(true)
	wg.Wait()
}
