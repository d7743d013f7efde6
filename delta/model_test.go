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

// model is a simple reference FIFO. It keeps the pending changes in two forms: flat, in which a
// Replace is split into keys when it arrives, as in client-go, and whole, in which it stays one
// change until a key is popped. It searches linearly and has no index.
type model struct {
	known  *cache // nil: there is none
	asSync bool

	flat, whole             []entry
	flying                  bool
	flightFlat, flightWhole []entry

	marks        map[object.Scope]object.Mark
	open         map[object.Scope]object.Version // the version of the last event, if that was a deletion
	left         map[object.Scope]bool           // scopes removed by an empty list without a version
	moved, taken []object.Scope

	populated, synced bool
}

func newModel(known *cache) *model {
	return &model{known: known, marks: map[object.Scope]object.Mark{}, open: map[object.Scope]object.Version{}, left: map[object.Scope]bool{}}
}

// last returns the newest of the entries of a key.
func last(entries []entry, key object.Key) (*entry, bool) {
	for i := len(entries) - 1; i >= 0; i-- {
		if entries[i].List == nil && entries[i].Key == key {
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

// add appends an entry to one form, merging two Deleted in a row that may be of one state.
func add(entries []entry, e entry) []entry {
	entries = slices.Clone(entries)
	for i := len(entries) - 1; i >= 0 && e.List == nil; i-- {
		old := &entries[i]
		if old.List != nil {
			break
		}
		if old.Key != e.Key {
			continue
		}
		if old.Kind != object.Deleted || e.Kind != object.Deleted || differ(old.Change, e.Change) {
			break
		}
		old.initial = old.initial || e.initial
		if old.Unknown {
			old.Change = e.Change
		}
		return entries
	}
	return append(entries, e)
}

func (m *model) put(d object.Change[*thing]) {
	if d.Kind != object.Quarantined { // which is for batches alone
		m.flat = add(m.flat, entry{Change: d})
	}
	m.whole = add(m.whole, entry{Change: d})
}

func (m *model) populate() {
	m.populated = true
	m.checkSynced()
}

func (m *model) checkSynced() {
	initial := func(e entry) bool { return e.initial }
	if m.populated && !slices.ContainsFunc(m.whole, initial) && !slices.ContainsFunc(m.flightWhole, initial) {
		m.synced = true
	}
}

// exists reports whether the consumer has the object or has it in flight.
func (m *model) exists(key object.Key) (*thing, bool) {
	for _, e := range slices.Backward(m.flightWhole) {
		switch {
		case e.List == nil && e.Key == key && e.Kind == object.Quarantined:
		case e.List == nil && e.Key == key:
			return e.Value.Object, e.Kind != object.Deleted
		case e.List == nil || !e.List.Scope.Covers(key):
		case !lists(*e.List, key):
			return nil, false
		case slices.ContainsFunc(e.List.Items, func(i object.Item[*thing]) bool { return i.Key == key && i.Err == nil }):
			e, ok := last(m.flightFlat, key)
			return e.Value.Object, ok
		}
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

func (m *model) event(t object.Kind, o *thing) {
	m.populate()
	d := changeOf(t, o)
	if t != object.Deleted || m.deletable(d) {
		m.put(d)
	}
}

// deletable reports whether a deletion is of an object that exists or is pending, or that may exist
// because another deletion in flight is perhaps stale.
func (m *model) deletable(d object.Change[*thing]) bool {
	if _, pending := last(m.flat, d.Key); pending {
		return true
	}
	_, ok := m.exists(d.Key)
	for _, e := range slices.Backward(m.flightWhole) {
		switch {
		case ok, e.List != nil && e.List.Scope.Covers(d.Key) && !lists(*e.List, d.Key):
			return ok
		case e.List == nil && e.Key == d.Key && e.Kind == object.Deleted:
			return differ(e.Change, d)
		}
	}
	return ok
}

func (m *model) deleteUnknown(t object.Tombstone[*thing]) {
	m.populate()
	if d := (object.Change[*thing]{Kind: object.Deleted, Unknown: true, Key: t.Key, Value: object.Decoded(t.Object)}); m.deletable(d) {
		m.put(d)
	}
}

func (m *model) mark(at object.Mark) {
	m.marks[at.Scope] = at
	delete(m.open, at.Scope)
	delete(m.left, at.Scope)
	if !slices.Contains(m.moved, at.Scope) {
		m.moved = append(m.moved, at.Scope)
	}
}

func (m *model) bookmark(to object.Mark) {
	at := m.marks[to.Scope]
	seen, open := m.open[to.Scope]
	if !open {
		seen = at.Version
	}
	order, ordered := to.Version.Compare(seen)
	switch {
	case !to.Version.Known() || to.Epoch < at.Epoch:
	case to.Epoch == at.Epoch && to.Version == at.Version:
	case to.Epoch == at.Epoch && (to.Version == seen && !open || ordered && order < 0):
	default:
		m.mark(to)
	}
}

func (m *model) replace(list object.List[*thing]) {
	m.mark(list.Mark)
	m.left[list.Scope] = len(list.Items) == 0 && !list.Version.Known()
	first := !m.populated

	// Find the removed keys before the list's own deltas are added.
	exist := map[object.Key]*thing{}
	keys := map[object.Key]bool{}
	for _, e := range slices.Concat(m.flat, m.flightFlat) {
		keys[e.Key] = true
	}
	if m.known != nil {
		for key := range m.known.Keys() {
			keys[key] = true
		}
	}
	for key := range keys {
		if lists(list, key) || !list.Scope.Covers(key) {
			continue
		}
		if e, ok := last(m.flat, key); ok {
			if e.Kind != object.Deleted {
				exist[key] = e.Value.Object
			}
			continue
		}
		gone := slices.ContainsFunc(m.whole, func(e entry) bool {
			return e.List != nil && e.List.Scope.Covers(key) && !lists(*e.List, key)
		})
		if o, ok := m.exists(key); ok && !gone {
			exist[key] = o
		}
	}

	m.whole = append(slices.Clone(m.whole), entry{
		Change:  object.Change[*thing]{Kind: object.Replaced, List: &list},
		initial: first && len(list.Items)+len(exist) > 0,
	})
	t := object.Replaced
	if m.asSync {
		t = object.Synced
	}
	for _, item := range list.Items {
		o := item.Object
		if item.Held {
			o = m.held(item.Key)
		}
		if item.Err == nil && o != nil {
			m.flat = add(m.flat, entry{object.Change[*thing]{Kind: t, Key: item.Key, Value: object.Decoded(o)}, first})
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(exist), object.Key.Compare) {
		m.flat = add(m.flat, entry{object.Change[*thing]{Kind: object.Deleted, Unknown: true, Key: key, Value: object.Decoded(exist[key])}, first})
	}
	m.populate()
}

// held returns the newest object of a key: pending, in flight or known.
func (m *model) held(key object.Key) *thing {
	for _, e := range slices.Backward(slices.Concat(m.flightFlat, m.flat)) {
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
	for _, e := range m.flightWhole {
		if e.List == nil {
			keys = append(keys, e.Key)
			continue
		}
		for _, item := range e.List.Items {
			keys = append(keys, item.Key)
		}
	}
	for _, key := range keys {
		if _, pending := last(m.flat, key); pending {
			continue
		}
		if o, ok := m.exists(key); ok {
			m.put(object.Change[*thing]{Kind: object.Synced, Key: key, Value: object.Decoded(o)})
		}
	}
}

func (m *model) addIfAbsent(deltas delta.Deltas[*thing]) {
	m.populate()
	if _, pending := last(m.flat, deltas[0].Key); !pending {
		for _, d := range deltas {
			m.put(d)
		}
	}
}

// isHeld looks at the newest change of a key.
func (m *model) isHeld(key object.Key, uid object.UID, version object.Version) bool {
	if !version.Known() {
		return false
	}
	for _, e := range slices.Backward(slices.Concat(m.flightWhole, m.whole)) {
		if e.List == nil {
			if e.Key == key {
				return e.Kind != object.Deleted && e.Kind != object.Quarantined && e.Value.Object.uid == uid && e.Value.Object.version == version
			}
			continue
		}
		if !e.List.Scope.Covers(key) {
			continue
		}
		for _, item := range slices.Backward(e.List.Items) {
			if item.Key == key && item.Err == nil {
				return item.UID == uid && item.Version == version
			}
		}
		return false
	}
	return m.known != nil && m.known.Held(key, uid, version)
}

func (m *model) keys() []object.Key {
	var keys []object.Key
	for _, e := range m.flat {
		if !slices.Contains(keys, e.Key) {
			keys = append(keys, e.Key)
		}
	}
	return keys
}

func (m *model) get(key object.Key) (deltas delta.Deltas[*thing]) {
	for _, e := range m.flat {
		if e.Key == key {
			deltas = append(deltas, e.Change)
		}
	}
	return deltas
}

// explode converts the whole form to the flat one.
func (m *model) explode() {
	m.whole = slices.Clone(m.flat)
	m.checkSynced()
}

// pop takes the first key.
func (m *model) pop() delta.Deltas[*thing] {
	m.explode()
	key := m.flat[0].Key
	deltas := m.get(key)
	of := func(e entry) bool { return e.Key == key }
	m.flightFlat = slices.DeleteFunc(slices.Clone(m.flat), func(e entry) bool { return !of(e) })
	m.flightWhole = m.flightFlat
	m.flat = slices.DeleteFunc(slices.Clone(m.flat), of)
	m.whole = slices.Clone(m.flat)
	m.flying = true
	return deltas
}

// popBatch takes everything.
func (m *model) popBatch() ([]object.Change[*thing], []object.Mark) {
	var deltas []object.Change[*thing]
	for _, e := range m.whole {
		deltas = append(deltas, e.Change)
	}
	var marks []object.Mark
	for _, scope := range m.moved {
		marks = append(marks, m.marks[scope])
	}
	m.flightFlat, m.flightWhole, m.taken = m.flat, m.whole, m.moved
	m.flat, m.whole, m.moved = nil, nil, nil
	m.flying = true
	return deltas, marks
}

// finish completes a pop or popBatch.
func (m *model) finish(back, batch bool) {
	switch {
	case back && batch:
		for _, e := range m.flat {
			m.flightFlat = add(m.flightFlat, e)
		}
		for _, e := range m.whole {
			m.flightWhole = add(m.flightWhole, e)
		}
		m.flat, m.whole = m.flightFlat, m.flightWhole
		for _, scope := range m.moved {
			if !slices.Contains(m.taken, scope) {
				m.taken = append(m.taken, scope)
			}
		}
		m.moved = m.taken
	case back:
		m.explode()
		key := m.flightFlat[0].Key
		initial := slices.ContainsFunc(m.flightFlat, func(e entry) bool { return e.initial })
		i := slices.IndexFunc(m.flat, func(e entry) bool { return e.Key == key })
		if i >= 0 {
			m.flat[i].initial = m.flat[i].initial || initial
		} else {
			m.flat = append(m.flat, m.flightFlat...)
		}
		m.whole = slices.Clone(m.flat)
	default:
		for _, scope := range m.taken {
			if m.left[scope] && !slices.Contains(m.moved, scope) {
				delete(m.marks, scope)
			}
		}
	}
	m.flightFlat, m.flightWhole, m.taken, m.flying = nil, nil, nil, false
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
