package leader

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/object"
)

// NewLease returns the lock on a Lease for an [Elector]. The identity must be unique to this
// process: two processes with the same identity would both lead. A hostname or the name of a
// Deployment is not unique. If it is empty, the identity is the hostname, "_" and a random
// UUID.
func NewLease(client coordinationv1.LeasesGetter, lease object.Key, identity string) resourcelock.Interface {
	if identity == "" {
		identity = string(uuid.NewUUID())
		if host, err := os.Hostname(); err == nil {
			identity = host + "_" + identity
		}
	}
	return &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: lease.Namespace, Name: lease.Name},
		Client:     client,
		LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
	}
}

// moment is a reading of both clocks.
type moment struct {
	mono time.Duration // since the elector was created
	wall time.Time
}

// after returns how much time has passed, by the clock that shows more. The monotonic clock
// stops while the machine is suspended; the wall clock can be set back.
func (m moment) after(then moment) time.Duration {
	return max(m.mono-then.mono, m.wall.Sub(then.wall))
}

// clock reads both clocks.
type clock struct{ origin time.Time }

func (c clock) now() moment {
	now := time.Now()
	return moment{mono: now.Sub(c.origin), wall: now.Round(0)}
}

// lease wraps a lock and records when this process sent the request that last renewed it, and
// for how long.
type lease struct {
	resourcelock.Interface
	now  func() moment
	held atomic.Pointer[hold]
	won  atomic.Bool // the lease was held since the campaign started

	// renewed is the renewTime of this process's last record, in seconds, and first is when
	// the first request with that renewTime was sent. One goroutine at a time writes them.
	renewed int64
	first   moment
	// transitions is how often the lease had changed hands when it was won.
	transitions int

	leader atomic.Pointer[string] // the last known leader
	notify func(identity string)  // called for a new leader; may be nil
}

type hold struct {
	since    moment
	duration time.Duration
}

// Get implements resourcelock.Interface. It notifies about new leaders itself because
// client-go calls its callback from a goroutine that it does not wait for.
func (l *lease) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	r, raw, err := l.Interface.Get(ctx)
	if err == nil {
		l.saw(r.HolderIdentity)
	}
	return r, raw, err
}

// saw records the leader. One goroutine at a time calls it.
func (l *lease) saw(identity string) {
	if identity == "" || identity == l.lastSeen() {
		return
	}
	l.leader.Store(&identity)
	if l.notify != nil {
		l.notify(identity)
	}
}

func (l *lease) lastSeen() string {
	if p := l.leader.Load(); p != nil {
		return *p
	}
	return ""
}

// Create implements resourcelock.Interface.
func (l *lease) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, r, l.Interface.Create)
}

// Update implements resourcelock.Interface.
func (l *lease) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, r, l.Interface.Update)
}

func (l *lease) write(ctx context.Context, r resourcelock.LeaderElectionRecord, do func(context.Context, resourcelock.LeaderElectionRecord) error) error {
	sent := l.now()
	mine := r.HolderIdentity == l.Identity()
	if mine && l.won.Load() && r.LeaderTransitions != l.transitions {
		// client-go would continue the term although another process has led meanwhile.
		return fmt.Errorf("leader: the lease %s was another's since it was won: %w", l.Describe(), controller.ErrNotLeading)
	}
	if !mine {
		l.held.Store(nil) // released from the moment the request is sent
		l.renewed = 0
	}
	// client-go compares records with a resolution of one second, so other processes count
	// from the first renewal within a second. A failed renewal may still have reached the
	// server.
	if mine && (l.renewed == 0 || l.renewed != r.RenewTime.Unix()) {
		l.renewed, l.first = r.RenewTime.Unix(), sent
	}
	if err := do(ctx, r); err != nil {
		return err
	}
	if mine {
		// The record has the duration in whole seconds.
		l.held.Store(&hold{since: l.first, duration: time.Duration(r.LeaseDurationSeconds) * time.Second})
		l.transitions = r.LeaderTransitions
		l.won.Store(true)
		l.saw(r.HolderIdentity)
	}
	return nil
}

// check returns nil while the lease is held.
func (l *lease) check() error {
	h := l.held.Load()
	if h == nil {
		return fmt.Errorf("leader: the lease %s is not held: %w", l.Describe(), controller.ErrNotLeading)
	}
	if passed := l.now().after(h.since); passed >= h.duration {
		return fmt.Errorf("leader: the lease %s was renewed %v ago and ended after %v: %w",
			l.Describe(), passed.Round(time.Millisecond), h.duration, controller.ErrNotLeading)
	}
	return nil
}

// left returns how long the lease is still valid.
func (l *lease) left() time.Duration {
	h := l.held.Load()
	if h == nil {
		return 0
	}
	return max(0, h.duration-l.now().after(h.since))
}
