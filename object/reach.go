package object

// Reach is how far the events of a watch have come within one scope and epoch.
//
// Its two versions differ because deletions may share one. etcd deletes everything that belongs
// to a lease in one transaction, which is how Events expire: the server sends one DELETED for
// each object, all of one version. So the version of a DELETED event is complete only when one of
// these has come:
//
//   - an event of a later version, because events come in the order of versions;
//   - a bookmark at that version or a later one.
//
// An ADDED or MODIFIED event completes its version: a server writes one object in a transaction,
// and there is nothing else at that version.
//
// Complete is where a watch may be resumed without losing an event, and the version that a mirror
// may claim to show.
type Reach struct {
	// Seen is the newest version of an event, bookmark or list.
	Seen Version
	// Complete is the newest version up to which everything has come. It is Seen, or the
	// version before it; it is empty while nothing is complete.
	Complete Version
}

// ReachOf returns the reach of a list at a version, or of a bookmark.
func ReachOf(v Version) Reach { return Reach{Seen: v, Complete: v} }

// Event moves to the version of an event, and reports whether it did. It never moves back; of
// versions without an order the latest received wins.
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

// Bookmark moves to the version of a bookmark, which is complete, and reports whether that
// changed anything.
func (r *Reach) Bookmark(v Version) bool {
	if !v.Known() || v == r.Complete || v != r.Seen && v.NotAfter(r.Seen) {
		return false
	}
	*r = ReachOf(v)
	return true
}
