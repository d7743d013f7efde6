package leader

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/internal/handover"
	leases "github.com/tarnproject/tarn/internal/lease"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire"
)

// Options change how an [Elector] works. The zero Options is what Kubernetes' own
// components use.
type Options struct {
	// Identity is the name of this process in the lease. It must be unique: two processes
	// with the same identity would both lead. A hostname or the name of a Deployment is not
	// unique. Defaults to the hostname, "_" and a random UUID.
	Identity string
	// LeaseDuration is how long a lease is valid after a renewal. Other processes wait that
	// long before they take it. It must be in whole seconds. Defaults to 15 seconds.
	LeaseDuration time.Duration
	// RenewDeadline is how long the leader tries to renew before it gives up.
	// Defaults to 10 seconds.
	RenewDeadline time.Duration
	// RetryPeriod is the time between two attempts. A candidate adds up to 120% at random.
	// Defaults to 2 seconds.
	RetryPeriod time.Duration
	// OnNewLeader is called with the leader's identity whenever that changes. It blocks the
	// election, so it must be fast. Defaults to none.
	OnNewLeader func(identity string)
	// Caches returns the caches that reconciles read. A leader whose caches have not been live for
	// LeaseDuration gives up the lease to a process whose caches are, and a new leader begins to work
	// when its caches have what the earlier one wrote through a controller.Tracked. It is called at least
	// every RetryPeriod. Defaults to none.
	Caches func() []Cache
	// Logger receives the start and end of each term, and failed requests. Defaults to none.
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
	if o.Caches == nil {
		o.Caches = func() []Cache { return nil }
	}
	if o.Identity == "" {
		o.Identity = string(uuid.NewUUID())
		if host, err := os.Hostname(); err == nil {
			o.Identity = host + "_" + o.Identity
		}
	}
	return o
}

// valid checks what client-go checks too, so that electors of both agree.
func (o Options) valid() error {
	switch {
	case o.LeaseDuration < 0 || o.RenewDeadline < 0 || o.RetryPeriod < 0:
		return errors.New("leader: a negative duration; leave it 0 for the default")
	case o.LeaseDuration%time.Second != 0:
		return fmt.Errorf("leader: LeaseDuration is %v; want whole seconds, which is all that a Lease can say", o.LeaseDuration)
	case o.LeaseDuration <= o.RenewDeadline:
		return fmt.Errorf("leader: LeaseDuration is %v; it must be longer than RenewDeadline, %v", o.LeaseDuration, o.RenewDeadline)
	case float64(o.RenewDeadline) <= jitter*float64(o.RetryPeriod):
		return fmt.Errorf("leader: RenewDeadline is %v; it must be longer than %v times RetryPeriod, %v", o.RenewDeadline, jitter, o.RetryPeriod)
	}
	return nil
}

// Elector campaigns for a lease and runs work while it holds it. Create one with [New]. Its
// methods are safe for concurrent use; only one Run at a time.
//
// Guarantees: of all processes that compete for the lease, at most one has an open fence, if
// their clocks run at the same speed. A lost fence never opens again. The lease is released
// only when the work has ended; if it returns [controller.ErrStillRunning], the lease is left to expire.
type Elector struct {
	opts    Options
	api     *wire.API[*coordinationv1.Lease]
	key     object.Key
	tenure  tenure
	running atomic.Bool
	terms   atomic.Uint64
	leader  atomic.Pointer[string] // the last known leader; the election writes it

	notLive atomic.Pointer[leases.Moment] // since when the caches are not live; nil: they are; the election writes it

	writing sync.Mutex       // guards written
	written handover.History // by this process and earlier leaders

	// The rest belongs to the goroutine of the election; there is one at a time.
	lease       *coordinationv1.Lease // as last read or written; not changed after that
	seen        record                // of lease
	seenAt      leases.Moment         // when seen was first seen
	transitions int32                 // of this process's last write
	wrote       bool                  // the last attempt sent a write
	free        *leases.Moment        // when the lease was first seen to be free; nil: it is held
	yielding    bool                  // in this term
}

var _ controller.Leadership = (*Elector)(nil)

// New returns an elector for a Lease, which need not exist. It needs permission to get, create
// and update leases in the group coordination.k8s.io.
func New(client *wire.Client, lease object.Key, opts Options) (*Elector, error) {
	switch {
	case client == nil:
		return nil, errors.New("leader: no client; wire.New makes one")
	case lease.Namespace == "" || lease.Name == "":
		return nil, fmt.Errorf("leader: the lease %q needs a namespace and a name", lease)
	}
	opts = opts.withDefaults()
	if err := opts.valid(); err != nil {
		return nil, err
	}
	return &Elector{
		opts: opts, key: lease, api: wire.For(client, wire.MustOf[*coordinationv1.Lease]()),
		written: handover.History{},
		tenure:  tenure{lease: lease.String(), identity: opts.Identity, now: leases.NewClock().Now},
	}, nil
}

// Run implements [controller.Leadership]. It returns an error if the elector already runs.
func (e *Elector) Run(ctx context.Context, lead func(ctx context.Context, fence controller.Fence) error) error {
	if !e.running.CompareAndSwap(false, true) {
		return errors.New("leader: already running")
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
	if !e.acquire(ctx) || ctx.Err() != nil {
		if e.wrote { // the server may have stored it
			e.release()
		}
		return false, nil
	}
	e.terms.Add(1)
	e.opts.Logger.Info("leading", "lease", e.tenure.lease)
	// The lease is renewed after the end of ctx, until the work has ended.
	renewing, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	ended := make(chan error, 1)
	f := newFence(e)
	working, lose := context.WithCancelCause(ctx)
	defer lose(nil)
	go func() {
		ended <- e.renew(renewing, func(cause error) {
			e.opts.Logger.Warn("giving up the lease", "lease", e.tenure.lease, "cause", cause)
			lose(cause)
		})
	}()
	done := make(chan error, 1)
	go func() {
		e.await(working)
		done <- lead(working, f)
	}()
	select {
	case err = <-done:
		stop()
		<-ended
		again = e.yielding && ctx.Err() == nil
	case cause := <-ended:
		again = ctx.Err() == nil
		f.Close()
		lose(controller.ErrNotLeading)
		e.opts.Logger.Warn("no longer leading", "lease", e.tenure.lease, "error", cause)
		err = <-done
	}
	f.Close()
	if errors.Is(err, controller.ErrStillRunning) {
		e.tenure.held.Store(nil)
		e.opts.Logger.Warn("the lease is not released, but expires, because reconciles still run", "lease", e.tenure.lease)
		return again, err
	}
	e.release()
	return again, err
}

// fence is the fence of one term.
type fence struct {
	*leases.Fence
	elector *Elector
}

func newFence(e *Elector) *fence {
	return &fence{leases.NewFence(e.tenure.check, fmt.Errorf("leader: the lease %s was lost: %w", e.tenure.lease, controller.ErrNotLeading)), e}
}

// Status is a report on an elector.
type Status struct {
	// Lease is the key of the lease, and Identity the name of this process in it.
	Lease, Identity string
	// Leader is the identity of the last known leader; empty if there was none.
	Leader string
	// Leading is true while this process holds the lease. Left is how long it would hold it
	// without a renewal.
	Leading bool
	Left    time.Duration
	// Terms counts how often this process has won.
	Terms uint64
	// Ailing is true while the caches have not been live for longer than the lease. A leader then gives
	// up the lease if another process can take over.
	Ailing bool
}

// Status returns the current status. It is cheap.
func (e *Elector) Status() Status {
	left := e.tenure.left()
	return Status{
		Lease: e.tenure.lease, Identity: e.tenure.identity, Leader: e.lastSeen(),
		Leading: left > 0, Left: left, Terms: e.terms.Load(), Ailing: e.ails(),
	}
}

func (e *Elector) lastSeen() string { return leases.Value(e.leader.Load()) }
