package clientgo

import (
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/tarnproject/tarn/object"
)

// backlog is the queue of a handler, for one that wants it bounded by objects instead of
// by changes: what comes for an object is folded into what is still queued of it, in its
// place. Of each object there are two notes at most, a deletion and the addition of its
// successor, and none of one that the handler has never been told of and that is gone.
//
// It is not safe for use by several goroutines.
type backlog struct {
	notes []note
	last  map[object.Key]pending
	holes int // notes that were taken back
}

// pending is where the notes of an object are.
type pending struct {
	at   int // of the last one
	gone int // of the deletion before it, or -1
}

// add queues a note. started is what that says of initial notes: 1 if there is one more to
// wait for, -1 if there is one less, 0 otherwise.
func (b *backlog) add(n note) (started int) {
	key, ok := n.key()
	where, queued := b.last[key]
	if !ok || !queued {
		return b.append(key, n, -1)
	}
	p := &b.notes[where.at]
	switch {
	case p.kind != deleted && n.kind != deleted:
		p.new = n.new
	case p.kind == added: // and gone before anybody was told
		started = -starts(*p)
		b.takeBack(key, where)
	case p.kind == updated:
		*p = n
	case n.kind == deleted: // once more, which says nothing
	case uidOf(p.last()) == uidOf(n.new): // it was out of sight
		*p = note{kind: updated, old: p.last(), new: n.new}
	default:
		return b.append(key, note{kind: added, initial: n.initial, new: n.new}, where.at)
	}
	return started
}

func (b *backlog) append(key object.Key, n note, gone int) (started int) {
	if b.last == nil {
		b.last = map[object.Key]pending{}
	}
	b.last[key] = pending{len(b.notes), gone}
	b.notes = append(b.notes, n)
	return starts(n)
}

func starts(n note) int {
	if n.initial {
		return 1
	}
	return 0
}

// takeBack takes an object's last note out.
func (b *backlog) takeBack(key object.Key, where pending) {
	b.notes[where.at] = note{}
	b.holes++
	if where.gone >= 0 {
		b.last[key] = pending{where.gone, -1}
	} else {
		delete(b.last, key)
	}
	if b.holes > 64 && b.holes > len(b.notes)/2 {
		b.close()
	}
}

// close closes the holes.
func (b *backlog) close() {
	kept := b.notes[:0]
	clear(b.last)
	for _, n := range b.notes {
		if n.kind == 0 {
			continue
		}
		key, _ := n.key()
		gone := -1
		if before, ok := b.last[key]; ok {
			gone = before.at
		}
		b.last[key] = pending{len(kept), gone}
		kept = append(kept, n)
	}
	clear(b.notes[len(kept):])
	b.notes, b.holes = kept, 0
}

// take returns what is queued, and goes on in the memory it is given.
func (b *backlog) take(memory []note) []note {
	notes := b.notes
	b.notes, b.holes = memory, 0
	if len(b.last) > 1<<12 {
		b.last = nil // a large map stays large
	}
	clear(b.last)
	return notes
}

// key returns the key of what a note is about.
func (n *note) key() (object.Key, bool) {
	obj := n.new
	if n.kind == deleted {
		obj = n.old
	}
	if t, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		return object.RawKey(t.Key), true
	}
	key, err := keyOf(obj)
	return key, err == nil
}

// last returns the object of a deletion.
func (n *note) last() any {
	if t, ok := n.old.(cache.DeletedFinalStateUnknown); ok {
		return t.Obj
	}
	return n.old
}

// uidOf returns the UID of an object, empty where it has none.
func uidOf(obj any) types.UID {
	m, err := meta.Accessor(obj)
	if err != nil {
		return ""
	}
	return m.GetUID()
}
