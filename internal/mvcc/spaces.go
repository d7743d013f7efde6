package mvcc

import (
	"hash/maphash"
	"sync/atomic"
)

// spaces gives each namespace a number, so that a record has room for a name of usual
// length. There are few namespaces, they are looked up all the time, and so they stay in
// the nearest cache. One writer and any number of readers. The number of a namespace that
// has no key any more is given to another.
type spaces struct {
	seed  maphash.Seed
	table atomic.Pointer[[]atomic.Pointer[space]] // open addressing, a power of two
	list  atomic.Pointer[[]*space]                // by number

	// Of the writer:
	ids  ids
	gone int // in the table, without keys
}

type space struct {
	name   string
	hash   uint64
	number uint16
	keys   int // of the writer
}

// noSpace is the number of all namespaces that are too many to have one of their own.
// Their keys are kept as those that are too long.
const noSpace = 1<<16 - 1

func newSpaces(seed maphash.Seed) *spaces {
	s := &spaces{seed: seed}
	table := make([]atomic.Pointer[space], 8)
	s.table.Store(&table)
	s.list.Store(new([]*space))
	return s
}

// find returns the number of a namespace, noSpace if it has none, and its hash.
func (s *spaces) find(name string) (number uint16, hash uint64) {
	hash = maphash.String(s.seed, name)
	table := *s.table.Load()
	for i := hash; ; i++ {
		switch found := table[i&uint64(len(table)-1)].Load(); {
		case found == nil:
			return noSpace, hash
		case found.hash == hash && found.name == name:
			return found.number, hash
		}
	}
}

// at returns the namespace of that number, nil if there is none.
func (s *spaces) at(number uint16) *space {
	if list := *s.list.Load(); int(number) < len(list) {
		return list[number]
	}
	return nil
}

// enter counts one more key in a namespace and returns its number.
func (s *spaces) enter(name string) uint16 {
	number, hash := s.find(name)
	if number != noSpace {
		found := s.at(number)
		if found.keys == 0 {
			s.gone--
		}
		found.keys++
		return number
	}
	if s.ids.next == noSpace && len(s.ids.free) == 0 && !s.purge() {
		return noSpace
	}
	id, again := s.ids.take()
	made := &space{name: string([]byte(name)), hash: hash, number: uint16(id), keys: 1} // a copy of its own
	list := *s.list.Load()
	if again {
		list = append([]*space(nil), list...)
		list[id] = made
	} else {
		list = append(list, made) // invisible to readers of the shorter slice
	}
	s.list.Store(&list)
	if table := *s.table.Load(); (len(list)-len(s.ids.free))*2 <= len(table) {
		place(table, made)
	} else if s.gone*2 <= len(list) || !s.purge() {
		s.rebuild(len(table) * 2)
	}
	return made.number
}

// leave counts one key less in the namespace of that number.
func (s *spaces) leave(number uint16) {
	if number == noSpace {
		return
	}
	if found := s.at(number); found.keys > 1 {
		found.keys--
	} else {
		found.keys = 0
		s.gone++
	}
}

// purge takes out the namespaces that have no keys and reports whether there were any.
func (s *spaces) purge() bool {
	if s.gone == 0 {
		return false
	}
	list := append([]*space(nil), *s.list.Load()...)
	for i, old := range list {
		if old != nil && old.keys == 0 {
			list[i] = nil
			s.ids.give(uint32(i))
		}
	}
	s.gone = 0
	s.list.Store(&list)
	s.rebuild(len(*s.table.Load()))
	return true
}

func (s *spaces) rebuild(size int) {
	table := make([]atomic.Pointer[space], size)
	for _, old := range *s.list.Load() {
		if old != nil {
			place(table, old)
		}
	}
	s.table.Store(&table)
}

func place(table []atomic.Pointer[space], s *space) {
	for i := s.hash; ; i++ {
		if at := &table[i&uint64(len(table)-1)]; at.Load() == nil {
			at.Store(s)
			return
		}
	}
}
