package mvcc

import "sync/atomic"

// cells is a set of ids: those of one index value, or of one namespace.
//
// The writer adds and removes in place while readers iterate. An id never moves to another cell
// of the same array, so an iteration misses none that is in the set from its beginning to its
// end. It may or may not see ids that are added or removed meanwhile: readers ask the record
// whether their revision sees the id.
type cells struct {
	array atomic.Pointer[[]atomic.Uint32] // each is 0, or an id plus 1, with looseMark or not

	// Writer only:
	own   []atomic.Uint32 // the beginning of array: the cells that were used so far
	holes []uint32        // those of them that are empty
	used  uint32          // the number of the others
}

// looseMark is set in a cell whose id not every revision sees; see [Postings].
const looseMark = 1 << 31

// load returns the cells for iteration.
func (c *cells) load() []atomic.Uint32 {
	if array := c.array.Load(); array != nil {
		return *array
	}
	return nil
}

// at returns a cell that is in use, for the writer.
func (c *cells) at(cell uint32) *atomic.Uint32 { return &c.own[cell] }

// add writes content into an empty cell and returns its number.
func (c *cells) add(content uint32) uint32 {
	c.used++
	n := len(c.holes)
	if n == 0 {
		return c.append(content)
	}
	cell := c.holes[n-1]
	c.holes = c.holes[:n-1]
	c.own[cell].Store(content)
	return cell
}

// append writes content into a cell that was never used and returns its number.
func (c *cells) append(content uint32) uint32 {
	n := len(c.own)
	if n == cap(c.own) {
		grown := make([]atomic.Uint32, n+n/8+2)
		copyCells(grown, c.own)
		c.own = grown[:n]
		c.array.Store(&grown)
	}
	c.own = c.own[:n+1]
	c.own[n].Store(content)
	return uint32(n)
}

// remove empties a cell.
func (c *cells) remove(cell uint32) {
	c.own[cell].Store(0)
	c.used--
	c.holes = append(c.holes, cell)
}

// sparse reports whether most cells are empty.
func (c *cells) sparse() bool { return len(c.own) >= 64 && int(c.used) <= len(c.own)/4 }

// shrink moves the ids to a smaller array and calls moved for each. It does nothing if one is
// loose, because the numbers of loose cells are recorded elsewhere.
func (c *cells) shrink(moved func(id, cell uint32)) {
	old := c.own
	for i := range old {
		if old[i].Load()&looseMark != 0 {
			return
		}
	}
	small := make([]atomic.Uint32, c.used+c.used/8+1)
	c.own, c.holes = small[:0], nil
	for i := range old {
		if content := old[i].Load(); content != 0 {
			moved(content-1, c.append(content))
		}
	}
	c.array.Store(&small)
}

func copyCells(to, from []atomic.Uint32) {
	for i := range from {
		to[i].Store(from[i].Load())
	}
}
