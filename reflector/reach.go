package reflector

import (
	"errors"

	"github.com/tarnproject/tarn/object"
)

// reach is an [object.Reach] with what a reflector must remember to resume a watch from a
// version before the last one it has seen. Only the goroutine that is in Run or Step uses it.
//
// Where the last event was a deletion, Complete is before Seen: the server may have sent only some
// of the deletions of that version when the connection broke. A watch from Seen would begin after
// all of them. So the next watch begins at Complete, and first repeats what has come already.
// Nothing is told twice, nor revived (W14): there was nothing between the two versions, so what is
// repeated is deletions at Seen, each of which is known by the object whose life it ended. An Added
// or Modified event at Seen, or before it, is late as ever. One of an object that was deleted at
// Seen and exists again is of a later version.
//
// Anything else comes from another history of the server: a restore of an etcd backup between
// the two versions, which a watch from Seen would have been refused for (W19). The list that
// follows will tell. Objects without a UID are not judged: they are not of a Kubernetes API, or
// come by way of a fake that sends what it likes.
type reach struct {
	object.Reach

	gone []life // whose ends at Seen were told, while it is not complete
	// repeats are those that an open watch from before Seen has not repeated yet.
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

// list moves to the version of a list, which may be anywhere.
func (a *reach) list(v object.Version) {
	a.Reach = object.ReachOf(v)
	a.settle()
}

// move moves to the version of an event, and reports whether that is news.
func (a *reach) move(v object.Version, deleted bool) bool {
	moved := a.Event(v, deleted)
	if moved {
		a.settle()
	}
	return moved
}

// bookmark moves to the version of a bookmark, and reports whether that is a later one than
// was seen. It may also complete the version that was seen.
func (a *reach) bookmark(v object.Version) (news bool) {
	seen := a.Seen
	if a.Bookmark(v) {
		a.settle()
	}
	return a.Seen != seen
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

// begin prepares for a watch from Complete.
func (a *reach) begin() {
	a.repeats, a.strict = nil, a.Complete != a.Seen
	if a.Complete == a.Seen {
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
	if v != a.Seen || a.Complete == a.Seen {
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

// contradicts reports whether an event of a watch from before Seen shows another history.
func (a *reach) contradicts(bookmark bool, v object.Version) bool {
	switch {
	case !a.strict, !v.After(a.Complete):
		return false
	case a.Seen.After(v):
		return !bookmark // that may be of a server that lags behind
	case v == a.Seen && !bookmark:
		return false
	}
	return len(a.repeats) > 0
}
