package leader

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"

	"github.com/tarnproject/tarn/controller"
)

// Options change how an [Elector] works. The zero Options is what Kubernetes' own
// components use.
type Options struct {
	// LeaseDuration is how long a lease is valid after a renewal. Other processes wait that
	// long before they take it. It must be in whole seconds. Defaults to 15 seconds.
	LeaseDuration time.Duration
	// RenewDeadline is how long the leader tries to renew before it gives up.
	// Defaults to 10 seconds.
	RenewDeadline time.Duration
	// RetryPeriod is the time between two attempts. Defaults to 2 seconds.
	RetryPeriod time.Duration
	// OnNewLeader is called with the leader's identity whenever that changes. It blocks the
	// election, so it must be fast. Defaults to none.
	OnNewLeader func(identity string)
	// Logger receives changes of the lease at debug level, and client-go's own messages.
	// Defaults to none.
	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
	if o.LeaseDuration == 0 {
		o.LeaseDuration = 15 * time.Second
	}
	if o.RenewDeadline == 0 {
		o.RenewDeadline = 10 * time.Second
	}
	if o.RetryPeriod == 0 {
		o.RetryPeriod = 2 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// ErrRunning is returned by Run while the elector runs.
var ErrRunning = errors.New("leader: running already")

// Elector campaigns for a lease and runs work while it holds it. Create one with [New]. Its
// methods are safe for concurrent use; only one Run at a time.
//
// Guarantees: of all processes with this lock, at most one has an open fence, if their clocks
// run at the same speed. A lost fence never opens again. The lease is released only when the
// work has ended.
type Elector struct {
	opts    Options
	lease   *lease
	running atomic.Bool
	terms   atomic.Uint64
}

var _ controller.Leadership = (*Elector)(nil)

// New returns an elector for a lock, such as that of [NewLease].
func New(lock resourcelock.Interface, opts Options) (*Elector, error) {
	if lock == nil {
		return nil, errors.New("leader: no lock; leader.NewLease makes one")
	}
	opts = opts.withDefaults()
	if opts.LeaseDuration%time.Second != 0 {
		return nil, fmt.Errorf("leader: LeaseDuration is %v; want whole seconds, which is all that a Lease can say", opts.LeaseDuration)
	}
	e := &Elector{opts: opts, lease: &lease{Interface: lock, now: clock{time.Now()}.now, notify: opts.OnNewLeader}}
	if _, err := e.candidate(make(chan struct{})); err != nil {
		return nil, err
	}
	return e, nil
}

// candidate returns client-go's elector. won is closed when it holds the lease.
func (e *Elector) candidate(won chan struct{}) (*leaderelection.LeaderElector, error) {
	le, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: e.lease, Name: e.lease.Describe(),
		LeaseDuration: e.opts.LeaseDuration, RenewDeadline: e.opts.RenewDeadline, RetryPeriod: e.opts.RetryPeriod,
		// ReleaseOnCancel would release before the work has ended.
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { close(won) },
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("leader: %w", err)
	}
	return le, nil
}

// Run implements [controller.Leadership].
func (e *Elector) Run(ctx context.Context, lead func(ctx context.Context, fence controller.Fence) error) error {
	if !e.running.CompareAndSwap(false, true) {
		return ErrRunning
	}
	defer e.running.Store(false)
	for ctx.Err() == nil {
		if again, err := e.term(ctx, lead); err != nil || !again {
			return err
		}
	}
	return nil
}

// term campaigns until it wins, and then runs lead until that returns. again is true if
// leadership was lost, and not given up.
func (e *Elector) term(ctx context.Context, lead func(context.Context, controller.Fence) error) (again bool, err error) {
	won, ended := make(chan struct{}), make(chan struct{})
	le, err := e.candidate(won)
	if err != nil {
		return false, err
	}
	e.lease.won.Store(false)
	// The lease is renewed after the end of ctx, until the work has ended.
	campaign, stop := context.WithCancel(klog.NewContext(context.WithoutCancel(ctx), logr.FromSlogHandler(e.opts.Logger.Handler())))
	defer stop()
	go func() {
		defer close(ended)
		le.Run(campaign)
	}()
	select {
	case <-won:
	case <-ctx.Done():
		stop()
		<-ended
		if e.lease.won.Load() {
			<-won // at the last moment
			e.release()
		}
		return false, nil
	}

	e.terms.Add(1)
	e.opts.Logger.Debug("leading", "lease", e.lease.Describe())
	f := &fence{lease: e.lease, lost: make(chan struct{})}
	working, lose := context.WithCancelCause(ctx)
	defer lose(nil)
	done := make(chan error, 1)
	go func() { done <- lead(working, f) }()
	select {
	case err = <-done:
		stop()
		<-ended
	case <-ended:
		again = ctx.Err() == nil
		f.close()
		lose(controller.ErrNotLeading)
		e.opts.Logger.Debug("no longer leading", "lease", e.lease.Describe())
		err = <-done
	}
	f.close()
	e.release()
	return again, err
}

// release releases the lease if this process still holds it.
func (e *Elector) release() {
	e.lease.held.Store(nil)
	ctx, cancel := context.WithTimeout(context.Background(), e.opts.RenewDeadline)
	defer cancel()
	// The second attempt is for a last renewal that was still in flight.
	for range 2 {
		now, _, err := e.lease.Get(ctx)
		if err != nil || now.HolderIdentity != e.lease.Identity() {
			return
		}
		at := metav1.NewTime(time.Now())
		err = e.lease.Update(ctx, resourcelock.LeaderElectionRecord{
			LeaderTransitions: now.LeaderTransitions, LeaseDurationSeconds: 1, RenewTime: at, AcquireTime: at,
		})
		if err == nil {
			return
		}
		e.opts.Logger.Debug("the lease could not be released", "lease", e.lease.Describe(), "error", err)
	}
}

// fence is the fence of one term.
type fence struct {
	lease *lease
	lost  chan struct{}
	over  atomic.Bool
}

// Check implements [controller.Fence].
func (f *fence) Check() error {
	if f.over.Load() {
		return fmt.Errorf("leader: the lease %s was lost: %w", f.lease.Describe(), controller.ErrNotLeading)
	}
	return f.lease.check()
}

// Lost implements [controller.Fence].
func (f *fence) Lost() <-chan struct{} { return f.lost }

func (f *fence) close() {
	if f.over.CompareAndSwap(false, true) {
		close(f.lost)
	}
}

// Status is a report on an elector.
type Status struct {
	// Lease and Identity are those of the lock.
	Lease, Identity string
	// Leader is the identity of the last known leader; empty if there was none.
	Leader string
	// Leading is true while this process holds the lease. Left is how long it would hold it
	// without a renewal.
	Leading bool
	Left    time.Duration
	// Terms counts how often this process has won.
	Terms uint64
}

// Status returns the current status. It is cheap.
func (e *Elector) Status() Status {
	left := e.lease.left()
	return Status{
		Lease: e.lease.Describe(), Identity: e.lease.Identity(), Leader: e.lease.lastSeen(),
		Leading: left > 0, Left: left, Terms: e.terms.Load(),
	}
}
