package shard_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/controller/shard"
	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/internal/sim/simtest"
	"github.com/tarnproject/tarn/internal/soak"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire"
	"github.com/tarnproject/tarn/wire/stream"
	"github.com/tarnproject/tarn/workqueue"
)

// fleet is several replicas of a controller of ConfigMaps, each with its own connection.
type fleet struct {
	t       *testing.T
	server  *apiserver.Server
	written map[object.Key]string // versions; only the test's goroutine uses it

	mu   sync.Mutex
	busy map[object.Key]string // who reconciles a key
	seen map[object.Key]string // the last version that a reconcile of a key has read
}

type process struct {
	group *shard.Group
	link  *simtest.LeaseLink
	stop  func() error
}

func (f *fleet) start(name string) *process {
	f.t.Helper()
	link := simtest.NewLeaseLink(f.server.MemoryConfig(), name)
	client := link.Client(f.server.MemoryConfig())
	source, err := stream.NewSource(wire.For(client, wire.MustOf[*corev1.ConfigMap]()), object.Selection{}, stream.Options{})
	if err != nil {
		f.t.Fatal(err)
	}
	maps, err := informer.New(source, object.Meta[*corev1.ConfigMap](), informer.Options[*corev1.ConfigMap]{Name: "configmaps"})
	if err != nil {
		f.t.Fatal(err)
	}
	reconcile := func(ctx context.Context, key object.Key) (controller.Result, error) {
		f.begin(name, key)
		defer f.end(name, key)
		select { // the work
		case <-time.After(300 * time.Millisecond):
		case <-ctx.Done():
			return controller.Result{}, context.Cause(ctx)
		}
		if err := controller.MayWrite(ctx); err != nil {
			return controller.Result{}, err
		}
		if obj, ok := maps.Get(key); ok {
			f.mu.Lock()
			f.seen[key] = obj.ResourceVersion
			f.mu.Unlock()
		}
		return controller.Result{}, nil
	}
	c, err := controller.New("c", reconcile, controller.Options[object.Key]{
		Claims: true, Workers: 4, Grace: 5 * time.Second, Queue: workqueue.Options[object.Key]{Group: shard.ByNamespace},
	}, controller.For(maps))
	if err != nil {
		f.t.Fatal(err)
	}
	g, err := shard.New(client, web, shard.Options{Member: name})
	if err != nil {
		f.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- controller.Run(ctx, maps, controller.Sharded(g, c)) }()
	p := &process{group: g, link: link, stop: sync.OnceValue(func() error {
		cancel()
		return <-done
	})}
	f.t.Cleanup(func() {
		if err := p.stop(); err != nil {
			f.t.Errorf("%s: %v", name, err)
		}
	})
	return p
}

func (f *fleet) begin(name string, key object.Key) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if other := f.busy[key]; other != "" {
		f.t.Errorf("%s reconciles %s while %s does", name, key, other)
	}
	f.busy[key] = name
}

func (f *fleet) end(name string, key object.Key) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.busy[key] == name {
		delete(f.busy, key)
	}
}

func (f *fleet) write(namespace, name string, n int) {
	f.t.Helper()
	obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string]string{"n": fmt.Sprint(n)}}
	stored, err := f.server.Update(obj)
	if err != nil {
		stored, err = f.server.Create(obj)
	}
	if err != nil {
		f.t.Fatal(err)
	}
	f.written[object.Key{Namespace: namespace, Name: name}] = stored.(*corev1.ConfigMap).ResourceVersion
}

// settled checks that every object has been reconciled in its last version.
func (f *fleet) settled() {
	f.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.written) == 0 {
		f.t.Error("there are no objects")
	}
	for key, version := range f.written {
		if f.seen[key] != version {
			f.t.Errorf("%s was last reconciled at version %q, not %s", key, f.seen[key], version)
		}
	}
}

// TestP01_P02_ShardedControllers writes objects while replicas of a controller come and go and lose
// their connections, or send requests that take longer than a lease. No key is reconciled by two of them at once, and at the end every key has
// been reconciled in its last version.
func TestP01_P02_ShardedControllers(t *testing.T) {
	for seed := range uint64(soak.Rounds(15)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rng := rand.New(rand.NewPCG(seed, 3))
				f := &fleet{t: t, server: apiserver.Start(t, apiserver.Options{}), written: map[object.Key]string{}, busy: map[object.Key]string{}, seen: map[object.Key]string{}}
				for i := range 12 {
					if _, err := f.server.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("ns", i)}}); err != nil {
						t.Fatal(err)
					}
				}
				var all []*process
				add := func() { all = append(all, f.start(fmt.Sprint("p", len(all)))) }
				add()
				add()
				for i := range 150 {
					<-time.After(time.Duration(rng.IntN(2000)) * time.Millisecond)
					f.write(fmt.Sprint("ns", rng.IntN(12)), fmt.Sprint("m", rng.IntN(3)), i)
					if rng.IntN(8) > 0 {
						continue
					}
					p := all[rng.IntN(len(all))]
					switch rng.IntN(6) {
					case 0:
						add()
					case 1:
						if err := p.stop(); err != nil && !errors.Is(err, controller.ErrNotLeading) {
							t.Error(err)
						}
					case 2:
						p.link.Set(true, 0)
					case 3:
						p.link.Set(false, time.Duration(rng.IntN(40_000))*time.Millisecond)
					default:
						p.link.Set(false, 0)
					}
				}
				add()
				for _, p := range all {
					p.link.Set(false, 0)
				}
				<-time.After(150 * time.Second) // slow requests that were sent before are on their way for 40 s
				f.settled()
			})
		})
	}
}
