package shards

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// judgeDelays checks P02 for each change: its key is reconciled within the bound after the later of the
// change and the last membership change, as docs/scaling.md states it. Of several changes that one
// reconcile brought into effect, the last counts: it can end a reconcile with a conflict.
func (v *verdict) judgeDelays(h history) {
	done := map[string][]write{} // the last entries of reconciles
	for _, w := range h.writes {
		if !w.Ended.IsZero() {
			done[w.key] = append(done[w.key], w)
		}
	}
	touches := slices.SortedFunc(slices.Values(h.touches), func(a, b touch) int {
		return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.version, b.version))
	})
	stalls := h.stalled()
	for i, t := range touches {
		all := done[t.key]
		n, _ := slices.BinarySearchFunc(all, t.version, func(w write, version uint64) int { return cmp.Compare(w.version, version) })
		if i+1 < len(touches) && touches[i+1].key == t.key && (n == len(all) || touches[i+1].version < all[n].version) {
			continue
		}
		if n == len(all) {
			v.wrongf("%s@%d: the change of %s was never reconciled", t.key, t.version, stamp(t.at))
			continue
		}
		w := all[n]
		from := h.calm(t.at, w.Ended)
		took := w.Ended.Sub(from)
		v.slowest = max(v.slowest, took)
		if took <= bound {
			continue
		}
		longest, queued := h.busy(w.Replica, from, w.Ended)
		if limit := bound + longest + queued + within(stalls, from, w.Ended); took > limit {
			v.wrongf("%s@%d: the change of %s was reconciled by %s at %s, %v after the later of it and the last membership change; the bound is %v",
				t.key, t.version, stamp(t.at), w.Replica, stamp(w.Ended), took, limit)
		}
	}
}

// calm returns the later of a time and the last membership change up to another time.
func (h *history) calm(from, until time.Time) time.Time {
	for _, c := range h.changes {
		if c.seen.After(from) && !c.seen.After(until) {
			from = c.seen
		}
	}
	for _, f := range h.faults {
		if f.from.Before(until) && f.to.After(from) {
			from = f.to
			if f.to.After(until) {
				return until
			}
		}
	}
	return from
}

// busy returns the longest reconcile that ran in a time, and for how long all workers of a replica reconciled.
func (h *history) busy(replica string, from, to time.Time) (longest, all time.Duration) {
	for _, s := range h.stints {
		if !s.from.Before(to) || !s.to.After(from) {
			continue
		}
		longest = max(longest, s.to.Sub(s.from))
		if strings.HasPrefix(replica, s.process+"-") {
			all += within([]span{s.span}, from, to)
		}
	}
	return longest, all / workers
}

// stalled returns when at least one process did not run, in the order of time.
func (h *history) stalled() (merged []span) {
	var all []span
	for _, spans := range h.stalls {
		all = append(all, spans...)
	}
	slices.SortFunc(all, func(a, b span) int { return a.from.Compare(b.from) })
	for _, s := range all {
		if last := len(merged) - 1; last >= 0 && !s.from.After(merged[last].to) {
			if s.to.After(merged[last].to) {
				merged[last].to = s.to
			}
			continue
		}
		merged = append(merged, s)
	}
	return merged
}

// within returns how much of the spans, which do not overlap, is between two times.
func within(spans []span, from, to time.Time) (total time.Duration) {
	for _, s := range spans {
		if s.from.Before(from) {
			s.from = from
		}
		if s.to.After(to) {
			s.to = to
		}
		total += max(0, s.to.Sub(s.from))
	}
	return total
}
