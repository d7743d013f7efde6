package mvcc

import (
	"maps"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// TestCellsAgreeWithSet adds, removes and shrinks at random. An array that a reader loaded before
// must still have every id that was never removed.
func TestCellsAgreeWithSet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		var c cells
		at := map[uint32]uint32{} // the cell of each id
		for range 6 {
			before, stayed := c.load(), maps.Clone(at)
			grow := r.IntN(2) == 0
			for range r.IntN(400) {
				id := uint32(r.IntN(500))
				switch cell, there := at[id]; {
				case grow && !there:
					at[id] = c.add(id + 1)
				case !grow && there:
					c.remove(cell)
					delete(at, id)
					delete(stayed, id)
				}
				if c.sparse() && r.IntN(4) == 0 {
					c.shrink(func(id, cell uint32) { at[id] = cell })
				}
			}
			seen := map[uint32]bool{}
			array := c.load()
			for i := range array {
				if content := array[i].Load(); content != 0 {
					if at[content-1] != uint32(i) {
						t.Fatalf("id %d is in cell %d, want %d", content-1, i, at[content-1])
					}
					seen[content-1] = true
				}
			}
			if len(seen) != len(at) || int(c.used) != len(at) {
				t.Fatalf("%d ids, %d used, want %d", len(seen), c.used, len(at))
			}
			for i := range before {
				if content := before[i].Load(); content != 0 {
					delete(stayed, content-1)
				}
			}
			if len(stayed) != 0 {
				t.Fatalf("a reader of the earlier array misses %v", stayed)
			}
		}
	})
}
