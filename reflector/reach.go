package reflector

import (
	"errors"
	"slices"

	"github.com/tarnproject/tarn/object"
)

// reach is how far the events of a scope have come, and the deletions at the last version.
//
// Where the last event was a deletion, Complete is before Seen: the server may have sent only some
// of the deletions at that version when the connection broke. A watch from Seen would begin after
// all of them, so the next watch begins at Complete and first repeats what was already received.
// See [replay].
type reach struct {
	progress
	deleted []life // the deletions received at Seen, while it is not complete
}

// life is one object from its creation to its deletion.
type life struct {
	key object.Key
	uid object.UID
}

// maxDeleted bounds how many deletions at one version are remembered. The sink drops repetitions
// of the others.
const maxDeleted = 1 << 16

// event advances to the version of an event, and reports whether it is after Seen.
func (a *reach) event(v object.Version, deleted bool) bool {
	moved := a.progress.event(v, deleted)
	if moved {
		a.forget()
	}
	return moved
}

// bookmark advances to the version of a bookmark, which may also complete the version seen. It
// reports whether its version is after Seen.
func (a *reach) bookmark(v object.Version) bool {
	seen := a.Seen
	if a.progress.bookmark(v) {
		a.forget()
	}
	return a.Seen != seen
}

// keep drops the deletions of objects that are not in a shard: a watch of the shard does not repeat
// them.
func (a *reach) keep(shard object.Shard) {
	a.deleted = slices.DeleteFunc(a.deleted, func(l life) bool { return !shard.Contains(l.uid, l.key.Namespace) })
}

// forget drops the deletions of an earlier version.
func (a *reach) forget() {
	const keep = 64
	if cap(a.deleted) > keep {
		a.deleted = nil
	}
	clear(a.deleted)
	a.deleted = a.deleted[:0]
}

// replay is what a watch that begins before Seen must repeat. Such a watch reports nothing twice
// and revives nothing (W14): there was nothing between the two versions, so it repeats deletions at
// Seen, each identified by the object that it ended. An Added or Updated event at Seen or before
// is late as in any watch. An object that was deleted at Seen and exists again has a later version.
//
// Anything else comes from another history of the server: an etcd backup was restored between the
// two versions (W19), for which a watch from Seen would have been refused. The list that follows
// finds out. Objects without a UID are not checked, because they do not come from a Kubernetes API.
type replay struct {
	from   progress          // the replay is over when the reach moves from here
	left   map[life]struct{} // deletions that have not been repeated yet; nil without a replay
	strict bool              // they must all be repeated
}

// errHistory ends a watch that contradicts an earlier one.
var errHistory = errors.New("the server reports its last versions differently than before: its history was restored from a backup")

// replay returns what a watch from Complete must repeat.
func (a *reach) replay() replay {
	if a.Complete == a.Seen {
		return replay{}
	}
	p := replay{from: a.progress, left: make(map[life]struct{}, len(a.deleted)), strict: true}
	for _, l := range a.deleted {
		p.left[l] = struct{}{}
		p.strict = p.strict && l.uid != ""
	}
	return p
}

// active reports whether the replay continues.
func (p *replay) active(a *reach) bool {
	if p.left != nil && p.from != a.progress {
		*p = replay{}
	}
	return p.left != nil
}

// repeated records a deletion, and reports whether an earlier watch already reported it.
func (p *replay) repeated(a *reach, key object.Key, uid object.UID, v object.Version) bool {
	if v != a.Seen || a.Complete == a.Seen {
		return false
	}
	l := life{key, uid}
	if p.active(a) {
		if _, ok := p.left[l]; ok {
			delete(p.left, l)
			return true
		}
	}
	if len(a.deleted) < maxDeleted {
		a.deleted = append(a.deleted, l)
	}
	return false
}

// contradicts reports whether an event shows another history than the replayed one.
func (p *replay) contradicts(a *reach, bookmark bool, v object.Version) bool {
	switch {
	case !p.active(a), !p.strict, !v.After(a.Complete):
		return false
	case a.Seen.After(v):
		return !bookmark // a server that lags behind may send such a bookmark
	case v == a.Seen && !bookmark:
		return false
	}
	return len(p.left) > 0
}
