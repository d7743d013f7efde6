package shards

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/tarnproject/tarn/controller/shard"
)

// entryField is the field of a ConfigMap that has the last entry.
const entryField = "entry"

// entry is what a reconcile writes into its object.
type entry struct {
	// Replica is the name of the group's member.
	Replica string `json:"replica"`
	Slot    int    `json:"slot"`
	Epoch   uint64 `json:"epoch"`
	// Number counts the entries of the object.
	Number int `json:"number"`
	// Began is when the reconcile began, and Ended when it ended; zero in its first entry.
	Began time.Time `json:"began"`
	Ended time.Time `json:"ended,omitzero"`
	// Asked is a time before the check of the fence that permitted the write.
	Asked time.Time `json:"asked"`
}

// parseEntry returns the last entry of an object; zero if it has none.
func parseEntry(obj *corev1.ConfigMap) (e entry, err error) {
	if text := obj.Data[entryField]; text != "" {
		err = json.Unmarshal([]byte(text), &e)
	}
	return e, err
}

// place is the owner of a slot as the group's assignment has it.
type place struct {
	owner string // name of the member, without the number of its life
	epoch uint64
}

type places [shard.Slots]place

// parsePlaces reads the assignment, which has lines such as "0-15 web-a#1>web-b@3".
func parsePlaces(l *coordinationv1.Lease) (all places, err error) {
	for text := range strings.Lines(l.Annotations["tarn.dev/shard-slots"]) {
		slots, rest, _ := strings.Cut(strings.TrimSpace(text), " ")
		first, last, several := strings.Cut(slots, "-")
		if !several {
			last = first
		}
		owner, epoch, _ := strings.Cut(rest, "@")
		owner, _, _ = strings.Cut(owner, ">")
		owner, _, _ = strings.Cut(owner, "#")
		from, err1 := strconv.Atoi(first)
		to, err2 := strconv.Atoi(last)
		number, err3 := strconv.ParseUint(epoch, 10, 64)
		if err := errors.Join(err1, err2, err3); err != nil {
			return all, fmt.Errorf("the assignment has the line %q: %w", text, err)
		}
		for i := from; i <= to && i < len(all); i++ {
			all[i] = place{owner, number}
		}
	}
	return all, nil
}

// write is an entry that the server has stored.
type write struct {
	entry
	key     string
	version uint64
}

// assignment is an assignment that the server has stored.
type assignment struct {
	places  places
	version uint64
	seen    time.Time // when the test received it, which is after it was stored
}

// span is a time, with both ends.
type span struct{ from, to time.Time }

// stint is one reconcile as its process reported it.
type stint struct {
	span
	process, key string
}

// touch is a change of an object by the test.
type touch struct {
	key     string
	version uint64
	at      time.Time // when the server had stored it
}

// history is everything that a run has recorded.
type history struct {
	writes      []write      // in the order of versions
	assignments []assignment // in the order of versions
	stints      []stint
	stalls      map[string][]span // by process: when it did not run
	touches     []touch
	changes     []change // of the membership, in the order of time
	faults      []span   // in the order of time; while they last, the membership changes
}

// verdict is what judge finds in a history.
type verdict struct {
	wrong    []string
	keys     int // with entries
	inFlight int // writes that began before their epoch ended and arrived after
	cut      int // reconciles that a stall interrupted
	moved    int // writes that follow one of another replica
	// slowest is the longest time from the later of a change and the last membership change until
	// the key was reconciled.
	slowest time.Duration
}

// judge looks for work that must not have been done.
func judge(h history) verdict {
	var v verdict
	v.judgeWrites(h)
	v.judgeDelays(h)
	v.judgeStints(h)
	slices.Sort(v.wrong)
	return v
}

func (v *verdict) wrongf(format string, args ...any) {
	v.wrong = append(v.wrong, fmt.Sprintf(format, args...))
}

func (v *verdict) judgeWrites(h history) {
	last := map[string]write{}
	for _, w := range h.writes {
		old, again := last[w.key]
		switch {
		case !again:
			v.keys++
		case old.Replica != w.Replica:
			v.moved++
		}
		if w.Number != old.Number+1 {
			v.wrongf("%s@%d: entry %d of %s follows entry %d of %s", w.key, w.version, w.Number, w.Replica, old.Number, old.Replica)
		}
		if w.Epoch < old.Epoch || again && w.Epoch == old.Epoch && w.Replica != old.Replica {
			v.wrongf("%s@%d: a write of %s in epoch %d after one of %s in epoch %d", w.key, w.version, w.Replica, w.Epoch, old.Replica, old.Epoch)
		}
		last[w.key] = w
		end, ended := endOf(h.assignments, w)
		switch {
		case !ended:
		case w.Asked.After(end.seen):
			v.wrongf("%s@%d: a write of %s in epoch %d of slot %d was permitted at %s, but %s owned the slot at version %d, seen at %s",
				w.key, w.version, w.Replica, w.Epoch, w.Slot, stamp(w.Asked), end.places[w.Slot].owner, end.version, stamp(end.seen))
		default:
			v.inFlight++
		}
	}
}

// endOf returns the first assignment before a write in which another replica owns the slot in a later epoch.
func endOf(assignments []assignment, w write) (end assignment, ended bool) {
	before, _ := slices.BinarySearchFunc(assignments, w.version, func(r assignment, version uint64) int { return cmp.Compare(r.version, version) })
	for i := before - 1; i >= 0 && assignments[i].places[w.Slot].epoch > w.Epoch; i-- {
		if assignments[i].places[w.Slot].owner != w.Replica {
			end, ended = assignments[i], true
		}
	}
	return end, ended
}

// grace is how long after a stall a process may take to notice that it lost its slots.
const grace = 500 * time.Millisecond

// running returns the parts of a reconcile in which its process ran, by the stalls of the process in the order
// of time. A stall is reported from the last sample before it on, so one of which that sample was taken less than the
// time between two samples before the reconcile began has begun after that: a process that ran would have taken
// another. A reconcile that began later in a stall began when that was over, and no part of it is left out.
func running(s stint, stalls []span) (parts []stint) {
	began := s.from
	for _, stall := range stalls {
		if !stall.from.After(began.Add(-sample)) || !stall.from.Before(s.to) {
			continue
		}
		if part := s; stall.from.After(s.from) {
			part.to = stall.from
			parts = append(parts, part)
		}
		s.from = stall.to.Add(grace) // when it has noticed
		if !s.from.Before(s.to) {
			return parts
		}
	}
	return append(parts, s)
}

func (v *verdict) judgeStints(h history) {
	var all []stint
	for _, s := range h.stints {
		parts := running(s, h.stalls[s.process])
		if len(parts) != 1 || parts[0] != s {
			v.cut++
		}
		all = append(all, parts...)
	}
	slices.SortFunc(all, func(a, b stint) int {
		return cmp.Or(cmp.Compare(a.key, b.key), a.from.Compare(b.from))
	})
	var latest stint // of the key, the one that ended last
	for _, s := range all {
		if s.key == latest.key && s.process != latest.process && s.from.Before(latest.to) {
			v.wrongf("%s: %s worked until %s, and %s from %s on", s.key, latest.process, stamp(latest.to), s.process, stamp(s.from))
		}
		if s.key != latest.key || s.to.After(latest.to) {
			latest = s
		}
	}
}

func stamp(t time.Time) string { return t.Format("15:04:05.000000") }
