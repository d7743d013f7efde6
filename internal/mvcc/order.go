package mvcc

import (
	"slices"
	"sync/atomic"
)

// Order is a set of elements, sorted by the keys they stand for: a B-tree of which one
// writer replaces a leaf at a time while any number of readers walk it.
//
// A reader that has gone past an inner node may finish on one that was replaced since.
// What it finds there is what was there when it was replaced, and so all that the
// reader's revision can see: an element is only removed when no revision sees it.
//
// A leaf keeps, beside each element, the four bytes of its key that follow the part which
// all keys of the leaf have in common. Comparing those is enough most of the time, and
// saves the two cache misses that looking at a key costs.
type Order[E any, K comparable] struct {
	root   atomic.Pointer[node[E, K]]
	sort   Sorting[K]
	keyOf  func(E) K
	shifts func() uint64
}

// Sorting is an order of keys.
type Sorting[K any] struct {
	// Compare returns a negative number, zero or a positive one as a is before, equal
	// to or after b.
	Compare func(a, b K) int
	// Common returns how many units two keys have in common at their beginning, and
	// Digest makes a number of the first few units of a key after skip of them: of two
	// keys that have skip units in common and different digests, that with the lower
	// digest is before the other. Both may be nil.
	Common func(a, b K) int
	Digest func(k K, skip int) uint32
	// Own makes a copy of a key to keep, where keyOf returns one that is part of
	// something larger. It may be nil.
	Own func(K) K
}

// own returns the key of an element, to keep.
func (o *Order[E, K]) own(e E) K {
	if o.sort.Own == nil {
		return o.keyOf(e)
	}
	return o.sort.Own(o.keyOf(e))
}

// node is a leaf, or has kids. Only the kids of an inner node are ever changed.
type node[E any, K comparable] struct {
	elems   []E
	digests []uint32 // nil without Sorting.Digest
	skip    int      // what all keys have in common
	sample  K        // one of them, or of those that were here

	kids []atomic.Pointer[node[E, K]]
	seps []K // seps[i] is not after any key in kids[i+1], and after all in kids[i]
}

const (
	maxLeaf = 40
	maxKids = 64
)

// NewOrder returns an empty set. keyOf returns the key of an element that is in it. An
// element that was removed may come to stand for another key; shifts then returns another
// number than before, so that a reader who lost his way in a leaf that was replaced knows
// it. It is nil for elements that always stand for the same key.
func NewOrder[E any, K comparable](sort Sorting[K], keyOf func(E) K, shifts func() uint64) *Order[E, K] {
	if shifts == nil {
		shifts = func() uint64 { return 0 }
	}
	return &Order[E, K]{sort: sort, keyOf: keyOf, shifts: shifts}
}

// leaf makes a leaf of elems, which it keeps.
func (o *Order[E, K]) leaf(elems []E) *node[E, K] {
	n := &node[E, K]{elems: elems}
	if o.sort.Digest == nil {
		return n
	}
	n.sample = o.own(elems[0])
	// Sorted, so what the first and the last share all share.
	n.skip = o.sort.Common(n.sample, o.keyOf(elems[len(elems)-1]))
	n.digests = make([]uint32, len(elems))
	for i, e := range elems {
		n.digests[i] = o.sort.Digest(o.keyOf(e), n.skip)
	}
	return n
}

// find returns where in a leaf k is or belongs.
func (o *Order[E, K]) find(n *node[E, K], k K) (at int, found bool) {
	lo, hi := 0, len(n.elems)
	if n.digests != nil {
		if o.sort.Common(k, n.sample) < n.skip {
			if o.sort.Compare(k, n.sample) < 0 {
				return 0, false
			}
			return hi, false
		}
		d := o.sort.Digest(k, n.skip)
		lo, _ = slices.BinarySearch(n.digests, d)
		for hi = lo; hi < len(n.digests) && n.digests[hi] == d; hi++ {
		}
	}
	for lo < hi {
		mid := int(uint(lo+hi) / 2)
		switch c := o.sort.Compare(k, o.keyOf(n.elems[mid])); {
		case c > 0:
			lo = mid + 1
		case c < 0:
			hi = mid
		default:
			return mid, true
		}
	}
	return lo, false
}

// kidFor returns the kid below which k belongs.
func (o *Order[E, K]) kidFor(n *node[E, K], k K) int {
	at, found := slices.BinarySearchFunc(n.seps, k, func(sep, k K) int { return o.sort.Compare(sep, k) })
	if found {
		at++
	}
	return at
}

// Insert adds id, whose key is k and not in the set.
func (o *Order[E, K]) Insert(e E, k K) {
	root := o.root.Load()
	if root == nil {
		o.root.Store(o.leaf([]E{e}))
		return
	}
	now, right, sep := o.insert(root, e, k)
	if right != nil {
		top := &node[E, K]{seps: []K{sep}, kids: make([]atomic.Pointer[node[E, K]], 2)}
		top.kids[0].Store(now)
		top.kids[1].Store(right)
		now = top
	}
	if now != root {
		o.root.Store(now)
	}
}

// insert returns what takes the place of n, and what comes right of it if n was split.
func (o *Order[E, K]) insert(n *node[E, K], e E, k K) (now, right *node[E, K], sep K) {
	if n.kids == nil {
		return o.insertLeaf(n, e, k)
	}
	at := o.kidFor(n, k)
	kid := n.kids[at].Load()
	newKid, more, sep := o.insert(kid, e, k)
	if more == nil {
		if newKid != kid {
			n.kids[at].Store(newKid)
		}
		return n, nil, sep
	}
	kids := n.copyKids(at, newKid, more)
	seps := slices.Insert(slices.Clone(n.seps), at, sep)
	if len(kids) <= maxKids {
		return inner(kids, seps), nil, sep
	}
	mid := len(kids) / 2
	return inner(kids[:mid], seps[:mid-1]), inner(kids[mid:], seps[mid:]), seps[mid-1]
}

// copyKids returns the kids of n with those given in place of the one at that index.
func (n *node[E, K]) copyKids(at int, with ...*node[E, K]) []*node[E, K] {
	kids := make([]*node[E, K], 0, len(n.kids)+1)
	for i := range n.kids {
		if i == at {
			kids = append(kids, with...)
		} else {
			kids = append(kids, n.kids[i].Load())
		}
	}
	return kids
}

func inner[E any, K comparable](kids []*node[E, K], seps []K) *node[E, K] {
	n := &node[E, K]{seps: slices.Clone(seps), kids: make([]atomic.Pointer[node[E, K]], len(kids))}
	for i, k := range kids {
		n.kids[i].Store(k)
	}
	return n
}

func (o *Order[E, K]) insertLeaf(n *node[E, K], e E, k K) (now, right *node[E, K], sep K) {
	at, _ := o.find(n, k)
	elems := inserted(n.elems, at, e)
	if len(elems) > maxLeaf {
		mid := len(elems) / 2
		if at == len(elems)-1 {
			mid = at // keys that come in order leave full leaves behind
		}
		return o.leaf(slices.Clone(elems[:mid])), o.leaf(slices.Clone(elems[mid:])), o.own(elems[mid])
	}
	if n.digests == nil || o.sort.Common(k, n.sample) < n.skip {
		return o.leaf(elems), nil, sep
	}
	return &node[E, K]{
		elems:   elems,
		digests: inserted(n.digests, at, o.sort.Digest(k, n.skip)),
		skip:    n.skip,
		sample:  n.sample,
	}, nil, sep
}

func inserted[E any](s []E, at int, e E) []E {
	c := make([]E, len(s)+1)
	copy(c, s[:at])
	c[at] = e
	copy(c[at+1:], s[at:])
	return c
}

func without[E any](s []E, at int) []E {
	c := make([]E, len(s)-1)
	copy(c, s[:at])
	copy(c[at:], s[at+1:])
	return c
}

// Remove takes out the id whose key is k, which must be in the set.
func (o *Order[E, K]) Remove(k K) {
	root := o.root.Load()
	if now := o.remove(root, k); now != root {
		for now != nil && len(now.kids) == 1 {
			now = now.kids[0].Load()
		}
		o.root.Store(now)
	}
}

// remove returns what takes the place of n; nil if nothing is left.
func (o *Order[E, K]) remove(n *node[E, K], k K) *node[E, K] {
	if n.kids == nil {
		return o.removeLeaf(n, k)
	}
	at := o.kidFor(n, k)
	kid := n.kids[at].Load()
	now := o.remove(kid, k)
	switch {
	case now == kid:
		return n
	case now == nil && len(n.kids) == 1:
		return nil
	case now == nil:
		return inner(n.copyKids(at), without(n.seps, max(at-1, 0)))
	}
	if len(now.elems) < maxLeaf/4 && now.kids == nil {
		if merged := o.merge(n, at, now); merged != nil {
			return merged
		}
	}
	n.kids[at].Store(now)
	return n
}

func (o *Order[E, K]) removeLeaf(n *node[E, K], k K) *node[E, K] {
	at, found := o.find(n, k)
	if !found {
		panic("mvcc: a key is missing from its order")
	}
	if len(n.elems) == 1 {
		return nil
	}
	c := &node[E, K]{elems: without(n.elems, at), skip: n.skip, sample: n.sample}
	if n.digests != nil {
		c.digests = without(n.digests, at)
	}
	return c
}

// merge returns n with the small leaf, which is to be its kid at that index, joined to
// the next one; nil if there is no room.
func (o *Order[E, K]) merge(n *node[E, K], at int, small *node[E, K]) *node[E, K] {
	if at+1 >= len(n.kids) {
		return nil
	}
	next := n.kids[at+1].Load()
	if len(small.elems)+len(next.elems) > maxLeaf*3/4 {
		return nil
	}
	joined := o.leaf(slices.Concat(small.elems, next.elems))
	kids := n.copyKids(at, joined)
	return inner(without(kids, at+1), without(n.seps, at))
}

// Build makes elems, which are sorted, the content of the set.
func (o *Order[E, K]) Build(elems []E) {
	if len(elems) == 0 {
		o.root.Store(nil)
		return
	}
	var level []*node[E, K]
	var firsts []K // the first key of each node
	for part := range slices.Chunk(elems, maxLeaf) {
		level = append(level, o.leaf(slices.Clone(part)))
		firsts = append(firsts, o.own(part[0]))
	}
	for len(level) > 1 {
		var up []*node[E, K]
		var upFirsts []K
		for i := 0; i < len(level); i += maxKids {
			end := min(i+maxKids, len(level))
			up = append(up, inner(level[i:end], firsts[i+1:end]))
			upFirsts = append(upFirsts, firsts[i])
		}
		level, firsts = up, upFirsts
	}
	o.root.Store(level[0])
}

// Leaves calls yield with all elems in order, some at a time, until it returns false. The
// elems must not be changed.
func (o *Order[E, K]) Leaves(yield func(elems []E) bool) bool {
	root := o.root.Load()
	return root == nil || root.leaves(yield)
}

func (n *node[E, K]) leaves(yield func([]E) bool) bool {
	if n.kids == nil {
		return yield(n.elems)
	}
	for i := range n.kids {
		if !n.kids[i].Load().leaves(yield) {
			return false
		}
	}
	return true
}

// From is [Order.Leaves] for the elements whose keys are not before k.
func (o *Order[E, K]) From(k K, yield func(elems []E) bool) bool {
	for {
		before := o.shifts()
		root := o.root.Load()
		if root == nil {
			return true
		}
		if found, more := o.from(root, k, before, yield); found {
			return more
		}
	}
}

// from reports in found whether the place of k could be found; nothing was yielded if not.
func (o *Order[E, K]) from(n *node[E, K], k K, before uint64, yield func([]E) bool) (found, more bool) {
	if n.kids == nil {
		at, _ := o.find(n, k)
		if o.shifts() != before {
			return false, false
		}
		return true, at == len(n.elems) || yield(n.elems[at:])
	}
	at := o.kidFor(n, k)
	if found, more = o.from(n.kids[at].Load(), k, before, yield); !found || !more {
		return found, more
	}
	for i := at + 1; i < len(n.kids); i++ {
		if !n.kids[i].Load().leaves(yield) {
			return true, false
		}
	}
	return true, true
}
