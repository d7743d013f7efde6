package shard

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/tarnproject/tarn/internal/lease"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire"
)

// errTaken means that the member's lease is not this process's.
var errTaken = errors.New("another process has written to it")

// errRepeated means that the answer to an earlier renewal of the same version is about to come.
var errRepeated = errors.New("an earlier renewal was stored")

// send runs requests in a goroutine, and what it returns in that of Run.
func (g *Group) send(ctx context.Context, tasks *sync.WaitGroup, results chan<- func(), request func(ctx context.Context) (apply func())) {
	tasks.Go(func() {
		apply := request(ctx)
		select {
		case results <- apply:
		case <-ctx.Done():
		}
	})
}

// renew writes this member's lease.
func (g *Group) renew(ctx context.Context, tasks *sync.WaitGroup, results chan<- func(), state member) {
	base, key := g.mine, g.memberKey()
	g.send(ctx, tasks, results, func(ctx context.Context) func() {
		stored, sent, err := g.writeMember(ctx, key, base, state)
		return func() { g.renewed(ctx, key, base, stored, sent, err) }
	})
}

// renewed takes over the answer to a renewal that replaced base.
func (g *Group) renewed(ctx context.Context, key object.Key, base, stored *coordinationv1.Lease, sent moment, err error) {
	now := g.clock.Now()
	if g.failed && err == nil {
		g.wakeCaches()
	}
	if g.mine == base || g.mine == nil { // no other renewal with the same base was stored
		g.mine = stored
	}
	failed := err != nil && g.mine == nil
	g.failed = failed
	if apierrors.IsConflict(err) && g.machine.pending > 1 {
		err = errRepeated
	}
	if failed && err != errRepeated && ctx.Err() == nil {
		g.opts.Logger.Warn("the member's lease could not be renewed", "group", g.key.String(), "lease", key.String(), "error", err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	switch took := now.Since(sent); {
	case err == errRepeated:
	case failed:
		g.renewErr = fmt.Errorf("the lease %s could not be renewed: %w", key, err)
	case err != nil:
	case took > g.timing.request:
		g.renewErr = fmt.Errorf("the last renewal of the lease %s took %v; one that takes longer than %v does not count", key, took.Round(time.Millisecond), g.timing.limit)
	default:
		g.renewErr = nil
	}
	if err == nil {
		g.machine.stored(now, sent, stored.ResourceVersion)
	}
	g.machine.answered(now, g.mine != nil)
	if errors.Is(err, errTaken) {
		g.machine.rename(now, g.newName())
	}
}

// writeMember creates or replaces this member's lease, and returns when it sent that. It returns nil if the
// version of the lease is not known after that, so that the next one reads it first.
func (g *Group) writeMember(ctx context.Context, key object.Key, base *coordinationv1.Lease, state member) (stored *coordinationv1.Lease, sent moment, err error) {
	if base == nil {
		limited, cancel := context.WithTimeout(ctx, g.timing.limit)
		defer cancel()
		if base, err = g.api.Get(limited, key, wire.GetOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return nil, sent, err
		}
	}
	limited, cancel := context.WithTimeout(ctx, g.timing.limit)
	defer cancel()
	sent = g.clock.Now()
	if err != nil {
		l := &coordinationv1.Lease{}
		l.Namespace, l.Name = key.Namespace, key.Name
		state.write(l, g.key.Name, time.Now())
		stored, err = g.api.Create(limited, l, wire.WriteOptions{})
	} else {
		if lease.Value(base.Spec.HolderIdentity) != state.process {
			return nil, sent, fmt.Errorf("shard: the lease %s: %w", key, errTaken)
		}
		l := base.DeepCopy()
		state.write(l, g.key.Name, time.Now())
		stored, err = g.api.Update(limited, l, wire.WriteOptions{})
	}
	if err != nil {
		return nil, sent, err
	}
	return stored, sent, nil
}

// newName returns a name for this process in the group.
func (g *Group) newName() string { return label(g.opts.Member) + "-" + rand.String(6) }

// assignmentName is the name of the lease that has the assignment. No member and no other group has
// it, nor a lease of package leader with the group's name.
func (g *Group) assignmentName() string { return g.key.Name + ".slots" }

func (g *Group) memberKey() object.Key { return g.leaseOf(g.machine.name) }

func (g *Group) leaseOf(member string) object.Key {
	return object.Key{Namespace: g.key.Namespace, Name: g.key.Name + "-" + member}
}

// assign writes the assignment, if it is still the one that the new one is based on.
func (g *Group) assign(ctx context.Context, tasks *sync.WaitGroup, results chan<- func(), next *assignment) {
	l := &coordinationv1.Lease{}
	l.Namespace, l.Name, l.ResourceVersion = g.key.Namespace, g.assignmentName(), g.machine.view.version
	l.UID = types.UID(g.machine.view.uid) // without it the server creates a lease that was deleted, whatever the version
	if next.line == "" {
		next.line = rand.String(10)
	}
	next.write(l, g.key.Name)
	g.assigning = attempt{true, l.ResourceVersion, g.clock.Now().Mono + g.timing.request}
	g.send(ctx, tasks, results, func(ctx context.Context) func() {
		limited, cancel := context.WithTimeout(ctx, g.timing.limit)
		defer cancel()
		var err error
		if l.ResourceVersion == "" {
			err = g.createAssignment(limited, l)
		} else {
			_, err = g.api.Update(limited, l, wire.WriteOptions{})
		}
		if apierrors.IsConflict(err) || ctx.Err() != nil {
			err = nil
		}
		if err != nil {
			g.opts.Logger.Warn("the assignment could not be written", "group", g.key.String(), "error", err)
			err = fmt.Errorf("the assignment could not be written: %w", err)
		}
		return func() {
			g.assigning.running = false
			g.mu.Lock()
			defer g.mu.Unlock()
			g.assignErr = err
		}
	})
}

// createAssignment creates the assignment, or replaces one that lost its label: the watch does not
// show it, so no member uses it.
func (g *Group) createAssignment(ctx context.Context, l *coordinationv1.Lease) error {
	l.UID = ""
	_, err := g.api.Create(ctx, l, wire.WriteOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	found, err := g.api.Get(ctx, object.Key{Namespace: l.Namespace, Name: l.Name}, wire.GetOptions{})
	if err != nil || found.Labels[groupLabel] == g.key.Name {
		return err // another member was faster; the watch will show it
	}
	l.UID, l.ResourceVersion = found.UID, found.ResourceVersion
	_, err = g.api.Update(ctx, l, wire.WriteOptions{})
	return err
}

// remove deletes the lease of a member that crashed, if it still is as this member has seen it.
func (g *Group) remove(ctx context.Context, tasks *sync.WaitGroup, results chan<- func(), name string) {
	version := g.machine.view.members[name].version
	g.removing = attempt{true, version, g.clock.Now().Mono + g.timing.renew}
	g.send(ctx, tasks, results, func(ctx context.Context) func() {
		limited, cancel := context.WithTimeout(ctx, g.timing.limit)
		defer cancel()
		err := g.api.Delete(limited, g.leaseOf(name), wire.DeleteOptions{Version: object.Version(version)})
		if err != nil && ctx.Err() == nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			g.opts.Logger.Warn("the lease of a crashed member could not be deleted", "group", g.key.String(), "member", name, "error", err)
		}
		return func() { g.removing.running = false }
	})
}

// leave deletes this member's lease, unless work has not ended: then the lease has to expire.
func (g *Group) leave(ctx context.Context) error {
	g.mu.RLock()
	key, unfinished := g.memberKey(), g.unfinished
	g.mu.RUnlock()
	if unfinished != nil {
		return fmt.Errorf("shard: slots were not handed over: %w", unfinished)
	}
	ctx, cancel := context.WithTimeout(ctx, g.timing.limit)
	defer cancel()
	if err := g.api.Delete(ctx, key, wire.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		g.opts.Logger.Warn("the member's lease could not be deleted; it expires", "group", g.key.String(), "error", err)
	}
	return nil
}
