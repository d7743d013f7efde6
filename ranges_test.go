package tarn_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/controller/shard"
	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/internal/sim/simtest"
	"github.com/tarnproject/tarn/internal/soak"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire"
)

// divided are replicas with Ranges, whose controller copies data["n"] of ConfigMaps to data["seen"].
type divided struct {
	t          *testing.T
	rng        *rand.Rand
	server     *apiserver.Server
	namespaces []string
	replicas   []*dividedReplica

	mu   sync.Mutex // guards busy
	busy map[tarn.Key]string
}

type dividedReplica struct {
	*tarn.Cluster
	name    string
	maps    *tarn.Mirror[*corev1.ConfigMap]
	whole   *tarn.Mirror[*corev1.ConfigMap]
	link    *simtest.LeaseLink
	stop    func()
	stopped bool
}

func newDivided(t *testing.T, seed uint64) *divided {
	d := &divided{
		t: t, rng: rand.New(rand.NewPCG(seed, 8)), busy: map[tarn.Key]string{},
		server: apiserver.Start(t, apiserver.Options{AnyNamespace: true, Seed: seed + 1, NoSharding: seed%2 == 0}),
	}
	for range 40 {
		d.namespaces = append(d.namespaces, fmt.Sprintf("%08x-team", d.rng.Uint32()))
	}
	return d
}

func (d *divided) start() *dividedReplica {
	d.t.Helper()
	name := fmt.Sprint("r", len(d.replicas))
	r := &dividedReplica{name: name, link: simtest.NewLeaseLink(d.server.MemoryConfig(), name)}
	r.Cluster = connect(d.t, tarn.WithConfig(r.link.Config(d.server.MemoryConfig())), tarn.WithLogger(slog.New(slog.DiscardHandler)),
		tarn.WithSharding("web", shard.Options{Member: name, Ranges: true}))
	r.maps = must(tarn.MirrorOf[*corev1.ConfigMap](r.Cluster))
	r.whole = must(tarn.MirrorOf[*corev1.ConfigMap](r.Cluster, tarn.Unsharded(), tarn.Compact()))
	client := r.maps.Client()
	must(tarn.NewController(r.Cluster, "c", func(ctx context.Context, key tarn.Key) (tarn.Result, error) {
		d.mu.Lock()
		if other := d.busy[key]; other != "" {
			d.t.Errorf("%s reconciles %s while %s does", name, key, other)
		}
		d.busy[key] = name
		d.mu.Unlock()
		defer func() {
			d.mu.Lock()
			defer d.mu.Unlock()
			delete(d.busy, key)
		}()
		if !r.maps.Informer().Shard().Contains("", key.Namespace) {
			d.t.Errorf("%s reconciles %s, which it does not mirror", name, key)
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return tarn.Result{}, context.Cause(ctx)
		}
		m, err := client.Get(ctx, key)
		if err != nil {
			return tarn.Result{}, tarn.IgnoreNotFound(err)
		}
		if m.Data["seen"] != m.Data["n"] {
			m.Data["seen"] = m.Data["n"]
			_, err = client.Update(ctx, m)
		}
		return tarn.Result{}, err
	}, tarn.For(r.maps), tarn.Workers(4)))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	r.stop = sync.OnceFunc(func() {
		r.stopped = true
		cancel()
		if err := <-done; err != nil {
			d.t.Errorf("%s: %v", name, err)
		}
	})
	d.t.Cleanup(r.stop)
	d.replicas = append(d.replicas, r)
	return r
}

func (d *divided) write(n int) {
	d.t.Helper()
	obj := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: d.namespaces[d.rng.IntN(len(d.namespaces))], Name: fmt.Sprint("m", d.rng.IntN(3))},
		Data:       map[string]string{"n": fmt.Sprint(n)},
	}
	var err error
	if d.rng.IntN(6) == 0 {
		err = d.server.Delete(obj)
	} else if _, err = d.server.Update(obj); apierrors.IsNotFound(err) {
		_, err = d.server.Create(obj)
	}
	if err != nil && !apierrors.IsNotFound(err) {
		d.t.Fatal(err)
	}
}

// settled checks that the replicas that run share all slots, that each mirrors the objects of its own,
// and that every object was reconciled.
func (d *divided) settled() {
	d.t.Helper()
	objects := map[tarn.Key]object.Version{}
	for i := range 3 * len(d.namespaces) {
		k := key(d.namespaces[i/3], fmt.Sprint("m", i%3))
		obj, err := d.server.Get(corev1.SchemeGroupVersion.WithResource("configmaps"), k)
		if apierrors.IsNotFound(err) {
			continue
		}
		m := obj.(*corev1.ConfigMap)
		objects[k] = object.Version(m.ResourceVersion)
		if m.Data["seen"] != m.Data["n"] {
			d.t.Errorf("%s: %v was not reconciled", k, m.Data)
		}
	}
	slots := 0
	for _, r := range d.replicas {
		if r.stopped {
			continue
		}
		own := r.Status().Shards.Slots
		slots += len(own)
		want := map[tarn.Key]object.Version{}
		for k, version := range objects {
			if slices.Contains(own, shard.SlotOf(k.Namespace)) {
				want[k] = version
			}
		}
		simtest.Want(d.t, r.name+" mirrors", versionsOf(r.maps), want)
		simtest.Want(d.t, r.name+" mirrors, unsharded", versionsOf(r.whole), objects)
	}
	if slots != shard.Slots {
		d.t.Errorf("%d of %d slots are worked on", slots, shard.Slots)
	}
}

func versionsOf(m *tarn.Mirror[*corev1.ConfigMap]) map[tarn.Key]object.Version {
	all := map[tarn.Key]object.Version{}
	m.View(func(snap tarn.Snapshot[*corev1.ConfigMap]) {
		for obj := range snap.All() {
			all[key(obj.Namespace, obj.Name)] = object.Version(obj.ResourceVersion)
		}
	})
	return all
}

// Replicas join, leave, crash and lose their connections while objects change. No key is reconciled by
// two of them at once, each mirrors the objects of its own slots, and every object is reconciled. Every
// second seed has a server that does not shard.
func TestP01_P02_ReplicasMirrorTheirOwnRanges(t *testing.T) {
	for seed := range uint64(soak.Rounds(12)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDivided(t, seed)
				for range 5 {
					d.start()
				}
				for round := range 2 {
					for i := range 60 {
						<-time.After(time.Duration(d.rng.IntN(1500)) * time.Millisecond)
						d.write(1000*round + i)
						r := d.replicas[d.rng.IntN(len(d.replicas))]
						switch d.rng.IntN(30) {
						case 0:
							d.start()
						case 1:
							r.stop()
						case 2:
							r.link.Set(true, 0) // as long as a crash, or shorter
						case 3, 4:
							r.link.Set(false, 0)
						case 5:
							d.server.Cut("configmaps")
						case 6:
							d.server.Compact(d.rng.IntN(3))
						}
					}
					for _, r := range d.replicas {
						r.link.Set(false, 0)
					}
					d.start()
					<-time.After(3 * time.Minute)
					d.settled()
				}
			})
		})
		if t.Failed() {
			return
		}
	}
}

// A hand-over does not wait for writes to other ranges, of which no event arrives.
func TestAHandOverOfRangesTakesSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDivided(t, 1)
		d.start()
		for i := range 100 {
			d.write(i)
		}
		<-time.After(time.Minute)
		d.start()
		<-time.After(time.Minute)
		for i := range 100 {
			d.write(i)
		}
		<-time.After(10 * time.Second)
		d.replicas[0].stop()
		<-time.After(3 * time.Second)
		d.settled()
	})
}

// After an outage of some minutes the mirrors wait long between their retries. They and the leases must
// be current at once, and no replica may mirror the ranges of the others.
func TestP02_P04_RangesAfterAnOutage(t *testing.T) {
	for seed := range uint64(soak.Rounds(4)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDivided(t, seed)
				for range 5 {
					d.start()
					<-time.After(time.Duration(d.rng.IntN(7000)) * time.Millisecond)
				}
				for i := range 200 {
					d.write(i)
				}
				<-time.After(2 * time.Minute)
				had := map[*dividedReplica]int{}
				for _, r := range d.replicas {
					had[r] = r.maps.Len()
					r.link.Set(true, 0)
				}
				d.server.Cut("leases")
				d.server.Cut("configmaps")
				<-time.After(5 * time.Minute)
				for _, r := range d.replicas {
					r.link.Set(false, 0)
				}
				for range 150 { // 15 seconds
					<-time.After(100 * time.Millisecond)
					for _, r := range d.replicas {
						if n := r.maps.Len(); n > had[r] {
							t.Fatalf("%s mirrors %d objects, and %d before the outage", r.name, n, had[r])
						}
					}
				}
				d.settled()
			})
		})
	}
}

func TestClientsReadOtherRangesFromTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDivided(t, 1)
		a := d.start()
		b := d.start()
		for i := range 200 {
			d.write(i)
		}
		<-time.After(2 * time.Minute)
		if a.maps.Name() == a.whole.Name() || a.maps.Len() == 0 || b.maps.Len() == 0 {
			t.Fatalf("%s has %d objects and %s %d", a.maps.Name(), a.maps.Len(), b.maps.Name(), b.maps.Len())
		}
		client := a.maps.Client()
		a.link.Requests()
		for k, version := range versionsOf(a.whole) {
			_, mirrored := a.maps.Get(k)
			m, err := client.Get(t.Context(), k)
			if err != nil || object.Version(m.ResourceVersion) != version {
				t.Errorf("%s, mirrored: %v: got %v", k, mirrored, err)
			}
			_, err = client.Get(t.Context(), key(k.Namespace, "none"))
			if !apierrors.IsNotFound(err) {
				t.Errorf("an object that does not exist: %v", err)
			}
		}
		reads := 0
		for _, method := range a.link.Requests() {
			if method == "GET" {
				reads++
			}
		}
		simtest.Want(t, "requests", reads, 2*b.maps.Len())
	})
}

func TestRangesExcludeWhatContradictsThem(t *testing.T) {
	cluster := connect(t, tarn.WithConfig(demoConfig), tarn.WithSharding("web", shard.Options{Ranges: true}))
	_, err := tarn.MirrorOf[*corev1.ConfigMap](cluster, tarn.InShard(tarn.NewShard(object.Part(object.ByUID, 0, 2))))
	if err == nil || !strings.Contains(err.Error(), "InShard") {
		t.Errorf("with InShard: %v", err)
	}
	maps := must(tarn.MirrorOf[*corev1.ConfigMap](cluster))
	none := func(context.Context, tarn.Key) (tarn.Result, error) { return tarn.Result{}, nil }
	if _, err := tarn.NewController(cluster, "c", none, tarn.For(maps), tarn.ShardBy("by key", shard.ByKey)); err == nil || !strings.Contains(err.Error(), "ShardBy") {
		t.Errorf("with ShardBy: %v", err)
	}
	nodes := must(tarn.MirrorOf[*corev1.Node](cluster))
	simtest.Want(t, "mirrors", []string{maps.Name(), nodes.Name()}, []string{"configmaps of a shard", "nodes"})
}

// With other Ranges a key has another slot, so replicas that differ wait for each other.
func TestP07_ReplicasWithOtherRangesWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDivided(t, 1)
		a := d.start()
		<-time.After(time.Minute)
		ctx, stop := context.WithCancel(t.Context())
		other, done := connect(t, tarn.WithConfig(d.server.MemoryConfig()), tarn.WithSharding("web", shard.Options{})), make(chan error, 1)
		go func() { done <- other.Run(ctx) }()
		<-time.After(time.Minute)
		if s := a.Status().Shards; len(s.Slots) != shard.Slots || len(s.Members) != 2 {
			t.Errorf("the status is %+v", s)
		}
		if s := other.Status().Shards; len(s.Slots) > 0 || s.Cause == nil || !strings.Contains(s.Cause.Error(), "in another way") {
			t.Errorf("the status of the one that waits is %+v", s)
		}
		a.stop()
		<-time.After(5 * time.Second)
		if s := other.Status().Shards; len(s.Slots) != shard.Slots {
			t.Errorf("the status of the one that has waited is %+v", s)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// Controllers that use up the rate limit do not keep a member from renewing its lease.
func TestRenewalsDoNotWaitForTheRateLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReplicas(t)
		a := r.start("a", tarn.WithSharding("web", shard.Options{}), tarn.WithRateLimit(1, 1))
		maps := must(tarn.MirrorOf[*corev1.ConfigMap](a.Cluster))
		<-time.After(time.Minute)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		for range 100 {
			go func() {
				for ctx.Err() == nil {
					_, _ = maps.API().Get(ctx, key("ns1", "m"), wire.GetOptions{})
				}
			}()
		}
		for range 10 {
			<-time.After(30 * time.Second)
			if s := a.Status().Shards; !s.Active || len(s.Slots) != shard.Slots {
				t.Fatalf("the status is %+v", s)
			}
		}
	})
}

// A Shard keeps no mirror that was closed, even if it never ran.
func TestAShardForgetsClosedMirrors(t *testing.T) {
	cluster := connect(t, tarn.WithConfig(demoConfig))
	part := tarn.NewShard(object.Part(object.ByUID, 0, 2))
	informers := func() weak.Pointer[informer.Informer[*corev1.ConfigMap]] {
		maps := must(tarn.MirrorOf[*corev1.ConfigMap](cluster, tarn.InShard(part)))
		defer maps.Close()
		return weak.Make(maps.Informer())
	}()
	for i := 0; i < 10 && informers.Value() != nil; i++ {
		runtime.GC()
	}
	if informers.Value() != nil {
		t.Error("the informer is still referred to")
	}
	part.Set(object.Part(object.ByUID, 1, 2))
}
