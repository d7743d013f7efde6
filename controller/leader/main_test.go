package leader_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/controller/leader"
	"github.com/tarnproject/tarn/internal/sim/simtest"
	"github.com/tarnproject/tarn/object"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var web = object.Key{Namespace: "default", Name: "web"}

// server is an embedded API server with the lease.
type server struct {
	*apiserver.Server
	t *testing.T
}

func newServer(t *testing.T) *server {
	t.Helper()
	return &server{apiserver.Start(t, apiserver.Options{}), t}
}

// lease returns the lease, or nil if there is none.
func (s *server) lease() *coordinationv1.Lease {
	s.t.Helper()
	obj, err := s.Get(coordinationv1.SchemeGroupVersion.WithResource("leases"), web)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return obj.(*coordinationv1.Lease)
}

func (s *server) holder() string {
	s.t.Helper()
	if l := s.lease(); l != nil && l.Spec.HolderIdentity != nil {
		return *l.Spec.HolderIdentity
	}
	return ""
}

// edit changes the lease as a user does.
func (s *server) edit(change func(*coordinationv1.Lease)) {
	s.t.Helper()
	l := s.lease().DeepCopy()
	change(l)
	if _, err := s.Update(l); err != nil {
		s.t.Fatal(err)
	}
}

func (s *server) link(name string) *simtest.LeaseLink {
	return simtest.NewLeaseLink(s.MemoryConfig(), name)
}

// candidate is a process that runs for leadership.
type candidate struct {
	*leader.Elector
	link *simtest.LeaseLink
	stop func() error

	mu    sync.Mutex
	fence controller.Fence // while it leads
	terms int
}

// campaign starts a candidate whose work takes some time to stop.
func campaign(t *testing.T, s *server, name string, drain time.Duration, opts leader.Options) *candidate {
	t.Helper()
	c := &candidate{link: s.link(name)}
	opts.Identity = name
	e, err := leader.New(c.link.Client(s.MemoryConfig()), web, opts)
	if err != nil {
		t.Fatal(err)
	}
	c.Elector = e
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- e.Run(ctx, func(ctx context.Context, f controller.Fence) error {
			c.mu.Lock()
			c.fence = f
			c.terms++
			c.mu.Unlock()
			<-ctx.Done()
			<-time.After(drain)
			c.mu.Lock()
			c.fence = nil
			c.mu.Unlock()
			return nil
		})
	}()
	c.stop = sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	t.Cleanup(func() { _ = c.stop() })
	return c
}

// leads reports whether the candidate is working with an open fence.
func (c *candidate) leads() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.fence != nil && c.fence.Check() == nil
}
