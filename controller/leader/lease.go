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

// NewLease makes the lock that an [Elector] needs of a Lease. Two processes with the same
// identity take each other's lease for their own, and both lead: an identity must belong
// to one process only, which a hostname or the name of a Deployment does not. An empty one
// is the hostname, "_" and a random UUID.
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

// moment is a time by both clocks.
type moment struct {
	mono time.Duration // since the elector was made
	wall time.Time
}

// after returns how much time has passed since then, by the clock that shows more. The
// monotonic clock stands still while a machine sleeps; the wall clock can be set back.
func (m moment) after(then moment) time.Duration {
	return max(m.mono-then.mono, m.wall.Sub(then.wall))
}

// clock reads both clocks.
type clock struct{ origin time.Time }

func (c clock) now() moment {
	now := time.Now()
	return moment{mono: now.Sub(c.origin), wall: now.Round(0)}
}

// lease is what this process knows of its own lease: when the request was sent that last
// renewed it for others to see, and for how long. It is a lock that watches over another.
type lease struct {
	resourcelock.Interface
	now  func() moment
	held atomic.Pointer[hold]
	won  atomic.Bool // it was held since the campaign began

	// renewed is the second that the last record of ours said it was renewed in, and first
	// when the first request that said so was sent. One goroutine at a time writes.
	renewed int64
	first   moment
	// transitions is how often the lease had changed hands when it was won.
	transitions int

	leader atomic.Pointer[string] // who was last seen to lead
	tell   func(identity string)  // of another leader; may be nil
}

type hold struct {
	since    moment
	duration time.Duration
}

// Get implements resourcelock.Interface. client-go has a callback for who leads, but calls
// it from a goroutine that nobody waits for.
func (l *lease) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	r, raw, err := l.Interface.Get(ctx)
	if err == nil {
		l.saw(r.HolderIdentity)
	}
	return r, raw, err
}

// saw notes who leads. It is called by one goroutine at a time.
func (l *lease) saw(identity string) {
	if identity == "" || identity == l.lastSeen() {
		return
	}
	l.leader.Store(&identity)
	if l.tell != nil {
		l.tell(identity)
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
		// client-go would go on with the term as if nobody else had led meanwhile.
		return fmt.Errorf("leader: the lease %s was another's since it was won: %w", l.Describe(), controller.ErrNotLeading)
	}
	if !mine {
		l.held.Store(nil) // it is given away as soon as that is on its way
		l.renewed = 0
	}
	// client-go compares records in a form that has whole seconds, so that others take all
	// renewals of one second for the first of them, and count from there. One that failed
	// may have reached the server all the same.
	if mine && (l.renewed == 0 || l.renewed != r.RenewTime.Unix()) {
		l.renewed, l.first = r.RenewTime.Unix(), sent
	}
	if err := do(ctx, r); err != nil {
		return err
	}
	if mine {
		// Of a duration others see whole seconds.
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

// left returns how long the lease is still held.
func (l *lease) left() time.Duration {
	h := l.held.Load()
	if h == nil {
		return 0
	}
	return max(0, h.duration-l.now().after(h.since))
}
