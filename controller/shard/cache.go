package shard

import (
	"context"

	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/internal/handover"
	"github.com/tarnproject/tarn/object"
)

// Cache is a cache that reconciles read. Every *informer.Informer is one.
type Cache interface {
	// Name returns the name of the cache, which is the same in all members.
	Name() string
	// Shard returns the part of the objects that it has. The zero Shard is everything.
	Shard() object.Shard
	// Sources returns the state of its lists and watches.
	Sources() []informer.SourceStatus
	// Wake makes lists and watches that wait after a failure retry at once. It does not block.
	Wake()
	// WaitForKey blocks until the cache has reached a version in the namespace of a key.
	WaitForKey(ctx context.Context, key object.Key, version object.Version) error
}

// wakeCaches makes all lists and watches retry: the server can be reached again.
func (g *Group) wakeCaches() {
	g.leases.Wake()
	for _, c := range g.opts.Caches() {
		c.Wake()
	}
}

// cachedSlots returns the slots whose objects all caches have, and are not about to drop: those that
// they need, and that are also in the part that each list and watch has and is changing to. The shards
// of caches consist of whole slots.
func (g *Group) cachedSlots(caches []Cache) (slots slotSet) {
	if g.divided == nil {
		return slots
	}
	slots = *g.divided
	keep := func(has object.Shard) {
		for i := range slots {
			slots[i] = slots[i] && has.ContainsHash(Slot(i).hashes().First)
		}
	}
	for _, c := range caches {
		keep(c.Shard())
		for _, s := range c.Sources() {
			keep(s.Reflector.Mark.Shard)
			keep(s.Reflector.Shard)
		}
	}
	return slots
}

// divide reports the part of the objects that the caches need.
func (g *Group) divide() {
	if !g.opts.Ranges {
		return
	}
	g.mu.RLock()
	needs := g.machine.needs()
	g.mu.RUnlock()
	if g.divided == nil || *g.divided != needs {
		g.divided = &needs
		g.opts.Divide(needs.shard())
	}
}

// await blocks until the caches have what was written, but not longer than a lease duration: a
// server whose history was rewound has versions that never come.
func (g *Group) await(ctx context.Context, written versions) {
	ctx, cancel := context.WithTimeout(ctx, g.timing.expiry)
	defer cancel()
	handover.Await(ctx, g.opts.Caches(), written, covered, func(err error) {
		g.opts.Logger.Warn("a cache does not have what the earlier owner of a slot wrote; work begins without it", "group", g.key.String(), "error", err)
	})
}
