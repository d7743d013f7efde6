package leader_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	leases  = schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}
	errDown = errors.New("connection refused")
)

// server has one lease, in memory.
type server struct {
	mu      sync.Mutex
	version int
	record  *resourcelock.LeaderElectionRecord
}

func (s *server) holder() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.record == nil {
		return ""
	}
	return s.record.HolderIdentity
}

// lock is one process's connection to the lease. Its writes conflict if another process has
// written since it last read.
type lock struct {
	*server
	identity string
	seen     int

	fault sync.Mutex // guards all below
	down  bool
	slow  time.Duration // how long a request takes, regardless of its context
	ends  time.Time     // when this process's lease ends, by its last successful request
}

func (s *server) lock(identity string) *lock { return &lock{server: s, identity: identity} }

func (l *lock) begin(ctx context.Context) error {
	l.fault.Lock()
	down, slow := l.down, l.slow
	l.fault.Unlock()
	if slow > 0 {
		<-time.After(slow)
	}
	if down {
		return errDown
	}
	if slow == 0 {
		return ctx.Err()
	}
	return nil
}

func (l *lock) set(down bool, slow time.Duration) {
	l.fault.Lock()
	defer l.fault.Unlock()
	l.down, l.slow = down, slow
}

func (l *lock) deadline() time.Time {
	l.fault.Lock()
	defer l.fault.Unlock()
	return l.ends
}

func (l *lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	if err := l.begin(ctx); err != nil {
		return nil, nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.record == nil {
		return nil, nil, apierrors.NewNotFound(leases, "web")
	}
	l.seen = l.version
	r := *l.record
	raw, err := json.Marshal(r)
	return &r, raw, err
}

func (l *lock) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, r, true)
}

func (l *lock) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, r, false)
}

func (l *lock) write(ctx context.Context, r resourcelock.LeaderElectionRecord, create bool) error {
	sent := time.Now()
	if err := l.begin(ctx); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case create && l.record != nil:
		return apierrors.NewAlreadyExists(leases, "web")
	case !create && l.record == nil:
		return apierrors.NewNotFound(leases, "web")
	case !create && l.seen != l.version:
		return apierrors.NewConflict(leases, "web", nil)
	}
	l.version++
	l.seen = l.version
	l.record = &r
	l.fault.Lock()
	defer l.fault.Unlock()
	l.ends = time.Time{}
	if r.HolderIdentity == l.identity {
		l.ends = sent.Add(time.Duration(r.LeaseDurationSeconds) * time.Second)
	}
	return nil
}

func (l *lock) RecordEvent(string) {}
func (l *lock) Identity() string   { return l.identity }
func (l *lock) Describe() string   { return "shop/web" }
