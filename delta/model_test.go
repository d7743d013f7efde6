package delta_test

import (
	"fmt"
	"maps"
	"slices"

	"github.com/tarnproject/tarn/delta"
	"github.com/tarnproject/tarn/object"
)

// entry is a pending delta of the model.
type entry struct {
	object.Change[*thing]
	initial bool
}

// model is a simple reference FIFO: one list of pending changes, which it searches linearly.
type model struct {
	known  *cache // nil: there is none
	asSync bool

	pending, flight   []entry
	populated, synced bool
}

func newModel(known *cache) *model { return &model{known: known} }

// last returns the newest of the entries of a key.
func last(entries []entry, key object.Key) (*entry, bool) {
	for i := len(entries) - 1; i >= 0; i-- {
		if entries[i].Key == key {
			return &entries[i], true
		}
	}
	return nil, false
}

// differ reports whether two changes are of different states.
func differ(a, b object.Change[*thing]) bool {
	type state struct {
		uid     object.UID
		version object.Version
	}
	of := func(c object.Change[*thing]) state {
		if c.UID == "" {
			return state{}
		}
		return state{c.UID, c.Version}
	}
	return !a.Unknown && !b.Unknown && of(a) != of(b)
}

// put appends a change, merging two Deleted in a row that may be of one state.
func (m *model) put(d object.Change[*thing], initial bool) {
	if old, ok := last(m.pending, d.Key); ok && old.Kind == object.Deleted && d.Kind == object.Deleted && !differ(old.Change, d) {
		old.initial = old.initial || initial
		if old.Unknown {
			old.Change = d
		}
		return
	}
	m.pending = append(m.pending, entry{d, initial})
}

func (m *model) populate() {
	m.populated = true
	m.checkSynced()
}

func (m *model) checkSynced() {
	initial := func(e entry) bool { return e.initial }
	if m.populated && !slices.ContainsFunc(m.pending, initial) && !slices.ContainsFunc(m.flight, initial) {
		m.synced = true
	}
}

// exists reports whether the consumer has the object or has it in flight.
func (m *model) exists(key object.Key) (*thing, bool) {
	if e, ok := last(m.flight, key); ok {
		return e.Value.Object, e.Kind != object.Deleted
	}
	if m.known == nil {
		return nil, false
	}
	return m.known.Get(key)
}

// changeOf returns the change that a producer queues for a thing.
func changeOf(kind object.Kind, o *thing) object.Change[*thing] {
	d := object.Change[*thing]{Kind: kind, Key: o.key, UID: o.uid, Version: o.version, Value: object.Decoded(o)}
	if kind == object.Quarantined {
		d.Value = object.Value[*thing]{}
	}
	return d
}

func (m *model) event(d object.Change[*thing]) {
	if d.Kind != object.Quarantined && (d.Kind != object.Deleted || m.deletable(d)) {
		m.put(d, false)
	}
	m.populate()
}

// deletable reports whether a deletion is of an object that exists or is pending, or that may exist
// because another deletion in flight is perhaps stale.
func (m *model) deletable(d object.Change[*thing]) bool {
	if _, pending := last(m.pending, d.Key); pending {
		return true
	}
	if e, ok := last(m.flight, d.Key); ok && e.Kind == object.Deleted {
		return differ(e.Change, d)
	}
	_, ok := m.exists(d.Key)
	return ok
}

func (m *model) replace(list object.List[*thing]) {
	first := !m.populated
	t := object.Replaced
	if m.asSync {
		t = object.Synced
	}
	// Find the removed keys before the list's own deltas are added.
	exist := map[object.Key]*thing{}
	keys := map[object.Key]bool{}
	for _, e := range slices.Concat(m.pending, m.flight) {
		keys[e.Key] = true
	}
	if m.known != nil {
		for key := range m.known.Keys() {
			keys[key] = true
		}
	}
	for key := range keys {
		if lists(list, key) || !list.Scope.Covers(key) || !list.Part.IsZero() {
			continue
		}
		if e, ok := last(m.pending, key); ok {
			if e.Kind != object.Deleted {
				exist[key] = e.Value.Object
			}
		} else if o, ok := m.exists(key); ok {
			exist[key] = o
		}
	}
	for _, item := range list.Items {
		o := item.Object
		if item.Held {
			o = m.held(item.Key)
		}
		if item.Err == nil && o != nil {
			m.put(object.Change[*thing]{Kind: t, Key: item.Key, UID: item.UID, Version: item.Version, Value: object.Decoded(o)}, first)
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(exist), object.Key.Compare) {
		m.put(object.Change[*thing]{Kind: object.Deleted, Unknown: true, Key: key, Value: object.Decoded(exist[key])}, first)
	}
	m.populate()
}

// held returns the newest object of a key: pending, in flight or known.
func (m *model) held(key object.Key) *thing {
	for _, e := range slices.Backward(slices.Concat(m.flight, m.pending)) {
		if e.Key == key && e.Kind != object.Deleted {
			return e.Value.Object
		}
	}
	if m.known != nil {
		o, _ := m.known.Get(key)
		return o
	}
	return nil
}

func (m *model) resync() {
	if m.known == nil {
		return
	}
	keys := slices.Collect(m.known.Keys())
	for _, e := range m.flight {
		keys = append(keys, e.Key)
	}
	for _, key := range keys {
		if _, pending := last(m.pending, key); pending {
			continue
		}
		if o, ok := m.exists(key); ok {
			m.put(changeOf(object.Synced, o), false)
		}
	}
}

func (m *model) addIfAbsent(deltas delta.Deltas[*thing]) {
	if _, pending := last(m.pending, deltas[0].Key); !pending {
		for _, d := range deltas {
			m.put(d, false)
		}
	}
	m.populate()
}

// isHeld looks at the newest change of a key.
func (m *model) isHeld(key object.Key, uid object.UID, version object.Version) bool {
	if !version.Known() {
		return false
	}
	if e, ok := last(slices.Concat(m.flight, m.pending), key); ok {
		return e.Kind != object.Deleted && e.UID == uid && e.Version == version
	}
	return m.known != nil && m.known.Held(key, uid, version)
}

func (m *model) keys() []object.Key {
	var keys []object.Key
	for _, e := range m.pending {
		if !slices.Contains(keys, e.Key) {
			keys = append(keys, e.Key)
		}
	}
	return keys
}

func (m *model) get(key object.Key) (deltas delta.Deltas[*thing]) {
	for _, e := range m.pending {
		if e.Key == key {
			deltas = append(deltas, e.Change)
		}
	}
	return deltas
}

// pop takes the first key.
func (m *model) pop() delta.Deltas[*thing] {
	key := m.pending[0].Key
	deltas := m.get(key)
	of := func(e entry) bool { return e.Key == key }
	m.flight = slices.DeleteFunc(slices.Clone(m.pending), func(e entry) bool { return !of(e) })
	m.pending = slices.DeleteFunc(slices.Clone(m.pending), of)
	return deltas
}

// finish completes a pop.
func (m *model) finish(back bool) {
	if back {
		initial := slices.ContainsFunc(m.flight, func(e entry) bool { return e.initial })
		if e, newer := last(m.pending, m.flight[0].Key); newer {
			e.initial = e.initial || initial
		} else {
			m.pending = append(m.pending, m.flight...)
		}
	}
	m.flight = nil
	m.checkSynced()
}

// show returns a comparable form of deltas: a list is compared by its mark and its items' keys.
func show(deltas []object.Change[*thing]) string {
	s := ""
	for _, d := range deltas {
		if d.List != nil {
			s += fmt.Sprintf("[%v list %v:", d.Kind, d.List.Mark)
			for _, i := range d.List.Items {
				s += fmt.Sprintf(" %s@%s=%v held=%v err=%v", i.Key, i.Version, i.Object, i.Held, i.Err)
			}
			s += "]\n"
			continue
		}
		s += fmt.Sprintf("[%v unknown=%v %s %v]\n", d.Kind, d.Unknown, d.Key, d.Value.Object)
	}
	return s
}
