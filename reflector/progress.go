package object

// Reach is how far a watch has progressed within one scope and epoch.
//
// It has two versions because deletions may share one: etcd deletes all keys of a lease in one
// transaction, which is how Events expire, and the server then sends one DELETED event per
// object, all with the same version. The version of a DELETED event is therefore complete only
// after one of:
//
//   - an event with a later version, because events arrive in the order of versions;
//   - a bookmark at that version or a later one.
//
// An ADDED or MODIFIED event completes its version: the server writes one object per
// transaction.
//
// A watch can be resumed from Complete without losing an event, and a mirror may claim to be at
// Complete.
type Reach struct {
	// Seen is the newest version of an event, bookmark or list.
	Seen Version
	// Complete is the newest version up to which all events have arrived: Seen or the one
	// before it. It is empty while no version is complete.
	Complete Version
}

// ReachOf returns the reach of a list at a version, or of a bookmark.
func ReachOf(v Version) Reach { return Reach{Seen: v, Complete: v} }

// Event advances to the version of an event, and reports whether it did. It never moves back.
// For versions without an order the latest received wins.
func (r *Reach) Event(v Version, deleted bool) bool {
	if !v.Known() || v.NotAfter(r.Seen) {
		return false
	}
	if deleted {
		r.Complete = r.Seen
	} else {
		r.Complete = v
	}
	r.Seen = v
	return true
}

// Bookmark advances to the version of a bookmark, which is complete, and reports whether that
// changed anything.
func (r *Reach) Bookmark(v Version) bool {
	if !v.Known() || v == r.Complete || v != r.Seen && v.NotAfter(r.Seen) {
		return false
	}
	*r = ReachOf(v)
	return true
}
