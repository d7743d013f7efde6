package mvcc

import (
	"cmp"
	"math/bits"
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
// An element is taken out by a mark in its leaf. The leaf is made anew, without what is
// marked, when the next one comes.
//
// A leaf keeps, beside each element, the four bytes of its key that follow the part which
// all keys of the leaf have in common. Comparing those is enough most of the time, and
// saves the two cache misses that looking at a key costs.
type Order[E, K comparable] struct {
	root atomic.Pointer[node[E, K]]
	sort Sorting[K]
	keys Keys[E, K]
}

// Keys tell what the elements of an [Order] stand for.
type Keys[E, K any] struct {
	// Of returns the key of an element that is in the set, for the writer.
	Of func(E) K
	// View, if not nil, returns what a reader needs for In: there an element that was taken
	// out may come to stand for another key. In returns the key that the element had when
	// View was called; ok is false if it had none.
	View func() any
	In   func(view any, e E) (k K, ok bool)
	// Shifts returns another number than before when that has happened. A reader who lost
	// his way then knows it.
	Shifts func() uint64
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
	// First returns a key of the first n units of k, and Between one that is after a, which
	// is before b, and not after b. They do not keep anything larger alive. They may be nil
	// if Digest is.
	First   func(k K, n int) K
	Between func(a, b K) K
}

// sep returns a key to part two elements by.
func (o *Order[E, K]) sep(left, right E) K {
	if o.sort.Between == nil {
		return o.keys.Of(right)
	}
	return o.sort.Between(o.keys.Of(left), o.keys.Of(right))
}

// node is a leaf, or has kids. Only the kids and the marks are ever changed.
type node[E, K comparable] struct {
	cells  []Cell[E]
	gone   atomic.Uint64 // a bit for each cell whose element was taken out
	skip   int           // how much all keys have in common
	prefix K             // and what
	*kids[E, K]
}

// Cell is an element in a leaf.
type Cell[E any] struct {
	digest uint32
	Elem   E
}

// kids are what an inner node has instead of cells.
type kids[E, K comparable] struct {
	nodes   []atomic.Pointer[node[E, K]]
	seps    []K // seps[i] is not after any key in nodes[i+1], and after all in nodes[i]
	skip    int // how much all seps have in common
	digests []uint32
}

func (k *kids[E, K]) len() int                      { return len(k.nodes) }
func (k *kids[E, K]) kid(i int) *node[E, K]         { return k.nodes[i].Load() }
func (k *kids[E, K]) setKid(i int, now *node[E, K]) { k.nodes[i].Store(now) }

func (n *node[E, K]) leaf() bool { return n.kids == nil }

// live returns the number of elements in a leaf.
func (n *node[E, K]) live() int { return len(n.cells) - bits.OnesCount64(n.gone.Load()) }

// MaxLeaf is the most elements that a leaf has, at most one for each bit of its marks.
const MaxLeaf = 64

const maxKids = 64

// NewOrder returns an empty set.
func NewOrder[E, K comparable](sort Sorting[K], keys Keys[E, K]) *Order[E, K] {
	return &Order[E, K]{sort: sort, keys: keys}
}

// leaf makes a leaf of cells, which it keeps and whose digests it computes.
func (o *Order[E, K]) leaf(cells []Cell[E]) *node[E, K] {
	n := &node[E, K]{cells: cells}
	if o.sort.Digest == nil {
		return n
	}
	// Sorted, so what the first and the last share all share.
	first := o.keys.Of(cells[0].Elem)
	n.skip = o.sort.Common(first, o.keys.Of(cells[len(cells)-1].Elem))
	n.prefix = o.sort.First(first, n.skip)
	for i := range cells {
		cells[i].digest = o.sort.Digest(o.keys.Of(cells[i].Elem), n.skip)
	}
	return n
}

// key returns the key of an element: as a reader sees it who has a view, or as it is.
func (o *Order[E, K]) key(view any, e E) (k K, ok bool) {
	if view == nil {
		return o.keys.Of(e), true
	}
	return o.keys.In(view, e)
}

// fits reports whether k begins with what all keys of a leaf have in common. order is how
// it compares with all of them if not.
func (o *Order[E, K]) fits(n *node[E, K], k K) (fits bool, order int) {
	if o.sort.Common(k, n.prefix) >= n.skip {
		return true, 0
	}
	return false, o.sort.Compare(k, n.prefix)
}

// alike returns the range of cells with the digest that k has, in a leaf which it fits.
func (o *Order[E, K]) alike(n *node[E, K], k K) (lo, hi int) {
	d := o.sort.Digest(k, n.skip)
	lo, _ = slices.BinarySearchFunc(n.cells, d, func(c Cell[E], d uint32) int { return cmp.Compare(c.digest, d) })
	for hi = lo; hi < len(n.cells) && n.cells[hi].digest == d; hi++ {
	}
	return lo, hi
}

// find returns where in a leaf k is or belongs. ok is false if the view is too old to tell.
func (o *Order[E, K]) find(n *node[E, K], k K, view any) (at int, ok bool) {
	lo, hi := 0, len(n.cells)
	if o.sort.Digest != nil {
		switch fits, order := o.fits(n, k); {
		case fits:
			lo, hi = o.alike(n, k)
		case order < 0:
			return 0, true
		default:
			return hi, true
		}
	}
	gone := n.gone.Load()
	for lo < hi {
		mid := int(uint(lo+hi) / 2)
		for mid < hi && Gone(gone, mid) { // whoever knows what it stood for
			mid++
		}
		if mid == hi {
			hi = int(uint(lo+hi) / 2)
			continue
		}
		key, ok := o.key(view, n.cells[mid].Elem)
		if !ok {
			return 0, false
		}
		if o.sort.Compare(k, key) <= 0 {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo, true
}

// Gone reports whether a leaf's marks say that the element at i was taken out.
func Gone(marks uint64, i int) bool { return marks>>i&1 != 0 }

// kidFor returns the kid below which k belongs: that behind the last sep that is not after k.
func (o *Order[E, K]) kidFor(n *node[E, K], k K) int {
	lo, hi := 0, len(n.seps)
	if o.sort.Digest != nil && hi > 0 {
		if o.sort.Common(k, n.seps[0]) < n.kids.skip {
			if o.sort.Compare(k, n.seps[0]) < 0 {
				return 0
			}
			return hi
		}
		d := o.sort.Digest(k, n.kids.skip)
		lo, _ = slices.BinarySearch(n.digests, d)
		for hi = lo; hi < len(n.digests) && n.digests[hi] == d; hi++ {
		}
	}
	for lo < hi {
		mid := int(uint(lo+hi) / 2)
		if o.sort.Compare(n.seps[mid], k) <= 0 {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// Insert adds id, whose key is k and not in the set.
func (o *Order[E, K]) Insert(e E, k K) {
	root := o.root.Load()
	if root == nil {
		o.root.Store(o.leaf([]Cell[E]{{Elem: e}}))
		return
	}
	now, right, sep := o.insert(root, e, k)
	if right != nil {
		now = o.inner([]*node[E, K]{now, right}, []K{sep})
	}
	if now != root {
		o.root.Store(now)
	}
}

// insert returns what takes the place of n, and what comes right of it if n was split.
func (o *Order[E, K]) insert(n *node[E, K], e E, k K) (now, right *node[E, K], sep K) {
	if n.leaf() {
		return o.insertLeaf(n, e, k)
	}
	at := o.kidFor(n, k)
	kid := n.kid(at)
	newKid, more, sep := o.insert(kid, e, k)
	if more == nil {
		if newKid != kid {
			n.setKid(at, newKid)
		}
		return n, nil, sep
	}
	kids := n.copyKids(at, newKid, more)
	seps := slices.Insert(slices.Clone(n.seps), at, sep)
	if len(kids) <= maxKids {
		return o.inner(kids, seps), nil, sep
	}
	mid := len(kids) / 2
	return o.inner(kids[:mid], seps[:mid-1]), o.inner(kids[mid:], seps[mid:]), seps[mid-1]
}

// copyKids returns the kids of n with those given in place of the one at that index.
func (n *node[E, K]) copyKids(at int, with ...*node[E, K]) []*node[E, K] {
	kids := make([]*node[E, K], 0, n.len()+1)
	for i := range n.len() {
		if i == at {
			kids = append(kids, with...)
		} else {
			kids = append(kids, n.kid(i))
		}
	}
	return kids
}

func (o *Order[E, K]) inner(below []*node[E, K], seps []K) *node[E, K] {
	k := &kids[E, K]{nodes: make([]atomic.Pointer[node[E, K]], len(below)), seps: slices.Clone(seps)}
	for i, kid := range below {
		k.setKid(i, kid)
	}
	if o.sort.Digest != nil && len(seps) > 0 {
		k.skip = o.sort.Common(seps[0], seps[len(seps)-1])
		k.digests = make([]uint32, len(seps))
		for i, sep := range seps {
			k.digests[i] = o.sort.Digest(sep, k.skip)
		}
	}
	return &node[E, K]{kids: k}
}

func (o *Order[E, K]) insertLeaf(n *node[E, K], e E, k K) (now, right *node[E, K], sep K) {
	place, _ := o.find(n, k, nil)
	cells := n.appendLive(make([]Cell[E], 0, n.live()+1), 0, place)
	at := len(cells)
	cells = n.appendLive(append(cells, Cell[E]{Elem: e}), place, len(n.cells))
	if len(cells) > MaxLeaf {
		mid := len(cells) / 2
		if at == len(cells)-1 {
			mid = at // keys that come in order leave full leaves behind
		}
		return o.leaf(slices.Clone(cells[:mid])), o.leaf(slices.Clone(cells[mid:])), o.sep(cells[mid-1].Elem, cells[mid].Elem)
	}
	if o.sort.Digest != nil {
		if fits, _ := o.fits(n, k); !fits {
			return o.leaf(cells), nil, sep
		}
		cells[at].digest = o.sort.Digest(k, n.skip)
	}
	return &node[E, K]{cells: cells, skip: n.skip, prefix: n.prefix}, nil, sep
}

// appendLive appends the cells from one index up to another that are not gone.
func (n *node[E, K]) appendLive(cells []Cell[E], from, to int) []Cell[E] {
	for gone := n.gone.Load() >> from << from; from < to; {
		next := min(to, bits.TrailingZeros64(gone))
		cells = append(cells, n.cells[from:next]...)
		from = next + 1
		gone &= gone - 1
	}
	return cells
}

func without[E any](s []E, at int) []E {
	c := make([]E, len(s)-1)
	copy(c, s[:at])
	copy(c[at:], s[at+1:])
	return c
}

// Remove takes out an element, which must be in the set and whose key is k.
func (o *Order[E, K]) Remove(e E, k K) {
	root := o.root.Load()
	if now := o.remove(root, e, k); now != root {
		for now != nil && !now.leaf() && now.len() == 1 {
			now = now.kid(0)
		}
		o.root.Store(now)
	}
}

// remove returns what takes the place of n; nil if nothing is left.
func (o *Order[E, K]) remove(n *node[E, K], e E, k K) *node[E, K] {
	if n.leaf() {
		return o.removeLeaf(n, e, k)
	}
	at := o.kidFor(n, k)
	kid := n.kid(at)
	now := o.remove(kid, e, k)
	switch {
	case now == kid:
		return n
	case now == nil && n.len() == 1:
		return nil
	case now == nil:
		return o.inner(n.copyKids(at), without(n.seps, max(at-1, 0)))
	}
	if now.leaf() && len(now.cells) < MaxLeaf/4 {
		if merged := o.merge(n, at, now); merged != nil {
			return merged
		}
	}
	n.setKid(at, now)
	return n
}

func (o *Order[E, K]) removeLeaf(n *node[E, K], e E, k K) *node[E, K] {
	at, hi := 0, len(n.cells)
	if o.sort.Digest != nil {
		at, hi = o.alike(n, k)
	}
	gone := n.gone.Load()
	for ; at < hi && (n.cells[at].Elem != e || Gone(gone, at)); at++ {
	}
	if at == hi {
		panic("mvcc: a key is missing from its order")
	}
	if n.live() == 1 {
		return nil
	}
	if n.live() > MaxLeaf/4 {
		n.gone.Store(gone | 1<<at)
		return n
	}
	// It may be small enough to be joined to another.
	cells := n.appendLive(make([]Cell[E], 0, n.live()-1), 0, at)
	cells = n.appendLive(cells, at+1, len(n.cells))
	return &node[E, K]{cells: cells, skip: n.skip, prefix: n.prefix}
}

// merge returns n with the small leaf, which is to be its kid at that index, joined to
// the next one; nil if there is no room.
func (o *Order[E, K]) merge(n *node[E, K], at int, small *node[E, K]) *node[E, K] {
	if at+1 >= n.len() {
		return nil
	}
	next := n.kid(at + 1)
	if len(small.cells)+next.live() > MaxLeaf*3/4 {
		return nil
	}
	joined := o.leaf(next.appendLive(slices.Clone(small.cells), 0, len(next.cells)))
	kids := n.copyKids(at, joined)
	return o.inner(without(kids, at+1), without(n.seps, at))
}

// Build makes elems, which are sorted, the content of the set.
func (o *Order[E, K]) Build(elems []E) {
	if len(elems) == 0 {
		o.root.Store(nil)
		return
	}
	var level []*node[E, K]
	var firsts []K // what parts each node from that before it
	for at := 0; at < len(elems); at += MaxLeaf {
		part := elems[at:min(at+MaxLeaf, len(elems))]
		cells := make([]Cell[E], len(part))
		for i, e := range part {
			cells[i].Elem = e
		}
		level = append(level, o.leaf(cells))
		var first K
		if at > 0 {
			first = o.sep(elems[at-1], elems[at])
		}
		firsts = append(firsts, first)
	}
	for len(level) > 1 {
		var up []*node[E, K]
		var upFirsts []K
		for i := 0; i < len(level); i += maxKids {
			end := min(i+maxKids, len(level))
			up = append(up, o.inner(level[i:end], firsts[i+1:end]))
			upFirsts = append(upFirsts, firsts[i])
		}
		level, firsts = up, upFirsts
	}
	o.root.Store(level[0])
}

// Leaves calls yield with all elements in order, some at a time, until it returns false. The
// cells must not be changed; marks tell which of them are [Gone].
func (o *Order[E, K]) Leaves(yield func(cells []Cell[E], marks uint64) bool) bool {
	root := o.root.Load()
	return root == nil || root.leaves(yield)
}

func (n *node[E, K]) leaves(yield func([]Cell[E], uint64) bool) bool {
	if n.leaf() {
		return yield(n.cells, n.gone.Load())
	}
	for i := range n.len() {
		if !n.kid(i).leaves(yield) {
			return false
		}
	}
	return true
}

// From is [Order.Leaves] for the elements whose keys are not before k.
func (o *Order[E, K]) From(k K, yield func(cells []Cell[E], marks uint64) bool) bool {
	for {
		var view any
		var before uint64
		if o.keys.View != nil {
			view, before = o.keys.View(), o.keys.Shifts()
		}
		root := o.root.Load()
		if root == nil {
			return true
		}
		if found, more := o.from(root, k, view, before, yield); found {
			return more
		}
	}
}

// from reports in found whether the place of k could be found; nothing was yielded if not.
func (o *Order[E, K]) from(n *node[E, K], k K, view any, before uint64, yield func([]Cell[E], uint64) bool) (found, more bool) {
	if n.leaf() {
		at, ok := o.find(n, k, view)
		if !ok || view != nil && o.keys.Shifts() != before {
			return false, false
		}
		return true, at == len(n.cells) || yield(n.cells[at:], n.gone.Load()>>at)
	}
	at := o.kidFor(n, k)
	if found, more = o.from(n.kid(at), k, view, before, yield); !found || !more {
		return found, more
	}
	for i := at + 1; i < n.len(); i++ {
		if !n.kid(i).leaves(yield) {
			return true, false
		}
	}
	return true, true
}
