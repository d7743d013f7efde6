package mvcc

import (
	"hash/maphash"
	"strings"
	"sync/atomic"
)

// namespaces gives each namespace a number, which takes less room in a record than its name,
// and knows the ids of its keys. There are few namespaces, so they stay in the nearest cache.
//
// One writer, any number of readers. A namespace that has a key in some revision keeps its
// number. Numbers of empty namespaces are reused.
type namespaces struct {
	seed  maphash.Seed
	table atomic.Pointer[[]atomic.Pointer[namespace]] // open addressing; its length is a power of two
	list  atomic.Pointer[[]*namespace]                // by number
	// overflow is the namespace of all keys whose namespace got no number. Their records hold
	// the full key, as those of long names do.
	overflow namespace

	// Writer only:
	numbers ids
	empty   int // namespaces in the table without keys
}

type namespace struct {
	name   string
	hash   uint64
	number uint16
	ids    cells // of its keys
}

// noNumber is the number of the overflow namespace.
const noNumber = 1<<16 - 1

func newNamespaces(seed maphash.Seed) *namespaces {
	s := &namespaces{seed: seed, overflow: namespace{number: noNumber}}
	table := make([]atomic.Pointer[namespace], 8)
	s.table.Store(&table)
	s.list.Store(new([]*namespace))
	return s
}

// find returns the namespace of a name with that hash, nil if it has no number.
func (s *namespaces) find(name string, hash uint64) *namespace {
	table := *s.table.Load()
	for i := hash; ; i++ {
		found := table[i&uint64(len(table)-1)].Load()
		if found == nil || found.hash == hash && found.name == name {
			return found
		}
	}
}

// at returns the namespace of a number, nil if there is none.
func (s *namespaces) at(number uint16) *namespace {
	if number == noNumber {
		return &s.overflow
	}
	if list := *s.list.Load(); int(number) < len(list) {
		return list[number]
	}
	return nil
}

// enter returns the namespace to which a new key of that namespace is added.
func (s *namespaces) enter(name string) *namespace {
	hash := maphash.String(s.seed, name)
	if found := s.find(name, hash); found != nil {
		if found.ids.used == 0 {
			s.empty--
		}
		return found
	}
	if s.numbers.next == noNumber && len(s.numbers.free) == 0 && !s.purge() {
		return &s.overflow
	}
	number, reused := s.numbers.take()
	made := &namespace{name: strings.Clone(name), hash: hash, number: uint16(number)}
	list := *s.list.Load()
	if reused {
		list = append([]*namespace(nil), list...)
		list[number] = made
	} else {
		list = append(list, made) // readers of the shorter slice do not see it
	}
	s.list.Store(&list)
	if table := *s.table.Load(); (len(list)-len(s.numbers.free))*2 <= len(table) {
		place(table, made)
	} else {
		s.rebuild(len(table) * 2)
	}
	return made
}

// left records that a key was removed from a namespace. Empty namespaces stay until they are half
// of all: most come back.
func (s *namespaces) left(n *namespace) {
	if n.ids.used > 0 || n == &s.overflow {
		return
	}
	if s.empty++; s.empty > 64 && s.empty*2 > len(*s.list.Load())-len(s.numbers.free) {
		s.purge()
	}
}

// purge removes the empty namespaces and reports whether there were any.
func (s *namespaces) purge() bool {
	if s.empty == 0 {
		return false
	}
	list := append([]*namespace(nil), *s.list.Load()...)
	for i, n := range list {
		if n != nil && n.ids.used == 0 {
			list[i] = nil
			s.numbers.give(uint32(i))
		}
	}
	s.empty = 0
	s.list.Store(&list)
	s.rebuild(len(*s.table.Load()))
	return true
}

func (s *namespaces) rebuild(size int) {
	table := make([]atomic.Pointer[namespace], size)
	for _, n := range *s.list.Load() {
		if n != nil {
			place(table, n)
		}
	}
	s.table.Store(&table)
}

func place(table []atomic.Pointer[namespace], n *namespace) {
	for i := n.hash; ; i++ {
		if at := &table[i&uint64(len(table)-1)]; at.Load() == nil {
			at.Store(n)
			return
		}
	}
}
