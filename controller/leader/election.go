package leader

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/wire"
)

// The rules of the election are those of client-go's leaderelection, so that its electors and
// this one can compete for the same lease:
//
//   - A process takes a lease that does not exist, was released, or has expired. A lease has
//     expired when its record has not changed for its duration, counted by the monotonic
//     clock from when this process first saw the record. The times in the record are not
//     used, because clocks of different machines differ.
//   - A write has the resource version of the lease it is based on, so of several processes
//     one succeeds and the others get a conflict.
//   - leaseTransitions increases whenever a process takes the lease from another or after a
//     release.
//
// One rule is stricter: a term ends as soon as the leader sees that the lease was deleted or
// that another process has held it. client-go would take it again and continue.

// jitter is how much longer than RetryPeriod a candidate waits at the most, as a fraction.
const jitter = 1.2

// errHeld means that another process holds the lease.
var errHeld = errors.New("another process holds it")

// acquire tries to acquire the lease until it succeeds or ctx is done.
func (e *Elector) acquire(ctx context.Context) bool {
	for {
		e.wrote = false
		err := e.try(ctx, false)
		if err == nil {
			return true
		}
		if errors.Is(err, errNotLive) {
			for e.leaveToOthers() != nil {
				if !sleep(ctx, lookEvery) {
					return false
				}
			}
			continue
		}
		if !errors.Is(err, errHeld) && ctx.Err() == nil {
			e.opts.Logger.Warn("the lease could not be acquired", "lease", e.tenure.lease, "error", err)
		}
		if !sleep(ctx, e.opts.RetryPeriod+time.Duration(rand.Float64()*jitter*float64(e.opts.RetryPeriod))) {
			return false
		}
	}
}

// renew renews the lease until ctx is done or the term has ended. It returns why. It calls yield once
// when this process should give up the lease, which is still renewed until the work has ended.
func (e *Elector) renew(ctx context.Context, yield func(error)) error {
	e.yielding = false
	for e.yielding || sleep(ctx, e.opts.RetryPeriod) {
		err := e.renewOnce(ctx)
		if errors.Is(err, errYield) {
			e.yielding = true
			yield(err)
			err = e.renewOnce(ctx)
		}
		if err != nil {
			return err
		}
		if e.yielding && !sleep(ctx, e.opts.RetryPeriod) {
			break
		}
	}
	return ctx.Err()
}

// renewOnce renews the lease, with retries until RenewDeadline.
func (e *Elector) renewOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, e.opts.RenewDeadline)
	defer cancel()
	for {
		err := e.try(ctx, true)
		if err == nil || errors.Is(err, controller.ErrNotLeading) || errors.Is(err, errYield) {
			return err
		}
		if ctx.Err() == nil {
			e.opts.Logger.Warn("the lease could not be renewed", "lease", e.tenure.lease, "error", err)
		}
		if !sleep(ctx, e.opts.RetryPeriod) {
			return err
		}
	}
}

// try acquires the lease, or renews it if this process is leading. It returns nil if the lease
// is held afterwards. An error that wraps ErrNotLeading ends the term.
func (e *Elector) try(ctx context.Context, leading bool) error {
	if leading {
		e.look()
	}
	if leading && e.tenure.left() > 0 {
		// Most likely no other process has written since.
		if e.write(ctx, e.lease, e.claim(e.seen)) == nil {
			return nil
		}
	}
	now := e.tenure.now()
	lease, err := e.get(ctx)
	if apierrors.IsNotFound(err) {
		if leading {
			return fmt.Errorf("leader: the lease %s was deleted: %w", e.tenure.lease, controller.ErrNotLeading)
		}
		if err := e.leaveToOthers(); err != nil {
			return err
		}
		return e.write(ctx, nil, e.claim(record{holder: e.tenure.identity, acquired: time.Now().UnixMicro()}))
	}
	if err != nil {
		return err
	}
	r := recordOf(lease)
	switch {
	case leading && (r.holder != e.tenure.identity || r.transitions != e.transitions):
		return fmt.Errorf("leader: the lease %s was acquired by another process or released: %w", e.tenure.lease, controller.ErrNotLeading)
	case leading && !e.yielding && e.ails() && lease.Annotations[successorAnnotation] != "":
		return fmt.Errorf("%w: %s", errYield, lease.Annotations[successorAnnotation])
	case r.holder != "" && r.holder != e.tenure.identity && now.Mono-e.seenAt.Mono < time.Duration(r.seconds)*time.Second:
		e.free = nil
		e.volunteer(ctx, lease)
		return errHeld
	case !leading:
		if err := e.leaveToOthers(); err != nil {
			return err
		}
	}
	return e.write(ctx, lease, e.claim(r))
}

// claim returns the record with which this process takes over from, or renews, another one.
func (e *Elector) claim(r record) record {
	now := time.Now().UnixMicro()
	if r.holder != e.tenure.identity {
		r.holder, r.acquired, r.transitions = e.tenure.identity, now, r.transitions+1
	}
	r.seconds, r.renewed = int32(e.opts.LeaseDuration/time.Second), now
	return r
}

// get reads the lease.
func (e *Elector) get(ctx context.Context) (*coordinationv1.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, e.opts.RenewDeadline/2)
	defer cancel()
	lease, err := e.api.Get(ctx, e.key, wire.GetOptions{})
	if err == nil {
		e.observe(lease)
	}
	return lease, err
}

// write replaces the record of a lease, or creates it if it is nil.
func (e *Elector) write(ctx context.Context, lease *coordinationv1.Lease, r record) error {
	ctx, cancel := context.WithTimeout(ctx, e.opts.RenewDeadline/2)
	defer cancel()
	verb := e.api.Update
	if lease == nil {
		verb = e.api.Create
		lease = &coordinationv1.Lease{}
		lease.Namespace, lease.Name = e.key.Namespace, e.key.Name
	} else {
		lease = lease.DeepCopy()
	}
	r.write(lease)
	e.annotate(lease, r.holder == e.tenure.identity)
	e.wrote = true
	e.tenure.sending(r)
	stored, err := verb(ctx, lease, wire.WriteOptions{})
	if err != nil {
		return err
	}
	e.transitions, e.free = r.transitions, nil
	e.tenure.stored(r)
	e.observe(stored)
	return nil
}

// observe notes the current lease, when it changed, and who leads.
func (e *Elector) observe(lease *coordinationv1.Lease) {
	r := recordOf(lease)
	if e.lease == nil || r != e.seen {
		e.seen, e.seenAt = r, e.tenure.now()
	}
	e.lease = lease
	if r.holder == "" || r.holder == e.lastSeen() {
		return
	}
	e.leader.Store(&r.holder)
	e.announce(r.holder)
}

// release releases the lease if this process still holds it.
func (e *Elector) release() {
	e.tenure.held.Store(nil)
	ctx, cancel := context.WithTimeout(context.Background(), e.opts.RenewDeadline)
	defer cancel()
	// The second attempt is for a last write that was still in flight.
	for range 2 {
		lease, err := e.get(ctx)
		if err != nil || e.seen.holder != e.tenure.identity {
			return
		}
		now := time.Now().UnixMicro()
		err = e.write(ctx, lease, record{seconds: 1, transitions: e.seen.transitions, acquired: now, renewed: now})
		if err == nil {
			return
		}
		e.opts.Logger.Warn("the lease could not be released", "lease", e.tenure.lease, "error", err)
	}
}

// sleep waits for d. It returns false if ctx is done.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
