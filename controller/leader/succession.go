package leader

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/internal/handover"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire"
)

// Annotations of the lease, which client-go's electors keep and ignore. Only the leader writes the first
// two. Candidates write the third, and the leader's next write removes it.
const (
	writtenAnnotation   = "tarn.dev/leader-written"   // versions that a new leader must have
	ailingAnnotation    = "tarn.dev/leader-ailing"    // "true" while the leader's caches are not live
	successorAnnotation = "tarn.dev/leader-successor" // a candidate whose caches are live
)

// Cache is a cache that reconciles read. Every *informer.Informer is one.
type Cache interface {
	// Name returns the name of the cache, which is the same in all processes.
	Name() string
	// Shard returns the part of the objects that it has. The zero Shard is everything.
	Shard() object.Shard
	// Sources returns the state of its lists and watches.
	Sources() []informer.SourceStatus
	// WaitForKey blocks until the cache has reached a version in the namespace of a key.
	WaitForKey(ctx context.Context, key object.Key, version object.Version) error
}

var (
	// errNotLive means that the lease is free, and left to processes whose caches are live.
	errNotLive = errors.New("the caches of this process are not live")
	// errYield means that this process leads, its caches have not been live for longer than the lease, and
	// another process has said that its own are.
	errYield = fmt.Errorf("the caches are not live, and another process can take over: %w", controller.ErrNotLeading)
)

const (
	// yieldFor is for how many times RetryPeriod a free lease is left to others: each of them tries to
	// take it within 1 + jitter of that time.
	yieldFor = 3
	// lookEvery is how often a process that leaves the lease to others looks at its caches.
	lookEvery = 100 * time.Millisecond
)

// look notes whether all caches are live, and since when they are not.
func (e *Elector) look() (live bool) {
	live = !slices.ContainsFunc(e.opts.Caches(), func(c Cache) bool { return !handover.Live(c.Sources()) })
	switch {
	case live:
		e.notLive.Store(nil)
	case e.notLive.Load() == nil:
		e.notLive.Store(new(e.tenure.now()))
	}
	return live
}

// ails reports whether the caches have not been live for longer than the lease.
func (e *Elector) ails() bool {
	since := e.notLive.Load()
	return since != nil && e.tenure.now().Since(*since) > e.opts.LeaseDuration
}

// volunteer informs an ailing leader that this process can take over.
func (e *Elector) volunteer(ctx context.Context, lease *coordinationv1.Lease) {
	if lease.Annotations[ailingAnnotation] == "" || lease.Annotations[successorAnnotation] != "" || !e.look() {
		return
	}
	lease = lease.DeepCopy()
	lease.Annotations[successorAnnotation] = e.tenure.identity
	ctx, cancel := context.WithTimeout(ctx, e.opts.RenewDeadline/2)
	defer cancel()
	if stored, err := e.api.Update(ctx, lease, wire.WriteOptions{}); err == nil { // after a conflict it tries again
		e.observe(stored)
	}
}

// leaveToOthers returns an error if the lease, which is free, should be left to processes whose caches
// are live. They take it before this process does.
func (e *Elector) leaveToOthers() error {
	now := e.tenure.now()
	if e.free == nil {
		e.free = &now
	}
	if e.look() || now.Since(*e.free) >= yieldFor*e.opts.RetryPeriod {
		return nil
	}
	return errNotLive
}

// annotate writes what the next leader needs to know to a lease that this process writes, and notes what
// an earlier one has written there.
func (e *Elector) annotate(lease *coordinationv1.Lease, holds bool) {
	e.writing.Lock()
	defer e.writing.Unlock()
	now := e.tenure.now().Mono
	for p, version := range handover.Parse(lease.Annotations[writtenAnnotation]) {
		e.written.Add(p, version, now) // ignores what is not newer
	}
	if lease.Annotations == nil {
		lease.Annotations = map[string]string{}
	}
	delete(lease.Annotations, successorAnnotation)
	delete(lease.Annotations, ailingAnnotation)
	delete(lease.Annotations, writtenAnnotation)
	if holds && e.ails() {
		lease.Annotations[ailingAnnotation] = "true"
	}
	if text := e.written.Since(now - 4*e.opts.LeaseDuration).String(); text != "" {
		lease.Annotations[writtenAnnotation] = text
	}
}

// await blocks until the caches have what earlier leaders wrote, but not longer than a lease duration: a
// server whose history was rewound has versions that never come.
func (e *Elector) await(ctx context.Context) {
	e.writing.Lock()
	written := e.written.Since(e.tenure.now().Mono - 4*e.opts.LeaseDuration)
	e.writing.Unlock()
	ctx, cancel := context.WithTimeout(ctx, e.opts.LeaseDuration)
	defer cancel()
	all := func(handover.Part, object.Shard) bool { return true }
	handover.Await(ctx, e.opts.Caches(), written, all, func(err error) {
		e.opts.Logger.Warn("a cache does not have what the earlier leader wrote; work begins without it", "lease", e.tenure.lease, "error", err)
	})
}

// Wrote records that a controller.Tracked has written an object, for the next leader.
func (f *fence) Wrote(cache string, key object.Key, at object.Mark) {
	f.elector.writing.Lock()
	defer f.elector.writing.Unlock()
	f.elector.written.Add(handover.Part{Cache: cache, Scope: at.Scope}, at.Version, f.elector.tenure.now().Mono)
}

// announce calls OnNewLeader, and logs its panic.
func (e *Elector) announce(leader string) {
	if e.opts.OnNewLeader == nil {
		return
	}
	defer func() {
		if p := recover(); p != nil {
			e.opts.Logger.Error("OnNewLeader panicked", "lease", e.tenure.lease, "panic", fmt.Sprint(p))
		}
	}()
	e.opts.OnNewLeader(leader)
}
