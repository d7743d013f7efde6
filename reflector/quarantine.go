package reflector

import (
	"bytes"
	"slices"
	"time"

	"github.com/tarnproject/tarn/object"
)

// Quarantined is an object that could not be decoded or transformed. The last good state of the same
// UID, if there was one, stays in the sink until a good version arrives, which also ends the
// quarantine. An object with another UID is deleted from the sink.
type Quarantined struct {
	// Key is the object's key. The zero Key stands for all objects whose key cannot be read.
	Key     object.Key
	UID     object.UID
	Version object.Version
	// Cause is why its latest version cannot be read.
	Cause error
	// Count is how many bad versions arrived since the last good one.
	Count int
	// Since is when the first of them arrived.
	Since time.Time
	// Size is the length of the encoded object, 0 where it could be decoded.
	Size int
	// Raw is the beginning of the encoded object. It may contain secrets: do not show or log it
	// by default.
	Raw []byte `json:"-"`
}

// Bounds of the quarantine.
const (
	maxQuarantined = 1000    // objects that are listed; a lookup by key finds all
	maxRaw         = 4 << 10 // raw bytes of one object
	maxRawTotal    = 1 << 20 // raw bytes of all objects
)

// quarantine is the set of objects that cannot be read.
type quarantine struct {
	byKey map[object.Key]*Quarantined
	raw   int // raw bytes in byKey
}

func (q *quarantine) len() int { return len(q.byKey) }

// find returns the identity of the object of a key; ok is false if it is not in quarantine.
func (q *quarantine) find(key object.Key) (uid object.UID, version object.Version, ok bool) {
	if e := q.byKey[key]; e != nil {
		return e.UID, e.Version, true
	}
	return "", "", false
}

// add records a bad item. before, which may be nil, is the quarantine that this one replaces.
func (q *quarantine) add(now time.Time, before *quarantine, key object.Key, uid object.UID, version object.Version, cause error, raw []byte) {
	e := q.byKey[key]
	if e == nil {
		e = &Quarantined{Key: key, Since: now}
		if before != nil && before.byKey[key] != nil {
			old := before.byKey[key]
			e.Count, e.Since = old.Count, old.Since
			if old.UID == uid && old.Version == version && uid != "" {
				e.Count-- // the same version again
			}
		}
		if q.byKey == nil {
			q.byKey = make(map[object.Key]*Quarantined)
		}
		q.byKey[key] = e
	}
	q.raw -= len(e.Raw)
	e.UID, e.Version, e.Cause, e.Size = uid, version, cause, len(raw)
	e.Raw = bytes.Clone(raw[:min(len(raw), maxRaw, maxRawTotal-q.raw)])
	q.raw += len(e.Raw)
	e.Count++
}

// remove ends the quarantine of a key.
func (q *quarantine) remove(key object.Key) {
	if e := q.byKey[key]; e != nil {
		q.raw -= len(e.Raw)
		delete(q.byKey, key)
	}
}

// keep ends the quarantine of objects that are not in a shard. What has no UID that can be read stays.
func (q *quarantine) keep(shard object.Shard) {
	for key, e := range q.byKey {
		if e.UID != "" && !shard.Contains(e.UID, key.Namespace) {
			q.remove(key)
		}
	}
}

// merge adds the objects of another quarantine, which has none of these.
func (q *quarantine) merge(other *quarantine) {
	for key, e := range other.byKey {
		q.remove(key)
		if q.byKey == nil {
			q.byKey = make(map[object.Key]*Quarantined)
		}
		if q.raw+len(e.Raw) > maxRawTotal {
			e.Raw = nil
		}
		q.byKey[key] = e
		q.raw += len(e.Raw)
	}
}

func (q *quarantine) list() []Quarantined {
	out := make([]Quarantined, 0, len(q.byKey))
	for _, e := range q.byKey {
		out = append(out, *e)
	}
	slices.SortFunc(out, func(a, b Quarantined) int { return a.Key.Compare(b.Key) })
	return out[:min(len(out), maxQuarantined)]
}

// setQuarantine replaces the quarantine with that of a list.
func (r *Reflector[T]) setQuarantine(q quarantine) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.quarantine = q
}
