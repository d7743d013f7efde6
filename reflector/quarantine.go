package reflector

import (
	"bytes"
	"slices"
	"time"

	"github.com/tarnproject/tarn/object"
)

// Quarantined is an object that could not be decoded or transformed. The last good
// state of it, if there was one, stays in the mirror until a good one arrives, which
// also ends the quarantine.
type Quarantined struct {
	// Key is the object's key; the zero Key stands for all that are so broken that
	// they have none.
	Key     object.Key
	UID     object.UID
	Version object.Version
	// Cause is why it cannot be read, as of the last time.
	Cause error
	// Count is how many bad versions came since the last good one.
	Count int
	// Since is when the first of them came.
	Since time.Time
	// Size is the length of the encoded object, 0 where it was decoded.
	Size int
	// Raw is the beginning of it. It may hold secrets: show it to nobody by default.
	Raw []byte `json:"-"`
}

// Bounds of what is kept of objects that cannot be read.
const (
	maxQuarantined = 1000    // objects that are named; more are just counted
	maxRaw         = 4 << 10 // bytes of one
	maxRawTotal    = 1 << 20 // bytes of all
)

// quarantine is what cannot be read.
type quarantine struct {
	byKey map[object.Key]*Quarantined
	more  int // that came when byKey was full
	raw   int // bytes in it
}

func (q *quarantine) len() int { return len(q.byKey) + q.more }

// add notes a bad item. before, which may be nil, has what was known earlier.
func (q *quarantine) add(now time.Time, before *quarantine, key object.Key, uid object.UID, version object.Version, cause error, raw []byte) {
	e := q.byKey[key]
	if e == nil && len(q.byKey) >= maxQuarantined {
		q.more++
		return
	}
	if e == nil {
		e = &Quarantined{Key: key, Since: now}
		if before != nil && before.byKey[key] != nil {
			old := before.byKey[key]
			e.Count, e.Since = old.Count, old.Since
			if old.UID == uid && old.Version == version && uid != "" {
				e.Count-- // the same once more
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

func (q *quarantine) list() []Quarantined {
	out := make([]Quarantined, 0, len(q.byKey))
	for _, e := range q.byKey {
		out = append(out, *e)
	}
	slices.SortFunc(out, func(a, b Quarantined) int { return a.Key.Compare(b.Key) })
	return out
}

// setQuarantine replaces the quarantine with that of a list.
func (r *Reflector[T]) setQuarantine(q quarantine) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.quarantine = q
}
