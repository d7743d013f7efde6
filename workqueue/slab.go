package workqueue

import "iter"

// slab holds records that are named by small numbers, in pages that never move, so
// that growing copies nothing while the lock is held. Number 0 names no record.
type slab[T any] struct {
	pages []*[pageSize]T
	next  uint32   // the first number that was never given out
	free  []uint32 // numbers given back
	live  int
}

// A page has one record less than its numbers, so that with the word that the garbage
// collector puts before it, it is as large as an allocation can be without waste.
const (
	pageBits = 7
	pageSize = 1<<pageBits - 1
)

// at returns a record. The pointer is good until the record is released.
func (s *slab[T]) at(id uint32) *T {
	return &s.pages[id>>pageBits][id&pageSize]
}

// take returns the number of a record that is not in use, which is zero.
func (s *slab[T]) take() uint32 {
	s.live++
	if n := len(s.free); n > 0 {
		id := s.free[n-1]
		s.free = s.free[:n-1]
		return id
	}
	if s.next == 0 {
		s.next = 1
	}
	id := s.next
	if s.next++; s.next&pageSize == pageSize {
		s.next++
	}
	if int(id>>pageBits) == len(s.pages) {
		s.pages = append(s.pages, new([pageSize]T))
	}
	return id
}

// release gives a record back, zeroed, so that it keeps nothing alive.
func (s *slab[T]) release(id uint32) {
	*s.at(id) = *new(T)
	s.live--
	if s.live == 0 {
		// From the start again, where the memory is warm.
		s.next, s.free = 1, s.free[:0]
		return
	}
	s.free = append(s.free, id)
}

// room returns how many records there is memory for.
func (s *slab[T]) room() int { return len(s.pages) * pageSize }

// compact moves the records in use to as few pages as they need, and returns the new
// number of each old one.
func (s *slab[T]) compact() (moved []uint32) {
	old := *s
	*s = slab[T]{}
	moved = make([]uint32, max(1, old.next))
	for _, id := range old.free {
		moved[id] = id // not in use
	}
	for id := uint32(1); id < old.next; id++ {
		if moved[id] != 0 {
			moved[id] = 0
		} else if id&pageSize != pageSize {
			moved[id] = s.take()
			*s.at(moved[id]) = *old.at(id)
		}
	}
	return moved
}

// all returns all records of a slab that was just compacted.
func (s *slab[T]) all() iter.Seq2[uint32, *T] {
	return func(yield func(uint32, *T) bool) {
		for id := uint32(1); id < s.next; id++ {
			if id&pageSize != pageSize && !yield(id, s.at(id)) {
				return
			}
		}
	}
}
