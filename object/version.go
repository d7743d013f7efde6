package object

import "strings"

// Version is a resource version as the server wrote it: opaque text. The empty
// string and "0" are not versions; in a request they mean "most recent" and
// "any".
type Version string

// Known reports whether v is a version: neither "" nor "0".
func (v Version) Known() bool { return v != "" && v != "0" }

// Ordered reports whether v can be compared: it is an unsigned decimal of any length
// without a leading zero.
func (v Version) Ordered() bool {
	if v == "" || v[0] < '1' || v[0] > '9' {
		return false
	}
	for i := 1; i < len(v); i++ {
		if v[i] < '0' || v[i] > '9' {
			return false
		}
	}
	return true
}

// Compare returns -1, 0 or +1 if v is older than, equal to or newer than other. If one of
// them is not [Version.Ordered], ok is false and order is 0; the caller must then let the
// latest received win. That includes equal unordered versions; use == to test for the same
// version.
func (v Version) Compare(other Version) (order int, ok bool) {
	if !v.Ordered() || !other.Ordered() {
		return 0, false
	}
	if len(v) != len(other) {
		if len(v) < len(other) {
			return -1, true
		}
		return +1, true
	}
	return strings.Compare(string(v), string(other)), true
}

// After reports whether v is certainly newer than other. It is false if the two do not
// compare.
func (v Version) After(other Version) bool {
	order, ok := v.Compare(other)
	return ok && order > 0
}

// NotAfter reports whether v is certainly not newer than other: older or the same. For
// versions that do not compare it is true only if they are equal. It is false if either is
// not [Version.Known].
func (v Version) NotAfter(other Version) bool {
	if v == other {
		return v.Known()
	}
	order, ok := v.Compare(other)
	return ok && order <= 0
}

// Epoch counts the histories of a resource. It increases when versions start over, as after
// etcd was restored from a backup. Versions of different epochs do not compare. The first
// epoch is 0.
type Epoch uint64

// Scope is the part of a resource that one list and one watch cover: everything
// (the empty scope), or one namespace.
type Scope string

// Everything is the scope of a cluster-wide list or watch.
const Everything Scope = ""

// Covers reports whether the scope includes objects with that key.
func (s Scope) Covers(k Key) bool { return s == Everything || string(s) == k.Namespace }

// Mark is a point in the history of one scope: everything up to Version in Epoch is
// known, of the objects in Shard.
//
// Deletions may share a version: etcd deletes all keys of a lease in one transaction, which is how
// Events expire, and the server then sends one DELETED event per object, all with the same version.
// A mark therefore reaches the version of a deletion only when a later event or a bookmark shows
// that it is complete. What was deleted since may already be missing.
type Mark struct {
	Scope   Scope
	Epoch   Epoch
	Version Version
	// Shard is the part of the scope's objects that is known; the zero Shard is all of them.
	Shard Shard
}

// Reached reports whether m is at or after target: in the same scope and a later
// epoch, or in the same epoch at a version that is not older. Versions that do
// not compare count as reached only if they are equal. A target without a version is
// reached with its epoch.
func (m Mark) Reached(target Mark) bool {
	if m.Scope != target.Scope || m.Epoch < target.Epoch {
		return false
	}
	return m.Epoch > target.Epoch || !target.Version.Known() || target.Version.NotAfter(m.Version)
}
