package workqueue

// fifo is a ring of entries.
type fifo struct {
	ring []uint32 // a power of two
	head int
	n    int
}

func (f *fifo) push(id uint32) {
	if f.n == len(f.ring) {
		f.grow()
	}
	f.ring[(f.head+f.n)&(len(f.ring)-1)] = id
	f.n++
}

func (f *fifo) grow() {
	ring := make([]uint32, max(16, 2*len(f.ring)))
	copy(ring[copy(ring, f.ring[f.head:]):], f.ring[:f.head])
	f.ring, f.head = ring, 0
}

// pop removes the first, of at least one.
func (f *fifo) pop() uint32 {
	id := f.at(0)
	f.head = (f.head + 1) & (len(f.ring) - 1)
	f.n--
	return id
}

// at returns the entry that is i behind the first.
func (f *fifo) at(i int) uint32 { return f.ring[(f.head+i)&(len(f.ring)-1)] }

// trim gives memory back, when the ring is empty.
func (f *fifo) trim(room int) {
	if f.n == 0 && len(f.ring) > room {
		*f = fifo{}
	}
}
