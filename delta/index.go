package delta

import (
	"maps"

	"github.com/tarnproject/tarn/object"
)

// ends are the positions of the first and the last delta of a key.
type ends struct{ first, last uint32 }

// lookup returns the ends of a key's chain, as indexes of deltas. It makes the index
// if need be.
func (l *log[T]) lookup(key object.Key) (first, last int, ok bool) {
	l.index()
	e, ok := l.keys[key]
	if !ok {
		return 0, 0, false
	}
	return l.at(e.first), l.at(e.last), true
}

// index makes the chains reach to the end of the log.
func (l *log[T]) index() {
	if l.indexed == len(l.deltas) {
		return
	}
	if l.keys == nil {
		l.keys = map[object.Key]ends{}
	}
	l.link(len(l.deltas) - 1)
	for i := max(l.indexed, l.head); i < len(l.deltas); i++ {
		d := &l.deltas[i]
		if d.Type == 0 || d.List != nil {
			continue
		}
		p := l.pos(i)
		e, ok := l.keys[d.Key]
		if ok {
			l.links[l.at(e.last)].gap = p - e.last
		} else {
			e.first = p
		}
		e.last = p
		l.keys[d.Key] = e
	}
	l.indexed = len(l.deltas)
	l.room = max(l.room, len(l.keys))
}

// forgetAll empties the index, at a cost that follows what is in it and not how
// large it has been.
func (l *log[T]) forgetAll() {
	if 8*len(l.keys) < l.room {
		for i := l.head; i < l.indexed && len(l.keys) > 0; i++ {
			delete(l.keys, l.deltas[i].Key)
		}
	} else {
		clear(l.keys)
	}
	l.indexed = 0
}

// fitKeys makes an index smaller that is far too large for what is in it, which a Go map
// never becomes by itself.
func (l *log[T]) fitKeys() {
	if 4*len(l.keys) < l.room {
		keys := make(map[object.Key]ends, len(l.keys))
		maps.Copy(keys, l.keys)
		l.keys, l.room = keys, len(keys)
	}
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
