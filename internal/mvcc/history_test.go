package mvcc

import (
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// span is a thing in a model of History: revisions from born up to died see it.
type span struct{ born, died uint64 }

// cutLog is a cutter that records what was dropped.
type cutLog struct {
	spans map[uint32]span
	cuts  map[uint32]bool
}

func (c *cutLog) cut(id uint32, _ uint64, _ bool) { c.cuts[id] = true }

// TestHistoryDropsJustWhatNoPinSees supersedes things at random and compares what is dropped with
// a scan over all pins.
func TestHistoryDropsJustWhatNoPinSees(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		h := NewHistory(0)
		log := &cutLog{spans: map[uint32]span{}, cuts: map[uint32]bool{}}
		var pins []*State[int]
		var next uint32
		for step := range 60 {
			for range r.IntN(4) {
				s := span{born: 1 + uint64(r.IntN(int(h.Next()-1))), died: h.Next()}
				log.spans[next] = s
				h.retire(log, next, s.born<<1)
				next++
			}
			h.Publish(step)
			if now := h.Current(); now.Payload != step || h.Next() != now.Revision+1 {
				t.Fatalf("current state %d carries %d, want %d", now.Revision, now.Payload, step)
			}
			if r.IntN(2) == 0 {
				pins = append(pins, h.Pin())
			} else if len(pins) > 0 {
				i := r.IntN(len(pins))
				pins[i].Unpin()
				pins = append(pins[:i], pins[i+1:]...)
				h.Sweep()
			}
			retained := 0
			for id, s := range log.spans {
				seen := false
				for _, p := range pins {
					seen = seen || p.Revision >= s.born && p.Revision < s.died
				}
				if seen {
					retained++
				}
				if seen == log.cuts[id] {
					t.Fatalf("thing %d of revisions %v: seen by a pin %v, dropped %v", id, s, seen, log.cuts[id])
				}
			}
			if h.Retained() != retained {
				t.Fatalf("Retained is %d, want %d", h.Retained(), retained)
			}
		}
	})
}
