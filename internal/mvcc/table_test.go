package mvcc

import (
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// TestTableAgreesWithMap inserts and removes ids at random. Hashes collide often: in all bits, in
// the tag, and in the group.
func TestTableAgreesWithMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		hashes := map[uint32]uint64{}
		hash := func(id uint32) uint64 { return hashes[id] }
		tab := newTable(0)
		for range 4 {
			grow := r.IntN(3) > 0
			for range r.IntN(500) {
				id := uint32(r.IntN(400))
				switch _, there := hashes[id]; {
				case grow && !there:
					hashes[id] = uint64(r.IntN(8))<<61 | uint64(r.IntN(50))
					if tab.full(1) {
						tab = tab.rebuilt(1, hash)
					}
					tab.insert(hashes[id], id)
				case !grow && there:
					tab.remove(hashes[id], id)
					delete(hashes, id)
				}
			}
			if r.IntN(4) == 0 {
				tab = tab.rebuilt(r.IntN(100), hash)
			}
			if tab.ids != len(hashes) {
				t.Fatalf("%d ids, want %d", tab.ids, len(hashes))
			}
			for id, h := range hashes {
				if !finds(tab, h, id) {
					t.Fatalf("id %d is not found under its hash", id)
				}
			}
			if finds(tab, 1<<40, 1000) {
				t.Fatal("found an id that was never inserted")
			}
		}
	})
}

func finds(t *table, hash uint64, id uint32) bool {
	for at := t.home(hash); ; at = t.after(at) {
		g := &t.groups[at]
		for f := g.matches(tagOf(hash)); f != 0; f &= f - 1 {
			if g.ids[slotOf(f)].Load() == id {
				return true
			}
		}
		if g.empty() {
			return false
		}
	}
}
