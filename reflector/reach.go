package reflector

import (
	"errors"

	"github.com/tarnproject/tarn/object"
)

// reach is how far a reflector has come: up to which version it has been told of changes, and
// up to which it has been told of all of them. Whoever is in Run or Step uses it.
//
// The two differ because deletions may share a version. etcd deletes everything that hangs on
// a lease in one transaction, which is how Events expire: one DELETED for each, all of one
// version. If the connection breaks after the first, and the next watch begins at that version,
// the server goes on after it, and nobody is told of the others until the next list.
//
// What tells that a version is complete:
//
//   - An event of a later version, because events come in the order of versions.
//   - A bookmark of it or of a later one, and a list at it, because that is what they say.
//     If a server says so in the middle of such a transaction, no client can tell.
//   - An Added or Modified event of it. A server writes one object in a transaction, so there
//     is nothing else at its version. This is what most watches end with, and they are
//     resumed exactly where they ended.
//
// So only a Deleted event that is the first of its version leaves that version open, and a
// watch that ends there is resumed from the version before, which is complete. An event that
// is not after seen changes neither mark, however old the version is that a server gives to a
// deletion (W15): what was seen never goes back, nor what was complete.
//
// A watch that is resumed before seen begins with what has come already, and more of it. That
// nothing is told twice, nor revived (W14), follows from what may come there: there was nothing
// between the two marks, so it is deletions at seen, each of which is known by the object whose
// life it ended. An Added or Modified event at seen, or before it, is late as ever. One of an
// object that was deleted at seen and exists again is of a later version.
//
// Anything else comes from another history of the server: a restore of an etcd backup between
// the two marks, which a watch from seen would have been refused for (W19). The list that
// follows will tell. Objects without a UID are not judged: they are not of a Kubernetes API, or
// come by way of a fake that sends what it likes.
type reach struct {
	seen     object.Version // the newest that was told of
	complete object.Version // the newest of which all was told; a watch begins there

	gone []life // whose ends at seen were told, while it is not complete
	// repeats are those that an open watch from before seen has not repeated yet.
	repeats map[life]struct{}
	// strict: such a watch is open, and must repeat them.
	strict bool
}

// life is one object from its creation to its end.
type life struct {
	key object.Key
	uid object.UID
}

// maxGone bounds how many deletions of one version are remembered. The repetition of others
// is left to the FIFO and its consumer.
const maxGone = 1 << 16

// errHistory ends a watch that told of something that cannot be.
var errHistory = errors.New("the server tells of its last versions otherwise than before: its history began anew")

// list puts both marks at the version of a list, which may be anywhere.
func (a *reach) list(v object.Version) {
	a.seen, a.complete = v, v
	a.settle()
}

// move moves to the version of an event, and reports whether that is news. It never moves
// back; of versions without an order the latest received wins. open says that more may follow
// at that version; where none was reached before, there is nothing better to resume from.
func (a *reach) move(v object.Version, open bool) bool {
	if !v.Known() || v.NotAfter(a.seen) {
		return false
	}
	if open && a.seen.Known() {
		a.complete = a.seen
	} else {
		a.complete = v
	}
	a.seen = v
	a.settle()
	return true
}

// bookmark is move for a bookmark, which completes its version even if that is no news.
func (a *reach) bookmark(v object.Version) bool {
	if a.move(v, false) {
		return true
	}
	if v.Known() && v == a.seen {
		a.complete = v
		a.settle()
	}
	return false
}

// settle forgets the deletions of a version that is complete, or was.
func (a *reach) settle() {
	const keep = 64
	a.repeats, a.strict = nil, false
	if cap(a.gone) > keep {
		a.gone = nil
	}
	clear(a.gone)
	a.gone = a.gone[:0]
}

// begin prepares for a watch from complete.
func (a *reach) begin() {
	a.repeats, a.strict = nil, a.complete != a.seen
	if a.complete == a.seen {
		return
	}
	a.repeats = make(map[life]struct{}, len(a.gone))
	for _, l := range a.gone {
		a.repeats[l] = struct{}{}
		a.strict = a.strict && l.uid != ""
	}
}

// repeated notes a deletion, and reports whether it was told of before the watch began.
func (a *reach) repeated(key object.Key, uid object.UID, v object.Version) bool {
	if v != a.seen || a.complete == a.seen {
		return false
	}
	l := life{key, uid}
	if _, ok := a.repeats[l]; ok {
		delete(a.repeats, l)
		return true
	}
	if len(a.gone) < maxGone {
		a.gone = append(a.gone, l)
	}
	return false
}

// contradicts reports whether an event of a watch from before seen shows another history.
func (a *reach) contradicts(t object.EventType, v object.Version) bool {
	switch {
	case !a.strict, !v.After(a.complete):
		return false
	case a.seen.After(v):
		return t != object.Bookmark // that may be of a server that lags behind
	case v == a.seen && t != object.Bookmark:
		return false
	}
	return len(a.repeats) > 0
}
