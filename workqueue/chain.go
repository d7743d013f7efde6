package workqueue

// chain is a plain line: entries in the order in which they came, each with the number of
// the next in its place, where other lines have the number of a waiter. An item that waits
// so needs no memory besides its entry, and nothing is copied when many come.
//
// Rejected: a ring of numbers. It costs 4 to 8 bytes an item and is copied, under the
// lock, each time it has to grow.
type chain struct {
	head, tail uint32
}

// A place in a chain is the next entry, the Reason, and a bit so that it is never 0.
const (
	chained    = 1
	chainShift = reasonBits + 1
	// chainEnd is the first number that does not fit below the bit processing. A queue
	// with that many entries gets waiters.
	chainEnd = processing >> chainShift
)

func chainedFor(r Reason) uint32      { return chained | uint32(r)<<1 }
func chainReason(place uint32) Reason { return Reason(place >> 1 & (1<<reasonBits - 1)) }

// push puts an entry at the end; its place must be one of chainedFor.
func push[K comparable](c *chain, entries *slab[entry[K]], id uint32) {
	if c.tail != 0 {
		entries.at(c.tail).place |= id << chainShift
	} else {
		c.head = id
	}
	c.tail = id
}

// pop removes the first, of at least one, and returns its Reason.
func pop[K comparable](c *chain, entries *slab[entry[K]]) (id uint32, r Reason) {
	id = c.head
	place := entries.at(id).place
	if c.head = place >> chainShift; c.head == 0 {
		c.tail = 0
	}
	return id, chainReason(place)
}
