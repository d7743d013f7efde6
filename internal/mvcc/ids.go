package mvcc

// ids gives out small integers and reuses the ones that are given back. It belongs to the
// writer.
type ids struct {
	free []uint32
	next uint32 // the first one never given out
}

// maxID leaves room in a cell for the loose mark and for zero; see [cells].
const maxID = 1<<31 - 2

// take returns an id, and whether it was in use before.
func (x *ids) take() (id uint32, reused bool) {
	if n := len(x.free); n > 0 {
		id = x.free[n-1]
		x.free = x.free[:n-1]
		return id, true
	}
	if x.next > maxID {
		panic("mvcc: more than 2,147,483,647 ids")
	}
	x.next++
	return x.next - 1, false
}

// give returns an id for reuse.
func (x *ids) give(id uint32) { x.free = append(x.free, id) }
