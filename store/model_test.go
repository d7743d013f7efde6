package store

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/tarnproject/tarn/object"
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

// uids are of both forms: those that are noted in short and others.
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
