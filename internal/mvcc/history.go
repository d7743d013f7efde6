package mvcc

import "sync/atomic"

// History is the sequence of published states. P is what a state carries besides its
// revision.
type History[P any] struct {
	current atomic.Pointer[State[P]]

	// Of the writer:
	older   []*State[P] // superseded states that are pinned, oldest first
	garbage []retiree   // superseded by the revision in preparation
	waiting int         // retirees on all lists
	dropped []dropped[P]
}

// State is one published revision.
type State[P any] struct {
	// Revision counts publications, from 1.
	Revision uint64
	// Payload is what was published.
	Payload P

	pins    atomic.Int64
	retired []retiree // of the writer: what this is the newest state to see
}

// retiree is something superseded: where it is, its id and its stamp, which tells from
// which revision on it could be seen.
type retiree struct {
	in    cutter
	stamp uint64
	id    uint32
}

// cutter drops something that nobody can see any more. alone says that nobody holds any
// superseded state at all.
type cutter interface {
	cut(id uint32, stamp uint64, alone bool)
}

// retirer is the part of a History, whatever its payload, that other structures use.
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

// Current returns the newest published state, unpinned.
func (h *History[P]) Current() *State[P] { return h.current.Load() }

// Pin returns the current state, pinned: what it can see stays until Unpin. It does
// not allocate.
func (h *History[P]) Pin() *State[P] {
	for {
		s := h.current.Load()
		s.pins.Add(1)
		// Between the load and the pin the writer may have superseded s, seen no
		// pin and unlinked what s could see. Then s is no longer current.
		if h.current.Load() == s {
			return s
		}
		s.pins.Add(-1)
	}
}

// Unpin takes one pin back and reports whether it was the last.
func (s *State[P]) Unpin() (last bool) { return s.pins.Add(-1) == 0 }

// Pins returns the number of pins.
func (s *State[P]) Pins() int { return int(s.pins.Load()) }

// Next returns the revision in preparation.
func (h *History[P]) Next() uint64 { return h.current.Load().Revision + 1 }

// Oldest returns the oldest revision that somebody can see.
func (h *History[P]) Oldest() uint64 {
	if len(h.older) > 0 {
		return h.older[0].Revision
	}
	return h.current.Load().Revision
}

// Seen reports whether somebody holds a superseded state with a revision from from up to,
// not including, to.
func (h *History[P]) Seen(from, to uint64) bool {
	for _, s := range h.older {
		if s.Revision >= from && s.Revision < to {
			return true
		}
	}
	return false
}

// retire notes that something of that stamp was superseded by the revision in
// preparation.
func (h *History[P]) retire(in cutter, id uint32, stamp uint64) {
	h.garbage = append(h.garbage, retiree{in: in, id: id, stamp: stamp})
}

// Publish makes the revision in preparation the current state, and drops what nobody can
// see any more.
func (h *History[P]) Publish(p P) {
	old := h.current.Load()
	h.current.Store(&State[P]{Revision: old.Revision + 1, Payload: p})
	// Only after the store: a pin that comes later finds that old is not current.
	if old.pins.Load() > 0 {
		h.older = append(h.older, old)
	}
	h.Sweep()
}

// release puts r on the retire list of the newest of the first n older states if that
// one can see it, else drops it.
func (h *History[P]) release(r retiree, n int) {
	if n > 0 && h.older[n-1].Revision >= r.stamp>>1 {
		h.older[n-1].retired = append(h.older[n-1].retired, r)
		h.waiting++
		return
	}
	r.in.cut(r.id, r.stamp, len(h.older) == 0)
}

// Sweep drops what only states could see that are no longer pinned. Publish does it too;
// Sweep is for when nothing is published. It must not be called while a revision is in
// preparation.
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
			h.dropped = append(h.dropped, dropped[P]{s, len(kept)})
		}
	}
	clear(h.older[len(kept):])
	h.older = kept
	// Only now: a cutter may ask who is left.
	for _, d := range h.dropped {
		for _, r := range d.state.retired {
			h.waiting--
			h.release(r, d.before)
		}
		d.state.retired = nil
	}
	clear(h.dropped)
	h.dropped = h.dropped[:0]
}

// dropped is a state that lost its last pin, and how many that are older did not.
type dropped[P any] struct {
	state  *State[P]
	before int
}

// Older calls f for every superseded state that is still held, oldest first, with the
// number of superseded things that wait for it to go.
func (h *History[P]) Older(f func(s *State[P], retired int)) {
	for _, s := range h.older {
		f(s, len(s.retired))
	}
}

// Retained returns how many superseded things are kept for older states.
func (h *History[P]) Retained() int { return h.waiting }
