package delta

import (
	"hash/maphash"

	"github.com/tarnproject/tarn/object"
)

// index finds the chain of a key: an open-addressing table of positions in a log,
// which has the keys. Rejected: a Go map. It holds every key a second time, which the
// garbage collector then visits; with it, Add and Pop of 1,000 keys took 255 ns per key
// instead of 167.
type index struct {
	slots []slot // a power of two; at least a quarter of them free
	n     int
}

// slot is one key's chain.
type slot struct {
	hash        uint32 // 0: the slot is free
	first, last uint32 // positions of the chain's ends
}

var hashSeed = maphash.MakeSeed()

func hashOf(key object.Key) uint32 {
	return uint32(maphash.Comparable(hashSeed, key)) | 1
}

// room makes sure that another key can be put in.
func (x *index) room() {
	if 4*(x.n+1) <= 3*len(x.slots) {
		return
	}
	x.resize(max(16, 2*len(x.slots)))
}

// resize moves everything to a table of another size.
func (x *index) resize(size int) {
	old := x.slots
	x.slots = make([]slot, size)
	for _, s := range old {
		if s.hash != 0 {
			i := x.home(s.hash)
			for x.slots[i].hash != 0 {
				i = x.next(i)
			}
			x.slots[i] = s
		}
	}
}

// fit makes a table smaller that is far too large for what is in it.
func (x *index) fit() {
	size := len(x.slots)
	for size > 16 && 4*x.n < size {
		size /= 2
	}
	if size < len(x.slots) {
		x.resize(size)
	}
}

// home is where a hash would like to be. The low bit of hashes is always set.
func (x *index) home(hash uint32) int { return int(hash>>1) & (len(x.slots) - 1) }
func (x *index) next(i int) int       { return (i + 1) & (len(x.slots) - 1) }

// remove frees slot i and moves those up that had to give way to it.
func (x *index) remove(i int) {
	x.n--
	for j := x.next(i); x.slots[j].hash != 0; j = x.next(j) {
		// j may move to i unless its home lies cyclically in (i, j].
		h := x.home(x.slots[j].hash)
		if (j-h)&(len(x.slots)-1) >= (j-i)&(len(x.slots)-1) {
			x.slots[i] = x.slots[j]
			i = j
		}
	}
	x.slots[i] = slot{}
}

// find returns the number of the key's slot or, with ok false, of the free one that
// it would take.
func (l *log[T]) find(key object.Key, hash uint32) (i int, ok bool) {
	x := &l.keys
	for i = x.home(hash); x.slots[i].hash != 0; i = x.next(i) {
		if s := &x.slots[i]; s.hash == hash && l.deltas[l.at(s.first)].Key == key {
			return i, true
		}
	}
	return i, false
}

// lookup returns the ends of a key's chain, as indexes of deltas. It makes the index
// if need be.
func (l *log[T]) lookup(key object.Key) (first, last int, ok bool) {
	l.index()
	if l.keys.n == 0 {
		return 0, 0, false
	}
	i, ok := l.find(key, hashOf(key))
	if !ok {
		return 0, 0, false
	}
	s := l.keys.slots[i]
	return l.at(s.first), l.at(s.last), true
}

// index makes the chains reach to the end of the log.
func (l *log[T]) index() {
	if l.indexed == len(l.deltas) {
		return
	}
	l.link(len(l.deltas) - 1)
	for i := max(l.indexed, l.head); i < len(l.deltas); i++ {
		d := &l.deltas[i]
		if d.Type == 0 || d.List != nil {
			continue
		}
		l.keys.room()
		hash, p := hashOf(d.Key), l.pos(i)
		j, ok := l.find(d.Key, hash)
		s := &l.keys.slots[j]
		if ok {
			l.links[l.at(s.last)].gap = p - s.last
			s.last = p
		} else {
			*s = slot{hash: hash, first: p, last: p}
			l.keys.n++
			l.links[i].hash = hash
		}
	}
	l.indexed = len(l.deltas)
}

// forgetFirst takes the key of the delta at the head out of the index, without a look
// at keys.
func (l *log[T]) forgetFirst() {
	x := &l.keys
	i, first := x.home(l.links[l.head].hash), l.pos(l.head)
	for x.slots[i].hash == 0 || x.slots[i].first != first {
		i = x.next(i)
	}
	x.remove(i)
}

// forget takes a key out of the index, which must not be empty.
func (l *log[T]) forget(key object.Key) {
	if i, ok := l.find(key, hashOf(key)); ok {
		l.keys.remove(i)
	}
}

// forgetAll empties the index, at a cost that follows what is in it and not how
// large it is.
func (l *log[T]) forgetAll() {
	if 8*l.keys.n < len(l.keys.slots) {
		for i := l.head; i < l.indexed && l.keys.n > 0; i++ {
			if l.deltas[i].Type != 0 {
				l.forget(l.deltas[i].Key)
			}
		}
	} else {
		clear(l.keys.slots)
		l.keys.n = 0
	}
	l.indexed = 0
}

// chain calls yield for the deltas of a key, oldest first.
func (l *log[T]) chain(key object.Key, yield func(i int)) {
	first, _, ok := l.lookup(key)
	if !ok {
		return
	}
	for i := first; ; {
		yield(i)
		gap := l.links[i].gap
		if gap == 0 {
			return
		}
		i += int(gap)
	}
}

// firsts calls yield for the ends of every key's chain, in the order of their first
// deltas.
func (l *log[T]) firsts(yield func(first, last int)) {
	for i := l.head; i < len(l.deltas); i++ {
		if d := &l.deltas[i]; d.Type != 0 && d.List == nil {
			if first, last, _ := l.lookup(d.Key); first == i {
				yield(first, last)
			}
		}
	}
}
