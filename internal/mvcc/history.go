package mvcc

import "sync/atomic"

// History is the sequence of published revisions, of which readers can pin any while it is the
// current one. P is what a revision carries besides its number.
//
// Current and Pin are for any goroutine. All other methods are for the writer.
type History[P any] struct {
	current atomic.Pointer[State[P]]

	// Writer only:
	older   []older[P] // superseded states that are pinned, oldest first
	garbage []retiree  // superseded by the revision in preparation
	waiting int        // retirees on the lists of all older states
	dropped []dropped
}

// older is a superseded state that is pinned, and what no newer state can see.
type older[P any] struct {
	*State[P]
	retired []retiree
}

// State is one published revision. Its exported fields do not change.
type State[P any] struct {
	// Revision counts publications, from 1.
	Revision uint64
	// Payload is what was published.
	Payload P

	pins   atomic.Int64
	sorted atomic.Pointer[[]uint32]
}

// Sorted returns the ids of m that the state, which must be pinned, sees, in the order of their
// keys. The first call takes O(n log n). The state keeps the result, four bytes for each id, for
// later calls.
func (s *State[P]) Sorted(m *Map) []uint32 {
	if ids := s.sorted.Load(); ids != nil {
		return *ids
	}
	ids := m.Sort(s.Revision)
	s.sorted.Store(&ids)
	return ids
}

// retiree is something that was superseded: where it is, its id, and its stamp, which says
// since which revision it could be seen.
type retiree struct {
	in    cutter
	stamp uint64
	id    uint32
}

// cutter drops something that no revision sees any more. alone means that no superseded
// revision is pinned at all.
type cutter interface {
	cut(id uint32, stamp uint64, alone bool)
}

// retirer is the part of a History, of any payload, that the other structures use.
type retirer interface {
	Next() uint64
	Oldest() uint64
	Seen(from, to uint64) bool
	retire(in cutter, id uint32, stamp uint64)
}

// stampNever is the stamp of what no published revision can see.
const stampNever = 1<<64 - 1

// NewHistory returns a history whose first state, revision 1, carries p.
func NewHistory[P any](p P) *History[P] {
	h := &History[P]{}
	h.current.Store(&State[P]{Revision: 1, Payload: p})
	return h
}

// Current returns the newest published state, without pinning it.
func (h *History[P]) Current() *State[P] { return h.current.Load() }

// Pin returns the current state, pinned: what it can see is kept until Unpin. It does not
// allocate.
func (h *History[P]) Pin() *State[P] {
	for {
		s := h.current.Load()
		s.pins.Add(1)
		// Between the load and the pin the writer may have superseded s, found no pin and
		// unlinked what s could see. Then s is no longer the current state.
		if h.current.Load() == s {
			return s
		}
		s.pins.Add(-1)
	}
}

// Unpin takes one pin back and reports whether it was the last. Any goroutine may call it.
func (s *State[P]) Unpin() (last bool) { return s.pins.Add(-1) == 0 }

// Pins returns the number of pins.
func (s *State[P]) Pins() int { return int(s.pins.Load()) }

// Next returns the revision in preparation.
func (h *History[P]) Next() uint64 { return h.current.Load().Revision + 1 }

// Oldest returns the oldest revision that a reader can see.
func (h *History[P]) Oldest() uint64 {
	if len(h.older) > 0 {
		return h.older[0].Revision
	}
	return h.current.Load().Revision
}

// Seen reports whether a superseded revision from from up to, not including, to is pinned.
func (h *History[P]) Seen(from, to uint64) bool {
	for _, s := range h.older {
		if s.Revision >= from && s.Revision < to {
			return true
		}
	}
	return false
}

// retire records that something of that stamp is superseded by the revision in preparation.
func (h *History[P]) retire(in cutter, id uint32, stamp uint64) {
	h.garbage = append(h.garbage, retiree{in: in, id: id, stamp: stamp})
}

// Publish makes the revision in preparation the current state, and drops what no reader can see
// any more.
func (h *History[P]) Publish(p P) {
	old := h.current.Load()
	h.current.Store(&State[P]{Revision: old.Revision + 1, Payload: p})
	// After the store: a pin that comes later finds that old is not the current state.
	if old.pins.Load() > 0 {
		h.older = append(h.older, older[P]{State: old})
	}
	h.Sweep()
}

// release puts r on the list of the newest of the first n older states if that one can see it.
// Otherwise it drops r.
func (h *History[P]) release(r retiree, n int) {
	if n > 0 && h.older[n-1].Revision >= r.stamp>>1 {
		h.older[n-1].retired = append(h.older[n-1].retired, r)
		h.waiting++
		return
	}
	r.in.cut(r.id, r.stamp, len(h.older) == 0)
}

// Sweep drops what only states that are no longer pinned could see. Publish does that too; Sweep
// is for a store that is idle. It must not be called while a revision is in preparation.
func (h *History[P]) Sweep() {
	if len(h.older) > 0 {
		h.sweepOlder()
	}
	for i := 0; i < len(h.garbage); i++ { // a cutter may add to it
		h.release(h.garbage[i], len(h.older))
	}
	h.garbage = emptied(h.garbage)
}

func (h *History[P]) sweepOlder() {
	kept := h.older[:0]
	for _, s := range h.older {
		if s.pins.Load() > 0 {
			kept = append(kept, s)
		} else {
			h.dropped = append(h.dropped, dropped{s.retired, len(kept)})
		}
	}
	clear(h.older[len(kept):])
	h.older = kept
	// After older is complete: cutters call Seen.
	for _, d := range h.dropped {
		for _, r := range d.retired {
			h.waiting--
			h.release(r, d.before)
		}
	}
	clear(h.dropped)
	h.dropped = h.dropped[:0]
}

// dropped is what was retired on a state that lost its last pin, and the number of older states
// that are pinned.
type dropped struct {
	retired []retiree
	before  int
}

// Older calls f for every superseded state that is pinned, oldest first, with the number of
// superseded things on its list.
func (h *History[P]) Older(f func(s *State[P], retired int)) {
	for _, s := range h.older {
		f(s.State, len(s.retired))
	}
}

// Retained returns how many superseded things are kept for older states.
func (h *History[P]) Retained() int { return h.waiting }

// emptied returns s without its elements. It frees an array that a large transaction grew.
func emptied[E any](s []E) []E {
	if cap(s) > 4096 {
		return nil
	}
	clear(s)
	return s[:0]
}
