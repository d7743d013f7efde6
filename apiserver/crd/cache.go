package crd

import (
	"crypto/sha256"
	"encoding/json"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// digest identifies a definition by its content.
type digest [sha256.Size]byte

// identify returns a digest of what the validation of a new definition depends on.
func identify(crd *apiextensionsv1.CustomResourceDefinition) (id digest) {
	head, _ := json.Marshal([]any{crd.Name, crd.Annotations}) // never fails
	spec, err := crd.Spec.Marshal()                           // with sorted maps
	if err != nil {
		panic("crd: " + err.Error()) // nothing in it cannot be encoded
	}
	return sha256.Sum256(append(head, spec...))
}

// cacheLimit is the number of values that a cache keeps. A full one is emptied.
const cacheLimit = 1000

// cache keeps values by the definition that they were made from, for all servers of the process.
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
