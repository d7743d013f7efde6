package store

import (
	"iter"

	"github.com/tarnproject/tarn/internal/mvcc"
	"github.com/tarnproject/tarn/object"
)

// place is the progress of one scope. Writer only.
type place struct {
	mark object.Mark // as the revision in preparation has it
	// seen is the newest version that was applied: that of the mark, or of deletions after it, of
	// which there may be more ([object.Mark]). Events that are not after it are stale.
	seen object.Version
}

// isMarkOf reports whether the mark in the root is that of a scope.
func (r *root) isMarkOf(scope object.Scope) bool { return r.mark != nil && r.mark.Scope == scope }

// markOf returns the mark of a scope in the revision in preparation; ok is false if there is
// none. It is for the writer.
func (s *Store[T]) markOf(scope object.Scope) (m object.Mark, ok bool) {
	if p := s.places[scope]; p != nil {
		return p.mark, true
	}
	return object.Mark{Scope: scope}, false
}

// covering returns the place of the scope that covers a key: its namespace's, else that of
// everything; nil if there is none.
func (s *Store[T]) covering(k object.Key) *place {
	if len(s.places) <= 1 {
		if s.place != nil && s.place.mark.Scope.Covers(k) {
			return s.place
		}
		return nil
	}
	if p := s.places[object.Scope(k.Namespace)]; p != nil {
		return p
	}
	return s.places[object.Everything]
}

// setMark moves the mark of a scope. The first scope's is in the root; most stores have no other.
// Those of others have chains of versions, as objects have, so that moving one costs the same
// however many there are.
func (t *txn[T]) setMark(m object.Mark) *place {
	s := t.store
	p := s.places[m.Scope]
	if p == nil {
		p = &place{}
		s.places[m.Scope], s.place = p, p
	}
	p.mark = m
	switch key := (object.Key{Name: string(m.Scope)}); {
	case t.root.isMarkOf(m.Scope), t.root.mark == nil && !s.marks.Lookup(key).Known():
		t.root.mark = &m
	default:
		s.marks.Put(key, s.marks.Lookup(key), heldMark(&m))
	}
	return p
}

// advance moves the mark of a scope to a mark of the batch.
func (t *txn[T]) advance(m object.Mark) {
	if !m.Version.Known() {
		return // no version is complete; a list has set its own mark
	}
	old, _ := t.store.markOf(m.Scope)
	if p := t.setMark(m); m.Epoch != old.Epoch || !m.Version.NotAfter(p.seen) {
		p.seen = m.Version
	}
}

// dropMark removes the mark of a scope.
func (t *txn[T]) dropMark(scope object.Scope) {
	s := t.store
	if s.places[scope] == nil {
		return
	}
	delete(s.places, scope)
	s.place = nil
	for _, s.place = range s.places {
		break
	}
	if t.root.isMarkOf(scope) {
		t.root.mark = nil
		return
	}
	s.marks.Delete(s.marks.Lookup(object.Key{Name: string(scope)}))
}

// marksAt yields the marks of a state that is pinned, or the current one for the writer.
func (s *Store[T]) marksAt(st *state) iter.Seq[object.Mark] {
	return func(yield func(object.Mark) bool) {
		if m := st.Payload.mark; m != nil && !yield(*m) {
			return
		}
		s.marks.IDs(st.Revision, func(_ uint32, p mvcc.Value) bool { return yield(*markAt(p)) })
	}
}
