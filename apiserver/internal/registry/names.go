package registry

import (
	"fmt"
	"math/rand/v2"
	"sync"
)

// Names generates UIDs and the ends of generated names, which a seed makes reproducible.
type Names struct {
	mu   sync.Mutex // guards rand
	rand *rand.Rand
}

// NewNames returns a generator with a seed.
func NewNames(seed uint64) *Names { return &Names{rand: rand.New(rand.NewPCG(seed, seed))} }

// UID returns a UUID.
func (n *Names) UID() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	a, b := n.rand.Uint64(), n.rand.Uint64()
	a = a&^(0xf<<12) | 4<<12
	b = b&^(3<<62) | 2<<62
	return fmt.Sprintf("%08x-%04x-%04x-%04x-%012x", a>>32, a>>16&0xffff, a&0xffff, b>>48, b&0xffff_ffff_ffff)
}

// Suffix returns the end of a generated name, without vowels and similar characters.
func (n *Names) Suffix() string {
	const letters = "bcdfghjklmnpqrstvwxz2456789"
	n.mu.Lock()
	defer n.mu.Unlock()
	suffix := make([]byte, 5)
	for i := range suffix {
		suffix[i] = letters[n.rand.IntN(len(letters))]
	}
	return string(suffix)
}
