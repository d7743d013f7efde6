package store

import (
	"cmp"
	"maps"
	"slices"

	"github.com/tarnproject/tarn/object"
	"pgregory.net/rapid"
)

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
	var objects []*thing
	for chunk := range h.snap.Chunks() {
		keys = append(keys, h.snap.ChunkKeys(chunk)...)
		objects = h.snap.Chunk(chunk, objects)
	}
	if slices.SortFunc(objects, byKey); !slices.Equal(objects, want) {
		t.Fatalf("Chunk\n got %v\nwant %v", objects, want)
	}
	if slices.Sort(keys); !slices.Equal(keys, texts) {
		t.Fatalf("ChunkKeys\n got %q\nwant %q", keys, texts)
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
