package store

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"

	"github.com/tarnproject/tarn/object"
	"pgregory.net/rapid"
)

// thing is the smallest object that has everything the store looks at.
type thing struct {
	key     object.Key
	uid     object.UID
	version object.Version
	color   string
	tags    []string
}

func (t *thing) String() string {
	return fmt.Sprintf("%s(%s@%s %s %v)", t.key, t.uid, t.version, t.color, t.tags)
}

var things = object.Accessor[*thing]{
	Key:     func(t *thing) (object.Key, error) { return t.key, nil },
	UID:     func(t *thing) object.UID { return t.uid },
	Version: func(t *thing) object.Version { return t.version },
}

// The indexes of the model: one value, several values, and one that fails for some.
func modelIndexes() (byColor, byTag, byInitial *Index[*thing, string]) {
	byColor = Ordered(NewIndex("color", func(t *thing) string { return t.color }))
	byTag = NewMultiIndex("tag", func(t *thing, add func(string)) error {
		for _, tag := range t.tags {
			add(tag)
		}
		return nil
	})
	byInitial = NewMultiIndex("initial", func(t *thing, add func(string)) error {
		switch t.color {
		case "":
			return fmt.Errorf("no color")
		case "boom":
			panic("boom")
		}
		add(t.color[:1])
		return nil
	})
	return byColor, byTag, byInitial
}

// model is the store as one would write it without a thought for speed: a map and marks.
type model struct {
	objects map[object.Key]*thing
	marks   map[object.Scope]object.Mark
	seen    map[object.Scope]int // the newest version of each scope; its mark's, or of a deletion after that
	deleted map[object.Key]int   // in this batch, at which version
	// verbatim: every change counts, see Options.Verbatim.
	verbatim bool
}

// uids are of both forms: those that are noted in brief and others.
var uids = []string{"u1", "u2", "0c6a1ee2-6a0f-4b43-9f07-57a0be1b1f4d", "0c6a1ee2-6a0f-4b43-9f07-57a0be1b1f4e"}

func newModel() model {
	return model{map[object.Key]*thing{}, map[object.Scope]object.Mark{}, map[object.Scope]int{}, map[object.Key]int{}, false}
}

func (m model) clone() model {
	return model{maps.Clone(m.objects), maps.Clone(m.marks), nil, nil, m.verbatim}
}

// move is what a model says has happened.
type move struct {
	kind     object.Kind
	unknown  bool
	key      object.Key
	old, new *thing
}

func (m model) markFor(k object.Key) (object.Mark, bool) {
	if mark, ok := m.marks[object.Scope(k.Namespace)]; ok {
		return mark, true
	}
	mark, ok := m.marks[object.Everything]
	return mark, ok
}

func number(v object.Version) int { n, _ := strconv.Atoi(string(v)); return n }

func (m model) upsert(t *thing) []move {
	old := m.objects[t.key]
	m.objects[t.key] = t
	switch {
	case old == nil:
		return []move{{object.Added, false, t.key, nil, t}}
	case old.uid != t.uid && !m.verbatim:
		return []move{{object.Deleted, true, t.key, old, old}, {object.Added, false, t.key, nil, t}}
	}
	return []move{{object.Updated, false, t.key, old, t}}
}

func (m model) event(kind object.Kind, t *thing) []move {
	held := m.objects[t.key]
	at, ok := m.deleted[t.key]
	stale, before := ok && number(t.version) <= at, ok && number(t.version) < at
	if mark, ok := m.markFor(t.key); ok && !stale {
		seen := m.seen[mark.Scope]
		stale, before = number(t.version) <= seen, number(t.version) < seen
		if !stale {
			mark.Version = t.version
			if kind == object.Deleted {
				mark.Version = object.Version(strconv.Itoa(seen))
			}
			m.marks[mark.Scope], m.seen[mark.Scope] = mark, number(t.version)
		}
	}
	switch {
	case m.verbatim && kind != object.Deleted:
		return m.upsert(t)
	case m.verbatim:
		prior := t
		if held != nil {
			prior = held
		}
		delete(m.objects, t.key)
		return []move{{object.Deleted, false, t.key, prior, t}}
	}
	if kind == object.Deleted {
		m.deleted[t.key] = number(t.version)
		if held == nil || number(t.version) < number(held.version) {
			return nil
		}
		if held.uid != t.uid {
			if before || number(t.version) == number(held.version) {
				return nil
			}
			delete(m.objects, t.key)
			return []move{{object.Deleted, true, t.key, held, held}}
		}
		delete(m.objects, t.key)
		return []move{{object.Deleted, false, t.key, held, t}}
	}
	if stale || held != nil && held.uid == t.uid && number(t.version) <= number(held.version) {
		return nil
	}
	return m.upsert(t)
}

func (m model) list(l object.List[*thing]) []move {
	mark, known := m.marks[l.Scope]
	newEpoch := known && mark.Epoch != l.Epoch
	var moves []move
	listed := map[object.Key]bool{}
	for _, item := range l.Items {
		listed[item.Key] = true
		held := m.objects[item.Key]
		switch same := held != nil && !newEpoch && held.uid == item.UID && held.version == item.Version; {
		case same && !m.verbatim:
			continue
		case same && item.Held:
			moves = append(moves, move{object.Updated, false, item.Key, held, held})
			continue
		}
		moves = append(moves, m.upsert(item.Object)...)
	}
	var gone []*thing
	items := moves
	if m.verbatim {
		moves = nil
	}
	for k, t := range m.objects {
		if l.Scope.Covers(k) && !listed[k] {
			gone = append(gone, t)
		}
	}
	slices.SortFunc(gone, func(a, b *thing) int { return a.key.Compare(b.key) })
	for _, t := range gone {
		delete(m.objects, t.key)
		moves = append(moves, move{object.Deleted, true, t.key, t, t})
	}
	if m.verbatim {
		moves = append(moves, items...)
	}
	m.marks[l.Scope], m.seen[l.Scope] = l.Mark, number(l.Version)
	if len(l.Items) == 0 && l.Version == "" {
		delete(m.marks, l.Scope)
	}
	clear(m.deleted)
	return moves
}

func (m model) sorted() []*thing {
	return slices.SortedFunc(maps.Values(m.objects), func(a, b *thing) int { return a.key.Compare(b.key) })
}

// held is a snapshot with the state that it must show for ever.
type held struct {
	snap Snapshot[*thing]
	want model
}

// machine drives a store and a model with the same random steps.
type machine struct {
	store                     *Store[*thing]
	model                     model
	held                      []held
	clock                     int
	epoch                     object.Epoch
	byColor, byTag, byInitial *Index[*thing, string]
	lateIndex                 *Index[*thing, string]
	listed                    listing
}

func newMachine(t *rapid.T) *machine {
	m := &machine{model: newModel()}
	m.byColor, m.byTag, m.byInitial = modelIndexes()
	var err error
	m.model.verbatim = rapid.Bool().Draw(t, "verbatim")
	m.store, err = New(things, Options[*thing]{Verbatim: m.model.verbatim, Indexes: []AnyIndex[*thing]{m.byColor, m.byTag, m.byInitial}})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

var (
	genKey = rapid.Custom(func(t *rapid.T) object.Key {
		return object.Key{
			Namespace: rapid.SampledFrom([]string{"", "a", "a-b", "b"}).Draw(t, "namespace"),
			Name:      rapid.SampledFrom([]string{"x", "x-1", "y", "yy", "z"}).Draw(t, "name"),
		}
	})
	genColor = rapid.SampledFrom([]string{"red", "rose", "blue", "", "boom"})
	genTags  = rapid.SliceOfN(rapid.SampledFrom([]string{"t1", "t2", "t3"}), 0, 3)
)

func (m *machine) thing(t *rapid.T, version int) *thing {
	return &thing{
		key:     genKey.Draw(t, "key"),
		uid:     object.UID(rapid.SampledFrom(uids).Draw(t, "uid")),
		version: object.Version(strconv.Itoa(version)),
		color:   genColor.Draw(t, "color"),
		tags:    genTags.Draw(t, "tags"),
	}
}

// version draws one that is usually new and sometimes late or repeated.
func (m *machine) version(t *rapid.T) int {
	if m.clock > 3 && rapid.IntRange(0, 4).Draw(t, "late") == 0 {
		return m.clock - rapid.IntRange(0, 3).Draw(t, "by")
	}
	m.clock++
	return m.clock
}

func (m *machine) Apply(t *rapid.T) {
	var batch object.Batch[*thing]
	var want []move
	for range rapid.IntRange(1, 6).Draw(t, "deltas") {
		if rapid.IntRange(0, 7).Draw(t, "list") == 0 {
			l := m.list(t)
			batch.Changes = append(batch.Changes, object.Change[*thing]{Kind: object.Replaced, List: &l})
			want = append(want, m.model.list(l)...)
			batch.Marks = append(batch.Marks, object.Mark{Scope: l.Scope, Epoch: l.Epoch}) // says nothing by itself
			continue
		}
		kind := rapid.SampledFrom([]object.Kind{object.Added, object.Updated, object.Deleted}).Draw(t, "type")
		obj := m.thing(t, m.version(t))
		batch.Changes = append(batch.Changes, object.Change[*thing]{Kind: kind, Key: obj.key, UID: obj.uid, Version: obj.version, Value: object.Decoded(obj)})
		want = append(want, m.model.event(kind, obj)...)
	}
	clear(m.model.deleted)
	for _, mark := range m.model.marks {
		batch.Marks = append(batch.Marks, mark)
	}
	changes, err := m.store.Apply(&batch, nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []move
	for _, c := range changes {
		got = append(got, move{c.Kind, c.Unknown, c.Key, c.Old(), c.New()})
	}
	if !slices.Equal(got, want) {
		t.Fatalf("changes\n got %v\nwant %v", got, want)
	}
}

// list draws the state of a scope: some of what is held, some changed, some new.
func (m *machine) list(t *rapid.T) object.List[*thing] {
	m.clock++
	scope := object.Scope(rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "scope"))
	if rapid.IntRange(0, 5).Draw(t, "rewind") == 0 {
		m.epoch++
	}
	l := object.List[*thing]{Mark: object.Mark{Scope: scope, Epoch: m.epoch, Version: object.Version(strconv.Itoa(m.clock))}}
	if rapid.IntRange(0, 5).Draw(t, "leave") == 0 {
		l.Version = ""
		return l
	}
	taken := map[object.Key]bool{}
	add := func(obj *thing) {
		if scope.Covers(obj.key) && !taken[obj.key] {
			taken[obj.key] = true
			l.Items = append(l.Items, object.Item[*thing]{Key: obj.key, UID: obj.uid, Version: obj.version, Value: object.Decoded(obj)})
		}
	}
	for range rapid.IntRange(0, 3).Draw(t, "changed") {
		add(m.thing(t, m.clock))
	}
	for _, obj := range m.model.sorted() {
		if rapid.IntRange(0, 3).Draw(t, "kept") > 0 {
			again := *obj // the same object, decoded once more
			add(&again)
			if n := len(l.Items) - 1; n >= 0 && l.Items[n].Object == &again && rapid.Bool().Draw(t, "held") {
				m.hold(&l.Items[n], l.Mark)
			}
		}
	}
	return l
}

// hold leaves an item undecoded, if the list is of the epoch of what is held.
func (m *machine) hold(item *object.Item[*thing], mark object.Mark) {
	if at, ok := m.model.marks[mark.Scope]; !ok || at.Epoch == mark.Epoch {
		item.Object, item.Held = nil, true
	}
}

func (m *machine) Set(t *rapid.T) {
	obj := m.thing(t, m.version(t))
	err := m.store.Set(obj)
	if bad := obj.color == "" || obj.color == "boom"; bad != (err != nil) {
		t.Fatalf("Set(%v): %v", obj, err)
	}
	if err == nil {
		m.model.objects[obj.key] = obj
	}
}

func (m *machine) Delete(t *rapid.T) {
	k := genKey.Draw(t, "key")
	_, there := m.model.objects[k]
	if got := m.store.Delete(k); got != there {
		t.Fatalf("Delete(%v) = %v", k, got)
	}
	delete(m.model.objects, k)
}

func (m *machine) Snapshot(t *rapid.T) {
	m.held = append(m.held, held{m.store.Snapshot(), m.model.clone()})
}

func (m *machine) Release(t *rapid.T) {
	if len(m.held) == 0 {
		t.Skip("none held")
	}
	i := rapid.IntRange(0, len(m.held)-1).Draw(t, "which")
	m.held[i].snap.Release()
	m.held = slices.Delete(m.held, i, i+1)
}

func (m *machine) AddIndex(t *rapid.T) {
	if m.lateIndex != nil {
		t.Skip("added")
	}
	_, m.lateIndex, _ = modelIndexes()
	m.store.AddIndex(m.lateIndex)
}

func (m *machine) Diff(t *rapid.T) {
	now := m.store.Snapshot()
	defer now.Release()
	all := append([]held{{want: model{}}, {now, m.model}}, m.held...)
	a := rapid.SampledFrom(all).Draw(t, "a")
	b := rapid.SampledFrom(all).Draw(t, "b")
	got := map[object.Key][]move{}
	for c := range Diff(a.snap, b.snap) {
		got[c.Key] = append(got[c.Key], move{c.Kind, c.Unknown, c.Key, c.Old(), c.New()})
	}
	want := map[object.Key][]move{}
	for k, old := range a.want.objects {
		switch now := b.want.objects[k]; {
		case now == nil:
			want[k] = []move{{object.Deleted, true, k, old, old}}
		case now == old:
		case now.uid != old.uid:
			want[k] = []move{{object.Deleted, true, k, old, old}, {object.Added, false, k, nil, now}}
		default:
			want[k] = []move{{object.Updated, false, k, old, now}}
		}
	}
	for k, now := range b.want.objects {
		if a.want.objects[k] == nil {
			want[k] = []move{{object.Added, false, k, nil, now}}
		}
	}
	if !maps.EqualFunc(got, want, slices.Equal) {
		t.Fatalf("diff\n got %v\nwant %v", got, want)
	}
}

// Check looks at the store and at every snapshot that is held.
func (m *machine) Check(t *rapid.T) {
	now := m.store.Snapshot()
	m.check(t, held{now, m.model})
	byKey := func(a, b *thing) int { return a.key.Compare(b.key) }
	if got, want := slices.SortedFunc(slices.Values(m.listed.update(now)), byKey), m.model.sorted(); !slices.Equal(got, want) {
		t.Fatalf("chunks\n got %v\nwant %v", got, want)
	}
	now.Release()
	for _, h := range m.held {
		m.check(t, h)
	}
	if m.store.Len() != len(m.model.objects) {
		t.Fatalf("Len %d, want %d", m.store.Len(), len(m.model.objects))
	}
	for k, want := range m.model.objects {
		if got, ok := m.store.Get(k); !ok || got != want {
			t.Fatalf("Get(%v) = %v, want %v", k, got, want)
		}
	}
	st := m.store.Stats()
	if len(m.held) == 0 && (st.Retained != 0 || len(st.Pins) != 0) {
		t.Fatalf("no snapshot is held, yet retained: %+v", st)
	}
}

func (m *machine) check(t *rapid.T, h held) {
	want := h.want.sorted()
	byKey := func(a, b *thing) int { return a.key.Compare(b.key) }
	var texts []string
	for _, t := range want {
		texts = append(texts, t.key.String())
	}
	slices.Sort(texts)
	var keys []string
	for chunk := range h.snap.Chunks() {
		keys = append(keys, h.snap.ChunkKeys(chunk)...)
	}
	if slices.Sort(keys); !slices.Equal(keys, texts) {
		t.Fatalf("ChunkKeys\n got %q\nwant %q", keys, texts)
	}
	if got := slices.SortedFunc(slices.Values(h.snap.AppendTo(nil)), byKey); !slices.Equal(got, want) {
		t.Fatalf("AppendTo\n got %v\nwant %v", got, want)
	}
	if got := slices.SortedFunc(h.snap.All(), byKey); !slices.Equal(got, want) {
		t.Fatalf("All\n got %v\nwant %v", got, want)
	}
	if got := slices.Collect(h.snap.Sorted()); !slices.Equal(got, want) {
		t.Fatalf("Sorted\n got %v\nwant %v", got, want)
	}
	if h.snap.Len() != len(want) {
		t.Fatalf("Len %d, want %d", h.snap.Len(), len(want))
	}
	for _, obj := range want {
		if got, ok := h.snap.Get(obj.key); !ok || got != obj {
			t.Fatalf("Get(%v) = %v, want %v", obj.key, got, obj)
		}
	}
	marks := map[object.Scope]object.Mark{}
	for mark := range h.snap.Marks() {
		marks[mark.Scope] = mark
	}
	if len(marks)+len(h.want.marks) > 0 && !maps.Equal(marks, h.want.marks) {
		t.Fatalf("Marks %v, want %v", marks, h.want.marks)
	}
	for scope, mark := range h.want.marks {
		if got := h.snap.Mark(scope); got != mark {
			t.Fatalf("Mark(%q) = %v, want %v", scope, got, mark)
		}
	}
	for _, ns := range []string{"", "a", "a-b", "b", "c"} {
		mine := slices.DeleteFunc(slices.Clone(want), func(x *thing) bool { return x.key.Namespace != ns })
		if got := slices.SortedFunc(h.snap.Namespace(ns), byKey); !slices.Equal(got, mine) {
			t.Fatalf("Namespace(%q)\n got %v\nwant %v", ns, got, mine)
		}
	}
	var pages []*thing
	for after := (object.Key{}); ; {
		page := slices.Collect(h.snap.After(after, 2))
		pages = append(pages, page...)
		if len(page) < 2 {
			break
		}
		after = page[1].key
	}
	if !slices.Equal(pages, want) {
		t.Fatalf("pages\n got %v\nwant %v", pages, want)
	}
	m.checkIndex(t, h, m.byColor)
	m.checkIndex(t, h, m.byTag)
	m.checkIndex(t, h, m.byInitial)
	if m.lateIndex != nil {
		m.checkIndex(t, h, m.lateIndex)
	}
}

// checkIndex compares an index with a scan.
func (m *machine) checkIndex(t *rapid.T, h held, x *Index[*thing, string]) {
	want := map[string][]*thing{}
	for _, obj := range h.want.sorted() {
		var values []string
		if x.guarded(obj, func(k string) { values = append(values, k) }) != nil {
			continue
		}
		slices.Sort(values)
		for _, k := range slices.Compact(values) {
			want[k] = append(want[k], obj)
		}
	}
	byKey := func(a, b *thing) int { return cmp.Or(a.key.Compare(b.key), cmp.Compare(a.uid, b.uid)) }
	for _, k := range []string{"red", "rose", "blue", "", "boom", "t1", "t2", "t3", "r", "b", "none"} {
		got := slices.SortedFunc(x.Get(h.snap, k), byKey)
		if !slices.Equal(got, want[k]) {
			t.Fatalf("index %s, value %q, revision %d\n got %v\nwant %v", x.label, k, h.snap.Revision(), got, want[k])
		}
		var texts []string
		for _, obj := range want[k] {
			texts = append(texts, obj.key.String())
		}
		slices.Sort(texts)
		if got := slices.Sorted(slices.Values(x.ObjectKeys(h.snap, k))); !slices.Equal(got, texts) {
			t.Fatalf("index %s, value %q: ObjectKeys %q, want %q", x.label, k, got, texts)
		}
		if n := x.Count(h.snap, k); n != len(want[k]) {
			t.Fatalf("index %s, value %q: Count %d, want %d", x.label, k, n, len(want[k]))
		}
	}
	keys := slices.Collect(x.Keys(h.snap))
	if x.order != nil && !slices.IsSorted(keys) {
		t.Fatalf("index %s: keys %v not in order", x.label, keys)
	}
	slices.Sort(keys)
	if wantKeys := slices.Sorted(maps.Keys(want)); !slices.Equal(keys, wantKeys) {
		t.Fatalf("index %s: keys %v, want %v", x.label, keys, wantKeys)
	}
}

// TestStoreAgreesWithModel is S01, S02, S04, S05, S08, W14, W17, W18, W19, L15 and L16 at
// once: whatever happens, in whatever order, the store and every snapshot that is held
// show just what a map would.
func TestStoreAgreesWithModel(t *testing.T) { rapid.Check(t, agrees) }

// FuzzStore is the same, driven by the fuzzer's bytes.
func FuzzStore(f *testing.F) {
	f.Add([]byte("tarn"))
	f.Fuzz(rapid.MakeFuzz(agrees))
}

func agrees(t *rapid.T) {
	m := newMachine(t)
	t.Repeat(map[string]func(*rapid.T){
		"apply":    m.Apply,
		"set":      m.Set,
		"delete":   m.Delete,
		"snapshot": m.Snapshot,
		"release":  m.Release,
		"index":    m.AddIndex,
		"diff":     m.Diff,
		"":         m.Check,
	})
}
