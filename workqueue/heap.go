package workqueue

// heap orders the entries that are delayed by their due times. The times are in it, and
// entries know their places, so that an entry can be given an earlier time.
//
// A node has eight children: fewer levels than in a binary heap, and each level costs a
// write to another entry.
type heap[K comparable] struct {
	entries *slab[entry[K]]
	nodes   []node // the first is due first
}

type node struct {
	due int64
	id  uint32
}

const fanout = 8

func (h *heap[K]) set(i int, n node) {
	h.nodes[i] = n
	h.entries.at(n.id).slot = uint32(i + 1)
}

func (h *heap[K]) push(n node) {
	h.nodes = append(h.nodes, n)
	h.up(len(h.nodes)-1, n)
}

// up places a node at i or above.
func (h *heap[K]) up(i int, n node) {
	for i > 0 {
		parent := (i - 1) / fanout
		if h.nodes[parent].due <= n.due {
			break
		}
		h.set(i, h.nodes[parent])
		i = parent
	}
	h.set(i, n)
}

// pop removes the first node. Its entry then has no place.
func (h *heap[K]) pop() node {
	first, last := h.nodes[0], len(h.nodes)-1
	h.entries.at(first.id).slot = 0
	n := h.nodes[last]
	if h.nodes = h.nodes[:last]; last > 0 {
		h.down(n)
	}
	return first
}

// down places a node at the root or below.
func (h *heap[K]) down(n node) {
	i := 0
	for {
		child := fanout*i + 1
		if child >= len(h.nodes) {
			break
		}
		least := child
		for j := child + 1; j < min(child+fanout, len(h.nodes)); j++ {
			if h.nodes[j].due < h.nodes[least].due {
				least = j
			}
		}
		if h.nodes[least].due >= n.due {
			break
		}
		h.set(i, h.nodes[least])
		i = least
	}
	h.set(i, n)
}
