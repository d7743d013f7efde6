package store

import (
	"maps"
	"slices"
	"strconv"
	"testing"

	"github.com/tarnproject/tarn/object"
	"pgregory.net/rapid"
)

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
