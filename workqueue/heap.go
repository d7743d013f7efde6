package workqueue

import "slices"

// heap orders the entries that are delayed by their due times. The times are in it, and
// entries know their places, so that an earlier time can be given to one of them.
//
// A node has eight children, whose times are one cache line, so that a step costs
// three lines: the times, the entry's number, and the entry that is told its place.
type heap[K comparable] struct {
	entries *slab[entry[K]]
	pages   []*heapPage // growing copies nothing
	n       int
}

type heapPage struct {
	due [heapPageSize]int64
	ids [heapPageSize]uint32
}

const (
	heapPageSize = 256
	fanout       = 8
	offset       = fanout - 1 // of the root, which makes children begin at multiples of 8
)

// due returns the time of the i-th entry. The first is due first.
func (h *heap[K]) due(i int) int64 {
	i += offset
	return h.pages[i/heapPageSize].due[i%heapPageSize]
}

func (h *heap[K]) id(i int) uint32 {
	i += offset
	return h.pages[i/heapPageSize].ids[i%heapPageSize]
}

func (h *heap[K]) set(i int, id uint32, due int64) {
	h.entries.at(id).slot = uint32(i + 1)
	i += offset
	p := h.pages[i/heapPageSize]
	p.due[i%heapPageSize], p.ids[i%heapPageSize] = due, id
}

func (h *heap[K]) push(id uint32, due int64) {
	h.n++
	if h.n+offset > len(h.pages)*heapPageSize {
		h.pages = append(h.pages, new(heapPage))
	}
	h.up(h.n-1, id, due)
}

// up places an entry at i or above.
func (h *heap[K]) up(i int, id uint32, due int64) {
	for i > 0 {
		parent := (i - 1) / fanout
		d := h.due(parent)
		if d <= due {
			break
		}
		h.set(i, h.id(parent), d)
		i = parent
	}
	h.set(i, id, due)
}

// pop removes the first entry, which then has no place.
func (h *heap[K]) pop() uint32 {
	first := h.id(0)
	h.entries.at(first).slot = 0
	h.n--
	if h.n > 0 {
		h.down(h.id(h.n), h.due(h.n))
	}
	return first
}

// down places an entry at the root or below.
func (h *heap[K]) down(id uint32, due int64) {
	i := 0
	for {
		child := fanout*i + 1
		if child >= h.n {
			break
		}
		at := child + offset
		line := h.pages[at/heapPageSize].due[at%heapPageSize:][:min(fanout, h.n-child)]
		k, least := 0, line[0]
		for j, d := range line {
			if d < least {
				k, least = j, d
			}
		}
		if least >= due {
			break
		}
		h.set(i, h.id(child+k), least)
		i = child + k
	}
	h.set(i, id, due)
}

// fit gives back the pages that are not used, and changes the numbers of entries.
func (h *heap[K]) fit(moved []uint32) {
	used := 0
	for i := range h.n {
		at := i + offset
		id := &h.pages[at/heapPageSize].ids[at%heapPageSize]
		*id = moved[*id]
		used = at/heapPageSize + 1
	}
	h.pages = slices.Clone(h.pages[:used])
}
