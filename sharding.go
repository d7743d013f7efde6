package tarn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/controller/shard"
	"github.com/tarnproject/tarn/object"
)

// ShardBy selects which keys of a controller stay together with [WithSharding]: those for which the
// function returns the same text. No process reconciles a key for which it panics, which its controller
// reports and retries. Defaults to shard.ByNamespace, so that one process reconciles owners
// and what they own; shard.ByKey divides all keys. With Ranges of shard.Options it is an error: keys
// belong to where their objects are mirrored. Without WithSharding it has no effect. A controller with ShardBy is
// added before Run.
//
// Replicas that divide the keys of a controller in another way do not work at the same time: after a rolling update
// the new ones begin when the last old one has stopped. They compare the name and what the function returns for some
// keys. Give it another name, such as "by team, v2", when it changes for other keys only.
func ShardBy(name string, text func(Key) string) ControllerOption {
	return func(d *controllerDeclaration) {
		d.shardBy, d.tuned = func(key Key) string { return shard.Spread(text(key)) }, true
		d.division = divisionOf(name, d.shardBy)
	}
}

// divisionOf returns a text that differs between functions that divide keys in another way, as far as their names
// and their results for some keys show.
func divisionOf(name string, slot func(Key) string) string {
	results := make([]string, 256)
	for i := range results {
		func() {
			defer func() {
				if p := recover(); p != nil { // it may not expect such keys
					results[i] = fmt.Sprintf("panic: %v", p)
				}
			}()
			key := Key{Namespace: fmt.Sprint("team-", i), Name: fmt.Sprint("web-", i, [...]string{"", "-db", "-cache"}[i%3])}
			if i%5 == 1 {
				key.Namespace = "" // cluster-scoped
			}
			results[i] = slot(key)
		}()
	}
	return fmt.Sprintf("%q %x", name, object.Hash(strings.Join(results, " ")))
}

// shard sets the options of a controller in a cluster with or without sharding.
func (d *controllerDeclaration) shard(c *Cluster, name string) error {
	switch {
	case c.group == nil:
		return nil
	case d.options.Queue.Group != nil:
		return errors.New("with WithSharding, Queue.Group is the slot of a key; use ShardBy")
	case c.part != nil && d.shardBy != nil:
		return errors.New("with shard.Options.Ranges keys are divided by namespace, as the mirrors are; remove ShardBy")
	}
	if d.shardBy != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.phase == running {
			return errors.New("ShardBy of a controller that is added while the cluster runs: the other replicas cannot agree to it; add it before Run")
		}
		c.divisions = append(c.divisions, fmt.Sprintf("%q %s", name, d.division))
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
	opts.Caches, opts.Keys = c.caches, c.slotKeys
	if own := opts.Rules; own != nil {
		opts.Rules = func() string { return own() + "\n" + c.rules() }
	} else {
		opts.Rules = c.rules
	}
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

// countKeys subscribes to a mirror and calls add with the change of the number of keys in a slot.
type countKeys func(name string, slot func(Key) string, add func(slot string, n int64)) error

// countKeysOf counts the keys of a mirror's objects. Counting them when the figures are read would
// take tens of milliseconds for 100,000 keys.
func countKeysOf[T Object](objects *Mirror[T]) countKeys {
	return func(name string, slot func(Key) string, add func(slot string, n int64)) error {
		// By the informer, as the controller's own source: it outlives the reference to the mirror.
		_, err := objects.Informer().SubscribeBatch(func(_ context.Context, events []Event[T]) {
			for i := range events {
				n := int64(0)
				switch events[i].Kind {
				case Added:
					n = 1
				case Deleted, Left:
					n = -1
				}
				if n != 0 {
					countOne(func() { add(slot(events[i].Key), n) })
				}
			}
		}, SubOptions[T]{Name: name, Resync: -1})
		return err
	}
}

// countOne calls f, which counts a key. A key whose slot panics is not counted; its controller reports
// the panic.
func countOne(f func()) {
	defer func() { _ = recover() }()
	f()
}

// count counts the keys of a controller in a cluster with sharding. Those of a mirror that has stopped
// are not counted.
func (c *Cluster) count(name string, d *controllerDeclaration) {
	if c.group == nil {
		return
	}
	for _, count := range d.counts {
		err := count("shard keys of controller "+name, d.options.Queue.Group, func(slot string, n int64) {
			if i, err := strconv.ParseUint(slot, 10, 8); err == nil {
				c.keys[i].Add(n)
			}
		})
		if err != nil {
			c.opts.logger.Warn("the keys of a controller are not counted", "controller", name, "error", err)
		}
	}
}

// slotKeys returns how many keys each slot has.
func (c *Cluster) slotKeys() (keys [shard.Slots]int) {
	for i := range keys {
		keys[i] = int(c.keys[i].Load())
	}
	return keys
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

// rules returns how the controllers divide their keys. Those without ShardBy do it in the same way in all replicas.
func (c *Cluster) rules() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(slices.Sorted(slices.Values(c.divisions)), "\n")
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
