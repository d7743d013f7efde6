package tarn_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/console"
	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/controller/leader"
	"github.com/tarnproject/tarn/controller/shard"
	"github.com/tarnproject/tarn/internal/sim/simtest"
	"github.com/tarnproject/tarn/wire"
	"github.com/tarnproject/tarn/workqueue"
)

// replicas are processes with the same controller of ConfigMaps, in a bubble.
type replicas struct {
	t      *testing.T
	server *apiserver.Server

	mu    sync.Mutex // guards owner
	owner map[tarn.Key]string
}

type oneReplica struct {
	*tarn.Cluster
	stop func()
}

func newReplicas(t *testing.T) *replicas {
	r := &replicas{t: t, server: apiserver.Start(t, apiserver.Options{AnyNamespace: true, Seed: 1}), owner: map[tarn.Key]string{}}
	for i := range 40 {
		r.create(fmt.Sprint("ns", i))
	}
	return r
}

func (r *replicas) create(namespace string) {
	r.t.Helper()
	if _, err := r.server.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "m"}}); err != nil {
		r.t.Fatal(err)
	}
}

func (r *replicas) start(name string, opts ...tarn.ConnectOption) *oneReplica {
	r.t.Helper()
	cluster := connect(r.t, append(opts, tarn.WithConfig(r.server.MemoryConfig()), tarn.WithLogger(slog.New(slog.DiscardHandler)))...)
	maps := must(tarn.MirrorOf[*corev1.ConfigMap](cluster))
	must(tarn.NewController(cluster, "c", func(_ context.Context, key tarn.Key) (tarn.Result, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.owner[key] = name
		return tarn.Result{}, nil
	}, tarn.For(maps)))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- cluster.Run(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			r.t.Errorf("%s: %v", name, err)
		}
	})
	r.t.Cleanup(stop)
	return &oneReplica{cluster, stop}
}

// shares returns how many keys each replica has reconciled last, and forgets that.
func (r *replicas) shares() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	shares := map[string]int{}
	for _, name := range r.owner {
		shares[name]++
	}
	clear(r.owner)
	return shares
}

func readyz(c *tarn.Cluster) (int, string) {
	w := httptest.NewRecorder()
	c.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/readyz", nil))
	return w.Code, w.Body.String()
}

func TestShardedClustersShareTheKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReplicas(t)
		sharding := func(name string, weight int) tarn.ConnectOption {
			return tarn.WithSharding("web", shard.Options{Member: name, Weight: weight})
		}
		a := r.start("a", sharding("a", 1))
		<-time.After(time.Second)
		if code, body := readyz(a.Cluster); code != http.StatusServiceUnavailable || !strings.Contains(body, "shards failed") {
			t.Errorf("before the group has begun: %d %s", code, body)
		}
		<-time.After(30 * time.Second)
		if shares := r.shares(); shares["a"] != 40 {
			t.Errorf("alone: %v", shares)
		}
		if code, body := readyz(a.Cluster); code != http.StatusOK {
			t.Errorf("alone: %d %s", code, body)
		}
		b := r.start("b", sharding("b", 3))
		<-time.After(30 * time.Second)
		shares := r.shares() // those of b, because a does not start again
		if shares["b"] < 20 || shares["a"] != 0 {
			t.Errorf("b, with three quarters, has reconciled %v", shares)
		}
		s := b.Status().Shards
		if s == nil || len(s.Members) != 2 || !s.Complete || !s.Active || s.Idle != 0 || s.Imbalance() > 1.5 {
			t.Errorf("the status of b is %+v", s)
		}
		if problems := console.Problems(b.Status()); len(problems) > 0 {
			t.Errorf("problems: %v", problems)
		}
		if got := s.Members[0].Keys + s.Members[1].Keys; s.Keys != shares["b"] || s.Members[1].Keys != s.Keys || got != 40 {
			t.Errorf("b has reconciled %d keys, and its status has %d: %+v", shares["b"], s.Keys, s.Members)
		}
		a.stop()
		<-time.After(time.Second) // without waiting for a lease to expire
		if more := r.shares(); more["b"]+shares["b"] != 40 {
			t.Errorf("b has taken over %v after %v", more, shares)
		}
		r.create("another")
		synctest.Wait()
		if shares := r.shares(); shares["b"] != 1 {
			t.Errorf("a new key: %v", shares)
		}
	})
}

func TestAControllerThatIsAddedLaterIsShardedToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReplicas(t)
		a := r.start("a", tarn.WithSharding("web", shard.Options{}))
		<-time.After(30 * time.Second)
		maps := must(tarn.MirrorOf[*corev1.ConfigMap](a.Cluster))
		var mu sync.Mutex
		seen := map[tarn.Key]bool{}
		must(tarn.NewController(a.Cluster, "late", func(_ context.Context, key tarn.Key) (tarn.Result, error) {
			mu.Lock()
			defer mu.Unlock()
			seen[key] = true
			return tarn.Result{}, nil
		}, tarn.For(maps)))
		_, err := tarn.NewController(a.Cluster, "cannot be agreed on", func(context.Context, tarn.Key) (tarn.Result, error) { return tarn.Result{}, nil },
			tarn.For(maps), tarn.ShardBy("by name", func(key tarn.Key) string { return key.Name }))
		if err == nil || !strings.Contains(err.Error(), "add it before Run") {
			t.Errorf("ShardBy while the cluster runs: %v", err)
		}
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if len(seen) != 40 {
			t.Errorf("%d of 40 keys were reconciled", len(seen))
		}
	})
}

// A reconcile that never returns keeps its slot from this replica after the lease has lapsed, and no
// other slot. Its writes are refused.
func TestAReconcileThatDoesNotEndBlocksItsSlotOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReplicas(t)
		free := make(chan struct{})
		link := simtest.NewLeaseLink(r.server.MemoryConfig(), "a")
		cluster := connect(t, tarn.WithConfig(link.Config(r.server.MemoryConfig())), tarn.WithLogger(slog.New(slog.DiscardHandler)),
			tarn.WithSharding("web", shard.Options{Member: "a"}))
		maps := must(tarn.MirrorOf[*corev1.ConfigMap](cluster))
		var mu sync.Mutex
		var stuck context.Context
		seen := map[string]bool{}
		must(tarn.NewController(cluster, "c", func(ctx context.Context, key tarn.Key) (tarn.Result, error) {
			mu.Lock()
			again := stuck != nil
			if key.Namespace == "ns1" && !again {
				stuck = ctx
			}
			seen[key.Namespace] = true
			mu.Unlock()
			if key.Namespace == "ns1" && !again {
				<-free
			}
			return tarn.Result{}, nil
		}, tarn.For(maps), tarn.Workers(2)))
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- cluster.Run(ctx) }()
		t.Cleanup(func() { cancel(); <-done })
		<-time.After(time.Minute)
		link.Set(true, 0)
		r.server.Cut("leases")
		<-time.After(15 * time.Second)
		link.Set(false, 0)
		<-time.After(time.Minute)

		slot := shard.ByNamespace(key("ns1", "m"))
		s := cluster.Status()
		if s.Shards.Idle != 1 || len(s.Shards.Slots) != shard.Slots-1 || len(s.Shards.Stuck) != 1 || s.Shards.Stuck[0].String() != slot {
			t.Errorf("the status is %+v", s.Shards)
		}
		what := ""
		for _, p := range console.Problems(s) {
			what += p.What
		}
		if !strings.Contains(what, "Reconciles in 1 slot have not ended since the lease of this process lapsed, such as that of ns1/m by the controller c") {
			t.Errorf("the problems are %q", what)
		}
		mu.Lock()
		clear(seen)
		mu.Unlock()
		r.create("another")
		synctest.Wait()
		mu.Lock()
		if !seen["another"] || seen["ns1"] {
			t.Errorf("reconciled: %v", seen)
		}
		mu.Unlock()

		// Another replica takes the slot; the fence of the reconcile stays closed.
		b := r.start("b", tarn.WithSharding("web", shard.Options{Member: "b"}))
		<-time.After(time.Minute)
		if s := b.Status().Shards; s.Idle != 0 || !slices.ContainsFunc(s.Slots, func(own shard.Slot) bool { return own.String() == slot }) {
			t.Errorf("b, next to a stuck reconcile: %+v", s)
		}
		if err := controller.MayWrite(stuck); !errors.Is(err, controller.ErrNotLeading) {
			t.Errorf("a write of the stuck reconcile: %v", err)
		}
		b.stop()
		<-time.After(time.Minute)
		if err := controller.MayWrite(stuck); !errors.Is(err, controller.ErrNotLeading) {
			t.Errorf("a write of the stuck reconcile: %v", err)
		}
		close(free)
		<-time.After(time.Minute)
		if s := cluster.Status().Shards; len(s.Slots) != shard.Slots || len(s.Stuck) > 0 || !seen["ns1"] {
			t.Errorf("after it has ended: %+v", s)
		}
	})
}

func TestShardingExcludesWhatContradictsIt(t *testing.T) {
	config := tarn.WithConfig(demoConfig)
	if _, err := tarn.Connect(config, tarn.WithSharding("web", shard.Options{}), tarn.WithLeaderElection("web", leader.Options{})); err == nil || !strings.Contains(err.Error(), "use only one") {
		t.Errorf("with leader election: %v", err)
	}
	if _, err := tarn.Connect(config, tarn.WithSharding("not a label", shard.Options{})); err == nil {
		t.Error("an invalid name was accepted")
	}
	cluster := connect(t, config, tarn.WithSharding("web", shard.Options{}))
	maps := must(tarn.MirrorOf[*corev1.ConfigMap](cluster))
	none := func(context.Context, tarn.Key) (tarn.Result, error) { return tarn.Result{}, nil }
	_, err := tarn.NewController(cluster, "c", none, tarn.For(maps), tarn.WithControllerOptions(controller.Options[tarn.Key]{
		Queue: workqueue.Options[tarn.Key]{Group: func(tarn.Key) string { return "" }},
	}))
	if err == nil || !strings.Contains(err.Error(), "ShardBy") {
		t.Errorf("with another group: %v", err)
	}
	fleet := tarn.NewFleet()
	must(tarn.NewFleetController(fleet, "f", func(m *tarn.Member) error {
		return m.Reconcile(none, tarn.For(must(tarn.MirrorOf[*corev1.ConfigMap](m.Cluster))))
	}))
	if err := fleet.Add("one", connect(t, config, tarn.WithSharding("web", shard.Options{}))); err == nil || !strings.Contains(err.Error(), "WithSharding") {
		t.Errorf("in a fleet: %v", err)
	}
}

func TestTheRolesOfAShardedClusterIncludeTheLeases(t *testing.T) {
	cluster := connect(t, tarn.WithConfig(demoConfig), tarn.WithNamespace("shop"), tarn.WithSharding("web", shard.Options{}))
	rules := cluster.RBAC().Namespaces["shop"]
	if len(rules) != 1 || !slices.Equal(rules[0].Resources, []string{"leases"}) ||
		!slices.Equal(rules[0].Verbs, []string{"get", "list", "watch", "create", "update", "delete"}) {
		t.Errorf("the rules are %v", rules)
	}
}

// With leader election, the other replicas keep their mirrors synced: a new leader sends no list and
// opens no watch.
func TestANewLeaderHasAWarmCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReplicas(t)
		var mu sync.Mutex
		reads := 0
		count := func(ctx context.Context, start wire.AttemptStart) (context.Context, func(wire.AttemptEnd)) {
			mu.Lock()
			defer mu.Unlock()
			if start.Call.Resource.Resource == "configmaps" {
				reads++
			}
			return ctx, func(wire.AttemptEnd) {}
		}
		a := r.start("a", tarn.WithLeaderElection("web", leader.Options{}))
		<-time.After(5 * time.Second)
		b := r.start("b", tarn.WithLeaderElection("web", leader.Options{}), tarn.WithObservers(nil, count))
		<-time.After(5 * time.Second)
		if shares := r.shares(); shares["a"] != 40 || !b.Status().Synced() {
			t.Errorf("a leads: %v; b is synced: %v", shares, b.Status().Synced())
		}
		mu.Lock()
		before := reads
		mu.Unlock()
		a.stop()
		<-time.After(10 * time.Second)
		if shares := r.shares(); shares["b"] != 40 {
			t.Errorf("b leads: %v", shares)
		}
		mu.Lock()
		defer mu.Unlock()
		if reads != before || before == 0 {
			t.Errorf("%d requests before the failover, and %d after it", before, reads)
		}
	})
}

// A name from an environment variable that is not set must not turn sharding or election off.
func TestSharingTheWorkNeedsAName(t *testing.T) {
	for _, opt := range []tarn.ConnectOption{tarn.WithSharding("", shard.Options{}), tarn.WithLeaderElection("", leader.Options{})} {
		if _, err := tarn.Connect(tarn.WithConfig(&rest.Config{Host: "http://localhost"}), opt); err == nil || !strings.Contains(err.Error(), "need a name") {
			t.Errorf("Connect returned %v", err)
		}
	}
}
