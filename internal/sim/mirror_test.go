package sim_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"

	"github.com/tarnproject/tarn/internal/sim"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
	"github.com/tarnproject/tarn/store"
	"k8s.io/apimachinery/pkg/labels"
)

// mirror is a store with indexes of each kind.
type mirror struct {
	store   *store.Store[*sim.Thing]
	byTier  *store.Index[*sim.Thing, string]
	byDigit *store.Index[*sim.Thing, int]
	labels  *store.LabelIndex[*sim.Thing]

	mu sync.Mutex // guards mutation
	// mutation is a write to a shared object that the store found.
	mutation error
}

// newIndexes makes a mirror that lacks a store.
func newIndexes() *mirror {
	return &mirror{
		byTier: store.Ordered(store.NewIndex("tier", func(t *sim.Thing) string { return t.Labels["tier"] })),
		byDigit: store.NewMultiIndex("digit", func(t *sim.Thing, add func(int)) error {
			for _, d := range strconv.Itoa(t.Status) {
				add(int(d - '0'))
			}
			return nil
		}),
		labels: store.NewLabelIndex(func(t *sim.Thing) map[string]string { return t.Labels }),
	}
}

func (m *mirror) indexes() []store.AnyIndex[*sim.Thing] {
	return []store.AnyIndex[*sim.Thing]{m.byTier, m.byDigit, m.labels}
}

// mutated takes note of a mutation.
func (m *mirror) mutated(found store.Mutation) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mutation = fmt.Errorf("%v", found)
}

// newMirror makes an empty one, in one form or the other.
func newMirror(r *rand.Rand) *mirror {
	m := newIndexes()
	opts := store.Options[*sim.Thing]{Indexes: m.indexes()}
	switch r.IntN(8) {
	case 0, 1:
		opts.Form = compact()
	case 2:
		opts.OnMutation = m.mutated
	}
	m.store = store.Must(store.New(sim.Accessor, opts))
	return m
}

// compact returns the compact form.
func compact() *store.Form[*sim.Thing] {
	encode := func(t *sim.Thing) ([]byte, error) { return json.Marshal(t) }
	decode := func(data []byte) (*sim.Thing, error) {
		t := new(sim.Thing)
		return t, json.Unmarshal(data, t)
	}
	return store.Packed(encode, decode)
}

// check holds each index against a scan of the objects.
func (m *mirror) check(snap store.Snapshot[*sim.Thing]) error {
	tiers, digits := map[string]int{}, map[int]int{}
	for t := range snap.All() {
		tiers[t.Labels["tier"]]++
		has := map[int]bool{}
		for _, d := range strconv.Itoa(t.Status) {
			has[int(d-'0')] = true
		}
		for d := range has {
			digits[d]++
		}
	}
	for _, tier := range []string{"", "a", "b", "c"} {
		if n := m.byTier.Count(snap, tier); n != tiers[tier] {
			return fmt.Errorf("index tier has %d of %q, a scan %d", n, tier, tiers[tier])
		}
		n := 0
		for t := range m.labels.Select(snap, labels.SelectorFromSet(labels.Set{"tier": tier})) {
			if t.Labels["tier"] != tier {
				return fmt.Errorf("the label index has %v for tier %q", t, tier)
			}
			n++
		}
		if n != tiers[tier] {
			return fmt.Errorf("the label index has %d of tier %q, a scan %d", n, tier, tiers[tier])
		}
	}
	for d := range 10 {
		n := 0
		for range m.byDigit.Get(snap, d) {
			n++
		}
		if n != digits[d] {
			return fmt.Errorf("index digit has %d of %d, a scan %d", n, d, digits[d])
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mutation
}

// randomShard returns a part of the objects of a server: half of the hashes that they have, a few, all
// or none, by UID or by namespace. Now and then it is no restriction.
func randomShard(r *rand.Rand, server *sim.Server) object.Shard {
	by := object.ByUID
	if r.IntN(3) == 0 {
		by = object.ByNamespace
	}
	hash := func(t *sim.Thing) uint64 {
		if by == object.ByNamespace {
			return object.Hash(t.Namespace)
		}
		return object.Hash(t.UID)
	}
	var ranges []object.HashRange
	share := r.IntN(4)
	if share == 3 && r.IntN(4) == 0 {
		return object.Shard{}
	}
	state := server.State(object.Selection{})
	for _, k := range server.Keys() { // in order, so that the seed decides
		if h := hash(state[k]); r.IntN(3) < share {
			ranges = append(ranges, object.HashRange{First: h, Last: h + uint64(r.IntN(1000))})
		}
	}
	// Objects to come.
	for range r.IntN(3) {
		first := r.Uint64()
		ranges = append(ranges, object.HashRange{First: first, Last: first | 1<<63})
	}
	return object.NewShard(by, ranges...)
}

// stateOf returns a snapshot as a map.
func stateOf(snap store.Snapshot[*sim.Thing]) map[object.Key]*sim.Thing {
	state := map[object.Key]*sim.Thing{}
	for t := range snap.All() {
		state[object.Key{Namespace: t.Namespace, Name: t.Name}] = t
	}
	return state
}

// follow applies changes to a view.
func follow(v *sim.View, changes []object.Change[*sim.Thing]) {
	for _, c := range changes {
		switch c.Kind {
		case object.Added:
			v.Add(c.New())
		case object.Updated:
			v.Update(c.Old(), c.New(), false)
		case object.Deleted:
			v.Delete(c.New(), c.Unknown)
		case object.Left:
			v.Leave(c.New())
		case object.Synced:
			v.Update(c.Old(), c.New(), true)
		}
	}
}

// scopeOf returns the scope that one of several reflectors lists.
func scopeOf(sel object.Selection, reflectors int) object.Scope {
	if reflectors > 1 {
		return object.Scope(sel.Namespace)
	}
	return object.Everything
}

// checkQuarantine returns an error if something in quarantine is not an object of the server.
func checkQuarantine(s *sim.Server, bad []reflector.Quarantined) error {
	state := s.State(object.Selection{})
	for _, q := range bad {
		if t := state[q.Key]; !q.Key.IsZero() && (t == nil || t.UID != q.UID) {
			return fmt.Errorf("in quarantine there is %v %s at %s, but the server has %v", q.Key, q.UID, q.Version, t)
		}
	}
	return nil
}

// within returns what a state has in a selection's namespace.
func within(got map[object.Key]*sim.Thing, sel object.Selection) map[object.Key]*sim.Thing {
	within := map[object.Key]*sim.Thing{}
	for k, t := range got {
		if sel.Namespace == "" || k.Namespace == sel.Namespace {
			within[k] = t
		}
	}
	return within
}

func number(v object.Version) uint64 {
	n, _ := strconv.ParseUint(string(v), 10, 64)
	return n
}
