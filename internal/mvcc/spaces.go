package mvcc

import (
	"hash/maphash"
	"sync/atomic"
)

// spaces gives each namespace a number, so that an entry has room for a name of usual
// length. There are few namespaces, they are looked up all the time, and so they stay in
// the nearest cache. One writer and any number of readers; a space is never taken out.
type spaces struct {
	seed  maphash.Seed
	table atomic.Pointer[[]atomic.Pointer[space]] // open addressing, a power of two
	list  atomic.Pointer[[]*space]                // by number
}

type space struct {
	name   string
	hash   uint64
	number uint32
}

func newSpaces(seed maphash.Seed) *spaces {
	s := &spaces{seed: seed}
	table := make([]atomic.Pointer[space], 8)
	s.table.Store(&table)
	s.list.Store(new([]*space))
	return s
}

// find returns the space of that name, nil if there is none.
func (s *spaces) find(name string) *space {
	h := maphash.String(s.seed, name)
	table := *s.table.Load()
	for i := h; ; i++ {
		found := table[i&uint64(len(table)-1)].Load()
		if found == nil || found.hash == h && found.name == name {
			return found
		}
	}
}

// at returns the space of that number.
func (s *spaces) at(number uint32) *space { return (*s.list.Load())[number] }

// intern returns the space of that name, which it makes if there is none.
func (s *spaces) intern(name string) *space {
	if found := s.find(name); found != nil {
		return found
	}
	list := *s.list.Load()
	made := &space{
		name:   string([]byte(name)), // a copy of its own
		hash:   maphash.String(s.seed, name),
		number: uint32(len(list)),
	}
	// Appending is invisible to readers of the shorter slice.
	list = append(list, made)
	s.list.Store(&list)
	table := *s.table.Load()
	if len(list)*2 > len(table) {
		grown := make([]atomic.Pointer[space], len(table)*2)
		for _, old := range list {
			place(grown, old)
		}
		s.table.Store(&grown)
	} else {
		place(table, made)
	}
	return made
}

func place(table []atomic.Pointer[space], s *space) {
	for i := s.hash; ; i++ {
		if at := &table[i&uint64(len(table)-1)]; at.Load() == nil {
			at.Store(s)
			return
		}
	}
}
