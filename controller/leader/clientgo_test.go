package leader_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"

	"github.com/tarnproject/tarn/controller/leader"
	"github.com/tarnproject/tarn/internal/sim/simtest"
)

// upstream is a process with client-go's elector.
type upstream struct {
	link    *simtest.LeaseLink
	leading atomic.Bool
	stop    func()
}

func startUpstream(t *testing.T, s *server, name string) *upstream {
	t.Helper()
	u := &upstream{link: s.link(name)}
	clients, err := kubernetes.NewForConfig(u.link.Config(s.MemoryConfig()))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), logr.Discard()))
	var done sync.WaitGroup
	done.Go(func() {
		for ctx.Err() == nil {
			le, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
				Lock: &resourcelock.LeaseLock{
					LeaseMeta: metav1.ObjectMeta{Namespace: web.Namespace, Name: web.Name}, Client: clients.CoordinationV1(),
					LockConfig: resourcelock.ResourceLockConfig{Identity: name},
				},
				LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second, ReleaseOnCancel: true,
				Callbacks: leaderelection.LeaderCallbacks{
					OnStartedLeading: func(ctx context.Context) {
						u.leading.Store(true)
						<-ctx.Done()
						u.leading.Store(false)
					},
					OnStoppedLeading: func() {},
				},
			})
			if err != nil {
				t.Error(err)
				return
			}
			le.Run(ctx)
		}
	})
	u.stop = sync.OnceFunc(func() {
		cancel()
		done.Wait()
	})
	t.Cleanup(u.stop)
	return u
}

// Processes with client-go's elector and with this one hand the lease over in both directions, and
// never lead at the same time.
func TestClientGosElectorsCompeteForTheSameLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		ours := campaign(t, s, "ours", 0, leader.Options{})
		synctest.Wait()
		theirs := startUpstream(t, s, "theirs")
		// until waits until only one leads, and checks all the time that not both do.
		until := func(what string, limit time.Duration, ourTurn bool) {
			t.Helper()
			for begin := time.Now(); ours.leads() != ourTurn || theirs.leading.Load() == ourTurn; {
				simtest.Advance(100 * time.Millisecond)
				if ours.leads() && theirs.leading.Load() {
					t.Fatalf("%s: both lead", what)
				}
				if time.Since(begin) > limit {
					t.Fatalf("%s: no handover: ours %v, theirs %v, holder %q", what, ours.leads(), theirs.leading.Load(), s.holder())
				}
			}
		}
		const lost = 30 * time.Second // lease duration, retries and a renewal
		for range 5 {
			until("ours leads", lost, true)
			simtest.Advance(time.Minute)
			until("ours still leads", 0, true)
			ours.link.Set(true, 0)
			until("theirs takes over", lost, false)
			ours.link.Set(false, 0)
			simtest.Advance(time.Minute)
			until("theirs still leads", 0, false)
			theirs.link.Set(true, 0)
			until("ours takes over", lost, true)
			theirs.link.Set(false, 0)
		}
		if n := *s.lease().Spec.LeaseTransitions; n != 10 {
			t.Errorf("%d transitions; want 10", n)
		}
		const released = 5 * time.Second // one retry
		go func() { _ = ours.stop() }()
		until("ours releases", released, false)
		ours = campaign(t, s, "ours", 0, leader.Options{})
		simtest.Advance(time.Minute)
		go theirs.stop()
		until("theirs releases", released, true)
	})
}
