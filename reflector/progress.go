package reflector

import "github.com/tarnproject/tarn/object"

// progress is how far a watch has progressed within one scope and epoch.
//
// It has two versions because deletions may share one ([object.Mark]). The version of a DELETED
// event is complete only after one of:
//
//   - an event with a later version, because events arrive in the order of versions;
//   - a bookmark at that version or a later one.
//
// An ADDED or MODIFIED event completes its version: the server writes one object per
// transaction.
//
// A watch can be resumed from Complete without losing an event, and a mirror may claim to be at
// Complete.
type progress struct {
	// Seen is the newest version of an event, bookmark or list.
	Seen object.Version
	// Complete is the newest version up to which all events have arrived: Seen or the one
	// before it. It is empty while no version is complete.
	Complete object.Version
}

// progressTo returns the progress of a list at a version, or of a bookmark.
func progressTo(v object.Version) progress { return progress{Seen: v, Complete: v} }

// event advances to the version of an event, and reports whether it did. It never moves back.
// For versions without an order the latest received wins.
func (p *progress) event(v object.Version, deleted bool) bool {
	if !v.Known() || v.NotAfter(p.Seen) {
		return false
	}
	if deleted {
		p.Complete = p.Seen
	} else {
		p.Complete = v
	}
	p.Seen = v
	return true
}

// bookmark advances to the version of a bookmark, which is complete, and reports whether that
// changed anything.
func (p *progress) bookmark(v object.Version) bool {
	if !v.Known() || v == p.Complete || v != p.Seen && v.NotAfter(p.Seen) {
		return false
	}
	*p = progressTo(v)
	return true
}
