package shard_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/controller/shard"
	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
)

func leaseOf(t *testing.T, server *apiserver.Server, name string) *coordinationv1.Lease {
	t.Helper()
	obj, err := server.Get(coordinationv1.SchemeGroupVersion.WithResource("leases"), object.Key{Namespace: web.Namespace, Name: web.Name + name})
	if err != nil {
		t.Fatal(err)
	}
	return obj.(*coordinationv1.Lease).DeepCopy()
}

// Whatever a person does to the leases, the group works again on all slots, with all members.
func TestTheGroupRepairsItsLeases(t *testing.T) {
	someone := "someone"
	for name, damage := range map[string]func(l *coordinationv1.Lease){
		"no label":          func(l *coordinationv1.Lease) { l.Labels = nil },
		"no annotations":    func(l *coordinationv1.Lease) { l.Annotations = nil },
		"another holder":    func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = &someone },
		"no holder":         func(l *coordinationv1.Lease) { l.Spec = coordinationv1.LeaseSpec{} },
		"invalid":           func(l *coordinationv1.Lease) { l.Annotations = map[string]string{"tarn.dev/shard-slots": "0-3 x"} },
		"no rules":          func(l *coordinationv1.Lease) { delete(l.Annotations, "tarn.dev/shard-rules") },
		"other rules":       func(l *coordinationv1.Lease) { l.Annotations["tarn.dev/shard-rules"] = "those of no member" },
		"everything is bad": func(l *coordinationv1.Lease) { l.Labels, l.Annotations, l.Spec = nil, nil, coordinationv1.LeaseSpec{} },
	} {
		for _, which := range []string{"member", "assignment"} {
			t.Run(which+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					server, l := apiserver.Start(t, apiserver.Options{}), newLedger(t)
					a := join(t, server, l, "a", 0, shard.Options{})
					b := join(t, server, l, "b", 0, shard.Options{})
					<-time.After(time.Minute)
					target := ".slots"
					if which == "member" {
						target = "-" + a.Status().Member
					}
					lease := leaseOf(t, server, target)
					damage(lease)
					lease.ResourceVersion = "" // whatever it is by now
					if _, err := server.Update(lease); err != nil {
						t.Fatal(err)
					}
					<-time.After(2 * time.Minute)
					l.expect(shard.Slots)
					if len(a.Status().Slots) == 0 || len(b.Status().Slots) == 0 {
						t.Errorf("a has %d and b %d slots", len(a.Status().Slots), len(b.Status().Slots))
					}
				})
			})
		}
	}
}

func TestTheLeaseOfACrashedMemberIsDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, l := apiserver.Start(t, apiserver.Options{}), newLedger(t)
		join(t, server, l, "a", 0, shard.Options{})
		b := join(t, server, l, "b", 0, shard.Options{})
		<-time.After(time.Minute)
		lease := object.Key{Namespace: web.Namespace, Name: web.Name + "-" + b.Status().Member}
		b.link.Set(true, 0)
		<-time.After(7 * time.Minute)
		if _, err := server.Get(coordinationv1.SchemeGroupVersion.WithResource("leases"), lease); !apierrors.IsNotFound(err) {
			t.Errorf("the lease %s exists: %v", lease, err)
		}
		b.link.Set(false, 0)
		<-time.After(time.Minute)
		l.expect(shard.Slots)
		if len(b.Status().Slots) == 0 {
			t.Error("a member that came back got no slots")
		}
	})
}

// A crashed member with a long lease keeps its slots for that long, whatever the others have.
func TestTheLongestLeaseDurationCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, l := apiserver.Start(t, apiserver.Options{}), newLedger(t)
		a := join(t, server, l, "a", 0, shard.Options{LeaseDuration: time.Minute})
		join(t, server, l, "b", 0, shard.Options{})
		<-time.After(3 * time.Minute)
		a.link.Set(true, 0)
		if err := server.Delete(leaseOf(t, server, "-"+a.Status().Member)); err != nil { // its duration is known nevertheless
			t.Fatal(err)
		}
		<-time.After(18 * time.Second) // renewed every 20 seconds, it lapses 40 seconds after that
		if !a.Status().Active {
			t.Error("a lapsed before its time")
		}
		<-time.After(2 * time.Minute)
		l.expect(shard.Slots)
	})
}

// cache is a cache that is live and has versions as a test says.
type cache struct {
	mu      sync.Mutex
	status  reflector.Status // Watching if its State is zero
	waiting []object.Version
	reached chan struct{}
}

func (c *cache) Name() string { return "maps" }

func (c *cache) Wake() {}

func (c *cache) Shard() object.Shard { return object.Shard{} }

func (c *cache) set(status reflector.Status) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.status = status
}

func (c *cache) Sources() []informer.SourceStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.status.State == reflector.Idle {
		return []informer.SourceStatus{{Listed: true, Reflector: reflector.Status{State: reflector.Watching, Connected: true}}}
	}
	return []informer.SourceStatus{{Listed: true, Reflector: c.status}}
}

func (c *cache) WaitForKey(ctx context.Context, _ object.Key, version object.Version) error {
	c.mu.Lock()
	c.waiting = append(c.waiting, version)
	c.mu.Unlock()
	select {
	case <-c.reached:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *cache) of() []shard.Cache { return []shard.Cache{c} }

func TestAMemberWhoseCacheIsStaleHandsItsSlotsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, l := apiserver.Start(t, apiserver.Options{}), newLedger(t)
		c := &cache{}
		a := join(t, server, l, "a", 0, shard.Options{Caches: c.of})
		b := join(t, server, l, "b", 0, shard.Options{})
		<-time.After(time.Minute)
		had := len(a.Status().Slots)
		c.set(reflector.Status{State: reflector.Watching}) // not connected
		<-time.After(10 * time.Second)                     // an interruption moves nothing
		if got := len(a.Status().Slots); got != had || had == 0 {
			t.Errorf("a has %d slots, and had %d", got, had)
		}
		<-time.After(30 * time.Second)
		if a, b := len(a.Status().Slots), len(b.Status().Slots); a != 0 || b != shard.Slots {
			t.Errorf("a has %d slots and b %d", a, b)
		}
		l.expect(shard.Slots)
		c.set(reflector.Status{})
		<-time.After(30 * time.Second)
		if got := len(a.Status().Slots); got != had {
			t.Errorf("a has %d slots again, and had %d", got, had)
		}
		l.expect(shard.Slots)
	})
}

// A cache whose shard grows is current except for what is new, however long that takes to list. If the
// server no longer has the version of the rest, all of the shard is listed.
func TestAMemberWhoseCacheGrowsKeepsItsSlots(t *testing.T) {
	expired := &reflector.Error{Reason: reflector.Expired, Err: apierrors.NewResourceExpired("too old")}
	growing := reflector.Status{State: reflector.Listing, Synced: true, Shard: object.Part(object.ByNamespace, 0, 2)}
	for name, c := range map[string]struct {
		cause error
		until time.Time // of a back-off
		shard object.Shard
		keeps bool
	}{
		"listing what is new":             {shard: growing.Shard, keeps: true},
		"listing all":                     {shard: growing.Shard, cause: expired, keeps: true},
		"backing off":                     {shard: growing.Shard, cause: expired, until: time.Now(), keeps: false},
		"listing after another failure":   {shard: growing.Shard, cause: errors.New("forbidden"), keeps: false},
		"listing again, without new ones": {cause: expired, keeps: false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, l, maps := apiserver.Start(t, apiserver.Options{}), newLedger(t), &cache{}
				a := join(t, server, l, "a", 0, shard.Options{Caches: maps.of})
				join(t, server, l, "b", 0, shard.Options{})
				<-time.After(time.Minute)
				status := growing
				status.Cause, status.Until, status.Shard = c.cause, c.until, c.shard
				maps.set(status)
				<-time.After(time.Minute)
				if n := len(a.Status().Slots); n > 0 != c.keeps {
					t.Errorf("it has %d slots", n)
				}
			})
		})
	}
}

func TestP03_ANewOwnerWaitsUntilItsCacheHasTheWritesOfTheOldOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, l := apiserver.Start(t, apiserver.Options{}), newLedger(t)
		l.wrote = "100"
		join(t, server, l, "a", 0, shard.Options{})
		<-time.After(time.Minute)
		c := &cache{reached: make(chan struct{})}
		b := join(t, server, l, "b", 0, shard.Options{Caches: c.of})
		<-time.After(10 * time.Second)
		share := len(b.Status().Slots)
		if share == 0 {
			t.Fatal("b has no slots")
		}
		l.expect(shard.Slots - share)
		if len(c.waiting) != share || slices.ContainsFunc(c.waiting, func(v object.Version) bool { return v != "100" }) {
			t.Errorf("b, with %d slots, waits for %q", share, c.waiting)
		}
		close(c.reached)
		synctest.Wait()
		l.expect(shard.Slots)
	})
}

// A version that never comes, as after a restore of etcd, does not stop the work.
func TestANewOwnerDoesNotWaitForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, l := apiserver.Start(t, apiserver.Options{}), newLedger(t)
		l.wrote = "100"
		join(t, server, l, "a", 0, shard.Options{})
		<-time.After(time.Minute)
		join(t, server, l, "b", 0, shard.Options{Caches: (&cache{}).of})
		<-time.After(time.Minute)
		l.expect(shard.Slots)
	})
}

// Slots whose work has not ended are not given to others before the lease has expired, and shutdown
// does not wait for them.
func TestShutdownWithWorkThatHasNotEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, l := apiserver.Start(t, apiserver.Options{}), newLedger(t)
		g, err := shard.New(newClient(t, server), web, shard.Options{Member: "a"})
		if err != nil {
			t.Fatal(err)
		}
		stuck := errors.New("it still runs")
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() {
			done <- g.Run(ctx, func(ctx context.Context, slot string, _ controller.Fence) error {
				<-ctx.Done()
				if slot == "7" {
					return stuck
				}
				return nil
			})
		}()
		<-time.After(30 * time.Second)
		join(t, server, l, "b", 0, shard.Options{})
		<-time.After(10 * time.Second) // b has joined and got nothing
		began := time.Now()
		cancel()
		if err := <-done; !errors.Is(err, stuck) {
			t.Errorf("Run returned %v", err)
		}
		if took := time.Since(began); took > 15*time.Second {
			t.Errorf("shutdown took %v", took)
		}
		<-time.After(time.Second)
		l.expect(shard.Slots - 1)
		<-time.After(30 * time.Second)
		l.expect(shard.Slots)
	})
}

func TestTheLastMemberLeavesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, l := apiserver.Start(t, apiserver.Options{}), newLedger(t)
		a := join(t, server, l, "a", 0, shard.Options{})
		<-time.After(time.Minute)
		began := time.Now()
		if err := a.stop(); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("leaving took %v", took)
		}
	})
}

// Metrics are collected before a member has seen the group, or while it may not list leases.
func TestTheStatusBeforeTheFirstView(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apiserver.Start(t, apiserver.Options{})
		g, err := shard.New(newClient(t, server), web, shard.Options{Member: "a"})
		if err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Minute)
		if s := g.Status(); s.Idle != shard.Slots || s.IdleTime != 0 {
			t.Errorf("the status is %+v", s)
		}
		if g.Ready() == nil {
			t.Error("a member that has not joined is ready")
		}
		if _, err := server.Inject(apiserver.Fault{Kind: apiserver.Refuse}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- g.Run(ctx, nil) }()
		<-time.After(time.Minute)
		if err := g.Ready(); err == nil || !strings.Contains(err.Error(), "leases of group default/web") {
			t.Errorf("without a list of leases: %v", err)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
