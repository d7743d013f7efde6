package informer

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"

	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/store"
	"pgregory.net/rapid"
)

// thing is an object of the model: which life of its key it is, and which version.
type thing struct {
	key     object.Key
	life    int
	version int
}

var thingAccessor = object.Accessor[*thing]{
	Key:     func(t *thing) (object.Key, error) { return t.key, nil },
	UID:     func(t *thing) object.UID { return object.UID(strconv.Itoa(t.life)) },
	Version: func(t *thing) object.Version { return object.Version(strconv.Itoa(t.version)) },
}

// reader is a subscriber of the model. It rebuilds the state from what it is told.
type reader struct {
	*cursor[*thing]
	t    *rapid.T
	view map[object.Key]*thing
	// at is the last version that was told of a key, ever.
	at     map[object.Key]int
	held   portion[*thing] // taken and not handled yet
	holds  bool
	synced bool
	asked  bool // for a resync
	exact  bool // has never been caught up: it must be told every change
	told   int
	before int // told, less than it was for those who were there from the beginning
}

// model runs a store, its log and some cursors in one goroutine, in any order that
// several goroutines could come to.
type model struct {
	t       *rapid.T
	store   *store.Store[*thing]
	log     *log[*thing]
	server  map[object.Key]*thing
	version int
	lives   int
	changed int // changes logged
	readers []*reader
	// What the writer has applied and not logged yet:
	writing bool
	changes []object.Change[*thing]
	isFirst bool
	batches int
	largest int
}

func newModel(t *rapid.T) *model {
	s := store.Must(store.New(thingAccessor, store.Options[*thing]{}))
	return &model{t: t, store: s, log: newLog(s, rapid.IntRange(1, 12).Draw(t, "bound")), server: map[object.Key]*thing{}}
}

// apply makes a batch of random changes a revision. It is logged later.
func (m *model) apply() {
	if m.writing {
		m.commit()
	}
	var b object.Batch[*thing]
	for range rapid.IntRange(0, 6).Draw(m.t, "changes") {
		key := object.Key{Name: fmt.Sprint("k", rapid.IntRange(0, 4).Draw(m.t, "key"))}
		m.version++
		old := m.server[key]
		next := &thing{key: key, version: m.version}
		d := object.Change[*thing]{Kind: object.Updated, Key: key, Value: object.Decoded(next)}
		switch {
		case old != nil && rapid.IntRange(0, 2).Draw(m.t, "deletion") == 0:
			next.life = old.life
			d.Kind = object.Deleted
			delete(m.server, key)
		case old == nil || rapid.IntRange(0, 5).Draw(m.t, "reborn") == 0:
			m.lives++
			next.life = m.lives
			m.server[key] = next
		default:
			next.life = old.life
			m.server[key] = next
		}
		d.UID, d.Version = thingAccessor.UID(next), thingAccessor.Version(next)
		b.Changes = append(b.Changes, d)
	}
	if rapid.IntRange(0, 9).Draw(m.t, "relist") == 0 {
		m.version++
		l := &object.List[*thing]{Mark: object.Mark{Version: object.Version(strconv.Itoa(m.version))}}
		for _, key := range slices.SortedFunc(maps.Keys(m.server), object.Key.Compare) {
			v := m.server[key]
			if rapid.IntRange(0, 3).Draw(m.t, "missed") == 0 {
				delete(m.server, key)
				continue
			}
			l.Items = append(l.Items, object.Item[*thing]{Key: key, UID: thingAccessor.UID(v), Version: thingAccessor.Version(v), Value: object.Decoded(v)})
		}
		b.Changes = append(b.Changes, object.Change[*thing]{Kind: object.Replaced, List: l})
	}
	m.version++
	b.Marks = []object.Mark{{Version: object.Version(strconv.Itoa(m.version))}}
	before := m.log.begin()
	changes, err := m.store.Apply(&b, before)
	if err != nil {
		m.t.Fatal(err)
	}
	m.largest = max(m.largest, len(changes)-len(before))
	m.changed += len(changes) - len(before)
	m.batches++
	m.writing, m.changes = true, changes
	m.isFirst = m.batches == 3 // the mirror is synced some time after its beginning
}

func (m *model) commit() {
	if m.writing {
		m.log.commit(m.changes, revisionOf(m.store), m.isFirst)
		m.writing, m.changes = false, nil
	}
}

func (m *model) join() {
	if len(m.readers) == 5 {
		return
	}
	r := &reader{
		cursor: &cursor[*thing]{
			log: m.log, sub: newSubscription(fmt.Sprint("r", m.version), &m.log.seq),
			every: rapid.IntRange(0, 2).Draw(m.t, "every") == 0,
		},
		t: m.t, view: map[object.Key]*thing{}, at: map[object.Key]int{}, exact: true,
	}
	r.begin()
	r.before = m.changed - r.to.snap.Len()
	m.readers = append(m.readers, r)
}

// someone returns a reader; nil if there is none.
func (m *model) someone() (int, *reader) {
	if len(m.readers) == 0 {
		return 0, nil
	}
	i := rapid.IntRange(0, len(m.readers)-1).Draw(m.t, "reader")
	return i, m.readers[i]
}

func (m *model) leave() {
	if i, r := m.someone(); r != nil {
		r.cursor.leave()
		m.readers = append(m.readers[:i], m.readers[i+1:]...)
	}
}

// step has a reader take something, or handle what it took. Between the two anything may happen.
func (m *model) step() {
	if _, r := m.someone(); r != nil {
		if r.holds {
			r.handle()
		} else {
			r.grab()
		}
	}
}

func (m *model) resync() {
	if _, r := m.someone(); r != nil {
		r.sub.due.Store(true)
		r.asked = true
	}
}

// grab reports whether there is anything to do.
func (r *reader) grab() bool {
	r.held = r.take()
	r.holds = r.held.what != idle
	return r.holds
}

func (r *reader) handle() {
	p := r.held
	r.held, r.holds = portion[*thing]{}, false
	switch p.what {
	case synced:
		if r.synced {
			r.t.Fatal("synced twice")
		}
		r.synced = true
	case changes:
		for i := range p.changes {
			r.hear(p.changes[i])
		}
		r.sub.seq.Add(int64(len(p.changes)))
	case difference:
		if r.from != nil && r.every {
			r.t.Fatal("a reader of every change is caught up")
		} else if r.from != nil {
			r.exact = false
		}
		for c := range store.Diff(p.from, p.to) {
			r.hear(c)
		}
	case replay:
		r.replayed(p)
	}
}

// replayed checks that a replay is just what the reader knows.
func (r *reader) replayed(p portion[*thing]) {
	if !r.synced {
		r.t.Fatal("a resync before the initial state")
	}
	r.asked = false
	n := 0
	for c := range store.Diff(p.from, p.to) {
		if r.view[c.Key] != c.New() {
			r.t.Fatalf("resync: %s is at %v, want %v", c.Key, c.New(), r.view[c.Key])
		}
		n++
	}
	if n != len(r.view) {
		r.t.Fatalf("resync of %d objects, want %d", n, len(r.view))
	}
}

// hear checks that a change makes sense after all that came before it.
func (r *reader) hear(c object.Change[*thing]) {
	r.told++
	known := r.view[c.Key]
	switch c.Kind {
	case object.Added:
		if known != nil {
			r.t.Fatalf("added %v, but have %v", c.New(), known)
		}
		r.view[c.Key] = c.New()
	case object.Updated:
		if known == nil || known != c.Old() || known.life != c.New().life {
			r.t.Fatalf("updated %v to %v, but have %v", c.Old(), c.New(), known)
		}
		r.view[c.Key] = c.New()
	case object.Deleted:
		if known == nil || known != c.Old() || known.life != c.New().life {
			r.t.Fatalf("deleted %v as %v, but have %v", c.Old(), c.New(), known)
		}
		if c.Unknown && c.New() != known {
			r.t.Fatalf("deleted as %v, but the last state told was %v", c.New(), known)
		}
		delete(r.view, c.Key)
	default:
		r.t.Fatalf("%v in the log", c.Kind)
	}
	if v := c.New().version; v < r.at[c.Key] {
		r.t.Fatalf("%s went back from %d to %d", c.Key, r.at[c.Key], v)
	}
	r.at[c.Key] = c.New().version
}

// check holds what must hold at any time.
func (m *model) check() {
	if m.log.size > m.log.bound+m.largest {
		m.t.Fatalf("the log has %d changes, bound %d", m.log.size, m.log.bound)
	}
	// What is cut is kept for readers of every change alone, from the first of them on.
	if m.log.oldest != m.log.head && m.log.oldest.every == 0 {
		m.t.Fatal("a segment is kept for no reader")
	}
	for s := m.log.oldest; s != m.log.head; s = s.next {
		if !s.cut {
			m.t.Fatal("a segment before the chain is not cut")
		}
	}
	// A reader holds at most two states: what it knows, or will know at the end of its
	// segment, and what it is led to.
	for _, r := range m.readers {
		held := 0
		for _, p := range []*pin[*thing]{r.from, r.to, r.resync} {
			if p != nil {
				held++
			}
		}
		if r.seg != nil && r.seg.cut && !r.every {
			held++
		}
		if held > 2 {
			m.t.Fatalf("%d states are held for one reader", held)
		}
	}
}

// settle lets everybody read to the end; then each knows just what the store has.
func (m *model) settle() {
	m.commit()
	for _, r := range m.readers {
		for r.holds || r.grab() {
			r.handle()
		}
		if !maps.Equal(r.view, m.server) {
			m.t.Fatalf("%s knows %v, want %v", r.sub.name, r.view, m.server)
		}
		if r.exact && r.told != m.changed-r.before {
			m.t.Fatalf("%s kept up, but was told %d of %d changes", r.sub.name, r.told, m.changed-r.before)
		}
		if st := r.sub.Status(); st.Lag != 0 {
			m.t.Fatalf("lag %d at the end", st.Lag)
		}
		if r.synced != (m.log.synced > 0) || r.synced && r.asked {
			m.t.Fatalf("synced %v, resync due %v", r.synced, r.asked)
		}
	}
	if m.log.size != 0 || m.log.behind != 0 || m.log.head != m.log.tail || m.log.oldest != m.log.tail {
		m.t.Fatalf("%d changes are kept for nobody", m.log.size)
	}
	if st := m.store.Stats(); len(st.Pins) > 0 || st.Retained > 0 {
		m.t.Fatalf("nobody is behind, but %+v and %d versions are held", st.Pins, st.Retained)
	}
}

// TestH03_EverySubscribersViewIsTheStore plays random batches, subscribers that come, go,
// stop anywhere and go on, and resyncs: whatever the order, what each is told makes
// sense, and in the end it knows what the store has and nothing is kept.
func TestH03_EverySubscribersViewIsTheStore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(t)
		actions := []func(){m.apply, m.commit, m.join, m.leave, m.resync, m.settle, m.step, m.step, m.step, m.step, m.step, m.step}
		for range rapid.IntRange(60, 300).Draw(t, "steps") {
			actions[rapid.IntRange(0, len(actions)-1).Draw(t, "action")]()
			m.check()
		}
		m.settle()
		for _, r := range m.readers {
			r.cursor.leave()
		}
		if len(m.log.cursors) > 0 || m.log.tail.readers > 0 || m.log.tail.every > 0 {
			t.Fatal("a cursor is left")
		}
	})
}
