package mvcc

// Cursor goes through an [Order] for the writer, who does not change it meanwhile.
type Cursor[E, K comparable] struct {
	order *Order[E, K]
	above []step[E, K] // the inner nodes on the way, and which kid is next
	cells []Cell[E]
	gone  uint64
	at    int
}

type step[E, K comparable] struct {
	in   *node[E, K]
	next int
}

// Cursor returns a cursor at the first element.
func (o *Order[E, K]) Cursor() *Cursor[E, K] {
	c := &Cursor[E, K]{order: o}
	if root := o.root.Load(); root != nil {
		c.down(root)
	}
	return c
}

// down goes to the first leaf below n.
func (c *Cursor[E, K]) down(n *node[E, K]) {
	for ; !n.leaf(); n = n.kid(0) {
		c.above = append(c.above, step[E, K]{n, 1})
	}
	c.cells, c.gone, c.at = n.cells, n.gone.Load(), 0
}

// Seek goes to the first element whose key is not before k.
func (c *Cursor[E, K]) Seek(k K) {
	n := c.order.root.Load()
	if n == nil {
		return
	}
	for c.above = c.above[:0]; !n.leaf(); {
		at := c.order.kidFor(n, k)
		c.above = append(c.above, step[E, K]{n, at + 1})
		n = n.kid(at)
	}
	c.cells, c.gone = n.cells, n.gone.Load()
	c.at, _ = c.order.find(n, k, nil)
}

// Next returns the next element; ok is false after the last.
func (c *Cursor[E, K]) Next() (e E, ok bool) {
	for {
		for ; c.at < len(c.cells); c.at++ {
			if !Gone(c.gone, c.at) {
				c.at++
				return c.cells[c.at-1].Elem, true
			}
		}
		for len(c.above) > 0 && c.above[len(c.above)-1].next == c.above[len(c.above)-1].in.len() {
			c.above = c.above[:len(c.above)-1]
		}
		if len(c.above) == 0 {
			return e, false
		}
		up := &c.above[len(c.above)-1]
		up.next++
		c.down(up.in.kid(up.next - 1))
	}
}
