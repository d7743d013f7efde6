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
	used  uint32   // cells that hold an id
	high  uint32   // cells from here on were never used
	holes []uint32 // the empty ones before that
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
func (c *cells) at(cell uint32) *atomic.Uint32 { return &(*c.array.Load())[cell] }

// add writes content into an empty cell and returns its number.
func (c *cells) add(content uint32) uint32 {
	c.used++
	var cell uint32
	if n := len(c.holes); n > 0 {
		cell, c.holes = c.holes[n-1], c.holes[:n-1]
	} else {
		cell = c.high
		c.high++
		if old := c.load(); int(cell) == len(old) {
			grown := make([]atomic.Uint32, len(old)+len(old)/8+2)
			copyCells(grown, old)
			c.array.Store(&grown)
		}
	}
	c.at(cell).Store(content)
	return cell
}

// remove empties a cell.
func (c *cells) remove(cell uint32) {
	c.at(cell).Store(0)
	c.used--
	c.holes = append(c.holes, cell)
}

// sparse reports whether most cells are empty.
func (c *cells) sparse() bool { return c.high >= 64 && c.used <= c.high/4 }

// shrink moves the ids to a smaller array and calls moved for each. It does nothing if one is
// loose, because the numbers of loose cells are recorded elsewhere.
func (c *cells) shrink(moved func(id, cell uint32)) {
	old := c.load()[:c.high]
	for i := range old {
		if old[i].Load()&looseMark != 0 {
			return
		}
	}
	small := make([]atomic.Uint32, c.used+c.used/8+1)
	c.high, c.holes = 0, nil
	for i := range old {
		if content := old[i].Load(); content != 0 {
			small[c.high].Store(content)
			moved(content-1, c.high)
			c.high++
		}
	}
	c.array.Store(&small)
}

func copyCells(to, from []atomic.Uint32) {
	for i := range from {
		to[i].Store(from[i].Load())
	}
}
