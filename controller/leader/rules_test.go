package leader_test

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/controller/leader"
	"github.com/tarnproject/tarn/internal/sim/simtest"
)

func ptr[T any](v T) *T { return &v }

// held makes the lease another process's, renewed at a time by that process's clock.
func held(s *server, at time.Time) *coordinationv1.Lease {
	s.t.Helper()
	obj, err := s.Create(&coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: web.Namespace, Name: web.Name},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr("other"), LeaseDurationSeconds: ptr(int32(20)), LeaseTransitions: ptr(int32(3)),
			AcquireTime: &metav1.MicroTime{Time: at}, RenewTime: &metav1.MicroTime{Time: at},
		},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return obj.(*coordinationv1.Lease)
}

// The times in the lease are another machine's. What counts is how long the record has not
// changed, as seen from here.
func TestALeaseExpiresWhenItHasNotChangedForItsDuration(t *testing.T) {
	for name, skew := range map[string]time.Duration{"past": -time.Hour, "future": time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t)
				held(s, time.Now().Add(skew))
				c := campaign(t, s, "a", 0, leader.Options{})
				simtest.Advance(19 * time.Second)
				s.edit(func(l *coordinationv1.Lease) { // renewed
					l.Spec.RenewTime = &metav1.MicroTime{Time: l.Spec.RenewTime.Add(time.Microsecond)}
				})
				simtest.Advance(10 * time.Second)
				s.edit(func(l *coordinationv1.Lease) { l.Labels = map[string]string{"a": "b"} }) // not renewed
				simtest.Advance(9 * time.Second)
				if c.leads() || s.holder() != "other" {
					t.Errorf("the lease is %q's less than 20 s after it was renewed", s.holder())
				}
				simtest.Advance(11 * time.Second)
				l := s.lease()
				if !c.leads() || *l.Spec.HolderIdentity != "a" || *l.Spec.LeaseTransitions != 4 || *l.Spec.LeaseDurationSeconds != 15 || l.Labels["a"] != "b" {
					t.Errorf("not acquired: %+v", l)
				}
				if l.Spec.AcquireTime.After(l.Spec.RenewTime.Time) || time.Since(l.Spec.RenewTime.Time) > 3*time.Second {
					t.Errorf("acquired at %v, renewed at %v; it is %v", l.Spec.AcquireTime, l.Spec.RenewTime, time.Now())
				}
			})
		})
	}
}

func TestARenewalIsOneRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		c := campaign(t, s, "a", 0, leader.Options{})
		synctest.Wait()
		first := s.lease()
		if got := c.link.Requests(); !slices.Equal(got, []string{http.MethodGet, http.MethodPost}) {
			t.Errorf("acquired with %q", got)
		}
		simtest.Advance(21 * time.Second)
		if got := c.link.Requests(); len(got) != 10 || slices.ContainsFunc(got, func(m string) bool { return m != http.MethodPut }) {
			t.Errorf("ten renewals with %q", got)
		}
		s.edit(func(l *coordinationv1.Lease) { l.Labels = map[string]string{"a": "b"} }) // makes the next renewal a conflict
		simtest.Advance(2 * time.Second)
		if got := c.link.Requests(); !slices.Equal(got, []string{http.MethodPut, http.MethodGet, http.MethodPut}) || !c.leads() || c.terms != 1 {
			t.Errorf("renewed after a conflict with %q, leads %v, terms %d", got, c.leads(), c.terms)
		}
		l := s.lease()
		if !l.Spec.AcquireTime.Equal(first.Spec.AcquireTime) || l.Spec.RenewTime.Sub(first.Spec.RenewTime.Time) < 20*time.Second || *l.Spec.LeaseTransitions != 0 {
			t.Errorf("%+v", l.Spec)
		}
	})
}

// Each change means that another process may have led, so the term ends, even if the lease is
// free again.
func TestATermEndsWhenTheLeaseWasAnothers(t *testing.T) {
	for name, change := range map[string]func(s *server){
		"deleted": func(s *server) {
			if err := s.Delete(s.lease()); err != nil {
				s.t.Fatal(err)
			}
		},
		"released": func(s *server) {
			s.edit(func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = nil })
		},
		"acquired again under the same name": func(s *server) {
			s.edit(func(l *coordinationv1.Lease) { l.Spec.LeaseTransitions = ptr(*l.Spec.LeaseTransitions + 2) })
		},
		"another's": func(s *server) {
			s.edit(func(l *coordinationv1.Lease) {
				l.Spec.HolderIdentity, l.Spec.LeaseTransitions = ptr("other"), ptr(*l.Spec.LeaseTransitions+1)
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t)
				c := campaign(t, s, "a", 0, leader.Options{})
				simtest.Advance(time.Minute)
				fence := c.fence
				change(s)
				simtest.Advance(2 * time.Second) // the next renewal
				if fence.Check() == nil {
					t.Error("the fence is open")
				}
				select {
				case <-fence.Lost():
				default:
					t.Error("the fence is not lost")
				}
				simtest.Advance(time.Minute)
				if !c.leads() || c.terms != 2 || c.Status().Terms != 2 || fence.Check() == nil {
					t.Errorf("leads %v in term %d; want a second term", c.leads(), c.terms)
				}
			})
		})
	}
}

// Of two processes that take an expired lease at the same time one gets a conflict.
func TestOnlyOneOfTwoWritesWins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		held(s, time.Now())
		s.edit(func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = nil })
		// Both read the lease, then both write it.
		if _, err := s.Inject(apiserver.Fault{Kind: apiserver.Latency, Verb: "update", Wait: time.Second, Times: 2}); err != nil {
			t.Fatal(err)
		}
		a, b := campaign(t, s, "a", 0, leader.Options{}), campaign(t, s, "b", 0, leader.Options{})
		simtest.Advance(time.Second)
		if a.leads() == b.leads() {
			t.Errorf("a leads: %v, b leads: %v", a.leads(), b.leads())
		}
	})
}

// The server stores a write whose response the process does not wait for.
func TestALeaseAcquiredAtTheLastMomentIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		link := s.link("a")
		e, err := leader.New(link.Client(s.MemoryConfig()), web, leader.Options{Identity: "a"})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		link.Set(false, 2*time.Second)
		done := make(chan error)
		go func() {
			done <- e.Run(ctx, func(context.Context, controller.Fence) error {
				t.Error("it leads")
				return nil
			})
		}()
		<-time.After(3 * time.Second) // the create is on its way
		cancel()
		if err := <-done; err != nil || s.lease() == nil || s.holder() != "" || e.Status().Leading || e.Status().Terms != 0 {
			t.Errorf("%v; the lease is %+v", err, s.lease())
		}
	})
}

// Candidates that started together do not stay together.
func TestACandidateRetriesWithJitter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		campaign(t, s, "a", 0, leader.Options{})
		synctest.Wait()
		b := campaign(t, s, "b", 0, leader.Options{})
		simtest.Advance(time.Hour)
		// Every 2 to 4.4 seconds, every 3.2 on average.
		if n := len(b.link.Requests()); n < 1000 || n > 1250 {
			t.Errorf("%d requests in an hour; want about 1125", n)
		}
	})
}
