package crd

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
)

// digest identifies a tree of JSON values by its content.
type digest [sha256.Size]byte

func digestOf(tree ...any) digest {
	var h hasher
	h.add(tree)
	return sha256.Sum256(h.bytes)
}

// hasher encodes values so that different trees have different bytes: each value starts with its
// type, and each string, list and object with its length.
type hasher struct {
	bytes []byte
	names []string // the sorted fields of the objects from the root to the current one
}

func (h *hasher) add(v any) {
	switch v := v.(type) {
	case map[string]any:
		h.size('{', len(v))
		first := len(h.names)
		for name := range v {
			h.names = append(h.names, name)
		}
		slices.Sort(h.names[first:])
		for i := range len(v) {
			name := h.names[first+i]
			h.text(name)
			h.add(v[name])
		}
		h.names = h.names[:first]
	case []any:
		h.size('[', len(v))
		for _, item := range v {
			h.add(item)
		}
	case string:
		h.text(v)
	default:
		h.bytes = fmt.Appendf(h.bytes, "%T %v;", v, v)
	}
}

func (h *hasher) text(s string) {
	h.size('"', len(s))
	h.bytes = append(h.bytes, s...)
}

func (h *hasher) size(kind byte, n int) {
	h.bytes = binary.AppendUvarint(append(h.bytes, kind), uint64(n))
}

// cacheLimit is the number of values that a cache keeps. A full one is emptied.
const cacheLimit = 1000

// cache keeps values by the content that they were made from, for all servers of the process.
// The values are not modified. Its methods may be called from any goroutine.
type cache[T any] struct {
	mu     sync.Mutex // guards values
	values map[digest]T
}

func (c *cache[T]) get(d digest) (v T, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v, ok = c.values[d]
	return v, ok
}

// put adds a value, or returns the one that was added before.
func (c *cache[T]) put(d digest, v T) T {
	c.mu.Lock()
	defer c.mu.Unlock()
	if kept, ok := c.values[d]; ok {
		return kept
	}
	if c.values == nil || len(c.values) == cacheLimit {
		c.values = map[digest]T{}
	}
	c.values[d] = v
	return v
}
