package delta

import "github.com/tarnproject/tarn/object"

// chain is the deltas of one key in a log: the positions of the first and the last. The
// links between them are in log.links.
type chain struct{ first, last uint32 }

// lookup returns the ends of a key's chain, as indexes of deltas. It extends the index to
// the end of the log.
func (l *log[T]) lookup(key object.Key) (first, last int, ok bool) {
	l.index()
	c, ok := l.keys[key]
	if !ok {
		return 0, 0, false
	}
	return l.at(c.first), l.at(c.last), true
}

// index makes the chains reach to the end of the log.
func (l *log[T]) index() {
	if l.indexed == len(l.deltas) {
		return
	}
	l.link(len(l.deltas) - 1)
	if l.keys == nil {
		l.keys = make(map[object.Key]chain, len(l.deltas))
	}
	for i := max(l.indexed, l.head); i < len(l.deltas); i++ {
		d := &l.deltas[i]
		if d.Kind == 0 || d.List != nil {
			continue
		}
		p := l.pos(i)
		c, ok := l.keys[d.Key]
		if ok {
			l.links[l.at(c.last)].gap = p - c.last
			c.last = p
		} else {
			c = chain{first: p, last: p}
		}
		l.keys[d.Key] = c
	}
	l.indexed = len(l.deltas)
}

// forgetAll empties the index.
func (l *log[T]) forgetAll() {
	clear(l.keys)
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
		if d := &l.deltas[i]; d.Kind != 0 && d.List == nil {
			if first, last, _ := l.lookup(d.Key); first == i {
				yield(first, last)
			}
		}
	}
}
