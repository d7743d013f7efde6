package tarn

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/controller/shard"
	"github.com/tarnproject/tarn/object"
)

// ShardBy selects which keys of a controller stay together with [WithSharding]: those for which the
// function returns the same text. Defaults to shard.ByNamespace, so that one process reconciles owners
// and what they own; shard.ByKey divides all keys. With Ranges of shard.Options it is an error: keys
// belong to where their objects are mirrored. Without WithSharding it has no effect.
func ShardBy(text func(Key) string) ControllerOption {
	return func(d *controllerDeclaration) {
		d.shardBy, d.tuned = func(key Key) string { return shard.Spread(text(key)) }, true
	}
}

// shard sets the options of a controller in a cluster with or without sharding.
func (d *controllerDeclaration) shard(c *Cluster) error {
	switch {
	case c.group == nil:
		return nil
	case d.options.Queue.Group != nil:
		return errors.New("with WithSharding, Queue.Group is the slot of a key; use ShardBy")
	case c.part != nil && d.shardBy != nil:
		return errors.New("with shard.Options.Ranges keys are divided by namespace, as the mirrors are; remove ShardBy")
	}
	d.options.Claims, d.options.Queue.Group = true, shard.ByNamespace
	if d.shardBy != nil {
		d.options.Queue.Group = d.shardBy
	}
	if c.part != nil {
		d.options.Queue.Group = shard.ByRange
	}
	return nil
}

// join creates the cluster's membership in its group.
func (c *Cluster) join() error {
	opts := c.opts.sharding
	if opts.Logger == nil {
		opts.Logger = c.opts.logger
	}
	opts.Caches = c.caches
	if opts.Ranges {
		c.part = NewShard(object.NewShard(object.ByNamespace))
		opts.Divide = c.part.Set
	}
	group, err := shard.New(c.leases, Key{Namespace: c.namespace, Name: c.opts.group}, opts)
	if err != nil {
		return fmt.Errorf("tarn: connect: %w", err)
	}
	c.group = group
	c.exporter.AddShards(group)
	return nil
}

// caches returns the mirrors, except those of resources that the server does not serve: no process
// can work on these.
func (c *Cluster) caches() (all []shard.Cache) {
	for _, m := range c.declared() {
		if !m.missing.Load() {
			all = append(all, m.inf)
		}
	}
	return all
}

var _ controller.Claimer = (*controllers)(nil)

// Claim implements [controller.Claimer] for all controllers, including those that are added later.
func (cs *controllers) Claim(ctx context.Context, group string) error {
	var (
		claims sync.WaitGroup
		mu     sync.Mutex
		errs   []error
	)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	claim := func(w worker) {
		c, ok := w.(controller.Claimer)
		if !ok {
			return // no such controller is added to a cluster with sharding
		}
		claims.Go(func() {
			if err := c.Claim(ctx, group); err != nil {
				mu.Lock()
				errs = append(errs, err)
				mu.Unlock()
				stop()
			}
		})
	}
	cs.mu.Lock()
	if cs.claims == nil {
		cs.claims = map[string]func(worker){}
	}
	cs.claims[group] = claim
	for _, w := range cs.all {
		claim(w)
	}
	cs.mu.Unlock()
	<-ctx.Done()
	cs.mu.Lock()
	delete(cs.claims, group)
	cs.mu.Unlock()
	claims.Wait()
	return errors.Join(errs...)
}
