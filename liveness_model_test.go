package tarn_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/internal/sim/simtest"
	"github.com/tarnproject/tarn/internal/soak"
	"github.com/tarnproject/tarn/reflector"
	"github.com/tarnproject/tarn/workqueue"
)

var livenessSeed = flag.Uint64("liveness.seed", 0, "run this history of the liveness models only")

func eachSeed(t *testing.T, rounds int, run func(t *testing.T, seed uint64)) {
	first, n := uint64(1), soak.Rounds(rounds)
	if *livenessSeed != 0 {
		first, n = *livenessSeed, 1
	}
	for seed := first; seed < first+uint64(n); seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { run(t, seed) })
			if t.Failed() {
				t.Logf("repeat with -liveness.seed=%d", seed)
			}
		})
	}
}

// dice is a source of random numbers for several goroutines.
type dice struct {
	mu   sync.Mutex // guards all below
	rand *rand.Rand
}

func newDice(seed uint64) *dice { return &dice{rand: rand.New(rand.NewPCG(seed, 28))} }

func (d *dice) pick(n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rand.IntN(n)
}

func (d *dice) upTo(most time.Duration) time.Duration { return time.Duration(d.pick(int(most))) }

// works is the oracle: what was written last, what was reconciled last, and what runs now.
type works struct {
	t *testing.T

	mu      sync.Mutex // guards all below
	newest  map[string]written
	seen    map[string]int
	running map[string]*running
}

type written struct {
	number int
	at     time.Time
}

type running struct {
	by  string
	ctx context.Context
	// cancelled is when the context was done; zero before.
	cancelled time.Time
}

func newWorks(t *testing.T) *works {
	return &works{t: t, newest: map[string]written{}, seen: map[string]int{}, running: map[string]*running{}}
}

// begin notes that a reconcile begins. Another one of the key may run only if it has ignored for a while that it
// was cancelled, and may not write.
func (w *works) begin(ctx context.Context, by, key string) (end func()) {
	r := &running{by: by, ctx: ctx}
	stop := context.AfterFunc(ctx, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		r.cancelled = time.Now()
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	if other := w.running[key]; other != nil {
		if other.by == by || other.cancelled.IsZero() || time.Since(other.cancelled) < 2*time.Second || controller.MayWrite(other.ctx) == nil {
			w.t.Errorf("%s reconciles %s while %s does, which was cancelled at %v", by, key, other.by, other.cancelled)
		}
	}
	w.running[key] = r
	return func() {
		stop()
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.running[key] == r {
			delete(w.running, key)
		}
	}
}

func (w *works) saw(key string, number int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen[key] = max(w.seen[key], number)
}

// write writes the next state of a pod.
func (w *works) write(srv *apiserver.Server, key string) {
	w.mu.Lock()
	n := w.newest[key].number + 1
	w.mu.Unlock()
	p := pod("shop", key, fmt.Sprint(n))
	if _, err := srv.Update(p); err != nil {
		must(srv.Create(p))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if now := w.newest[key]; w.seen[key] >= now.number || now.at.IsZero() {
		w.newest[key] = written{n, time.Now()}
	} else {
		w.newest[key] = written{n, now.at} // the oldest state that waits counts
	}
}

// late reports keys that have waited since before a moment.
func (w *works) late(before time.Time, of func(key string) bool) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, n := range w.newest {
		if of(key) && w.seen[key] < n.number && n.at.Before(before) {
			w.t.Errorf("%s was reconciled at %d, and is at %d, written %v ago", key, w.seen[key], n.number, time.Since(n.at))
		}
	}
}

func number(p *corev1.Pod) int { n, _ := strconv.Atoi(p.Spec.NodeName); return n }

func everyKey(string) bool { return true }

// Every function of a program panics, fails or hangs at random for sick keys. The others are reconciled in a
// bounded time, and the sick ones when they have recovered.
func TestR10_SickKeysDelayNoOther(t *testing.T) {
	eachSeed(t, 20, func(t *testing.T, seed uint64) {
		d, w := newDice(seed), newWorks(t)
		srv := apiserver.Start(t, apiserver.Options{AnyNamespace: true, Seed: seed})
		var mu sync.Mutex
		illness := true
		sick := func(key string) bool {
			mu.Lock()
			defer mu.Unlock()
			return illness && key < "c" // a and b of a to h
		}
		trip := func(key string) {
			if sick(key) && d.pick(3) == 0 {
				panic("sick " + key)
			}
		}
		cluster := connect(t, tarn.WithConfig(srv.MemoryConfig()), tarn.WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil))),
			tarn.WithTuning(tarn.Tuning{Backoff: reflector.Backoff{Max: 2 * time.Second}})) // the watch is cut often
		pods := must(tarn.MirrorOf[*corev1.Pod](cluster))
		opts := controller.Options[tarn.Key]{
			Workers: 3, Timeout: 3 * time.Second, Rate: float64(d.pick(3)) * 20, SyncTimeout: -1,
			Queue: workqueue.Options[tarn.Key]{
				Group:   func(key tarn.Key) string { trip(key.Name); return key.Name[:1] },
				Limiter: limiter{trip, workqueue.NewExponential[tarn.Key](10*time.Millisecond, 5*time.Second)},
				Metrics: metrics{func() { trip("a") }},
			},
			Observers: []controller.Observer{func(ctx context.Context, s controller.ReconcileStart) (context.Context, func(controller.ReconcileEnd)) {
				key := s.Key.(tarn.Key).Name
				trip(key)
				return ctx, func(controller.ReconcileEnd) { trip(key) }
			}},
			Logger: slog.New(handler{slog.DiscardHandler, func() { trip("b") }}),
		}
		sources := []tarn.ControllerOption{tarn.WithControllerOptions(opts), tarn.From(controller.Source[tarn.Key]{
			Name: "pending", Pending: func(key tarn.Key) bool { trip(key.Name); return sick(key.Name) && d.pick(4) == 0 },
			Run: func(ctx context.Context, _ *controller.Intake[tarn.Key]) error { <-ctx.Done(); return nil },
		})}
		when := func(e informer.Event[*corev1.Pod]) bool { trip(e.Key.Name); return true }
		if d.pick(2) == 0 {
			sources = append(sources, tarn.For(pods, when))
		} else {
			sources = append(sources, tarn.Watches(pods, func(p *corev1.Pod) []tarn.Key { trip(p.Name); return []tarn.Key{key("shop", p.Name)} }, when))
		}
		client := pods.Client()
		must(tarn.NewController(cluster, "sick", func(ctx context.Context, key tarn.Key) (tarn.Result, error) {
			defer w.begin(ctx, "it", key.Name)()
			trip(key.Name)
			if sick(key.Name) {
				switch d.pick(6) {
				case 0:
					<-ctx.Done()
					return tarn.Result{}, ctx.Err()
				case 1:
					return tarn.Result{}, controller.ErrStaleCache
				case 2:
					return tarn.Result{Requeue: true}, nil
				case 3:
					return tarn.Result{}, fmt.Errorf("sick %s", key)
				}
			}
			p, err := client.Get(ctx, key)
			if err != nil {
				return tarn.Result{}, tarn.IgnoreNotFound(err)
			}
			w.saw(key.Name, number(p))
			return tarn.Result{}, nil
		}, sources...))
		r := &testCluster{Cluster: cluster, t: t, srv: srv}
		r.start()
		healthy := func(key string) bool { return key >= "c" }
		for range 60 {
			for range 1 + d.pick(6) {
				w.write(srv, string(rune('a'+d.pick(8))))
			}
			if d.pick(5) == 0 {
				srv.Cut("pods")
			}
			simtest.Advance(d.upTo(4 * time.Second))
			w.late(time.Now().Add(-30*time.Second), healthy)
		}
		mu.Lock()
		illness = false
		mu.Unlock()
		for c := range 8 {
			w.write(srv, string(rune('a'+c)))
		}
		simtest.Advance(2 * time.Minute)
		w.late(time.Now(), everyKey)
	})
}

// Replicas lose their connection or their permissions, hang, stop and start again. No two work on a key at the
// same time, and while one replica is well, keys are reconciled in a bounded time.
func TestR09_OneHealthyReplicaWorksAndNoTwoDo(t *testing.T) {
	const bound = 3 * time.Minute
	eachSeed(t, 10, func(t *testing.T, seed uint64) {
		d, w := newDice(seed), newWorks(t)
		srv := apiserver.Start(t, apiserver.Options{AnyNamespace: true, Seed: seed, RBAC: true})
		var mu sync.Mutex
		faults := true
		chance := func(n int) bool {
			mu.Lock()
			defer mu.Unlock()
			return faults && d.pick(n) == 0
		}
		type member struct {
			*electee
			well time.Time // since when; zero: it is not
		}
		starts := 0
		begin := func() *member {
			starts++
			name := fmt.Sprint("r", starts)
			return &member{well: time.Now(), electee: newElectee(t, srv, name, controller.Options[tarn.Key]{Workers: 2, Grace: d.upTo(10 * time.Second)}, func(r *electee) tarn.ReconcileFunc {
				return func(ctx context.Context, key tarn.Key) (tarn.Result, error) {
					defer w.begin(ctx, name, key.Name)()
					switch {
					case chance(12):
						panic("at random")
					case chance(12):
						return tarn.Result{}, fmt.Errorf("at random")
					case chance(8): // slow
						select {
						case <-time.After(d.upTo(20 * time.Second)):
						case <-ctx.Done():
						}
					case chance(20): // and ignores its context
						<-time.After(d.upTo(9 * time.Second))
					}
					if _, err := r.maps.Get(ctx, key); tarn.IgnoreNotFound(err) != nil {
						return tarn.Result{}, err
					}
					p, err := r.client.Get(ctx, key)
					if err != nil {
						return tarn.Result{}, tarn.IgnoreNotFound(err)
					}
					w.saw(key.Name, number(p))
					return tarn.Result{}, ctx.Err()
				}
			})}
		}
		members := []*member{begin(), begin(), begin()}
		for range 60 {
			for range d.pick(3) {
				w.write(srv, string(rune('a'+d.pick(6))))
			}
			i := d.pick(len(members))
			m := members[i]
			switch d.pick(8) {
			case 0:
				m.link.set(true)
				m.well = time.Time{}
			case 1:
				m.link.deny([]string{"pods", "configmaps"}[d.pick(2)], true)
				srv.Cut([]string{"pods", "configmaps"}[d.pick(2)])
				m.well = time.Time{}
			case 2, 3, 4:
				m.link.set(false)
				m.link.deny("pods", false)
				m.link.deny("configmaps", false)
				if m.well.IsZero() {
					m.well = time.Now()
				}
			case 5:
				if d.pick(3) == 0 {
					stop(t, m.electee)
					members[i] = begin()
				}
			case 6:
				srv.Cut("")
			}
			simtest.Advance(d.upTo(40 * time.Second))
			var well time.Time // since when one of them is
			for _, m := range members {
				if !m.well.IsZero() && (well.IsZero() || m.well.Before(well)) {
					well = m.well
				}
			}
			if !well.IsZero() && time.Since(well) > bound {
				w.late(time.Now().Add(-bound), everyKey)
			}
			if t.Failed() {
				break
			}
		}
		mu.Lock()
		faults = false
		mu.Unlock()
		for _, m := range members {
			m.link.set(false)
			m.link.deny("pods", false)
			m.link.deny("configmaps", false)
		}
		simtest.Advance(bound)
		w.late(time.Now().Add(-bound), everyKey)
		leading := 0
		var logs bytes.Buffer
		for _, m := range members {
			if m.leads() {
				leading++
			}
			logs.Write(m.log.Bytes())
		}
		simtest.Want(t, "leaders", leading, 1)
		if t.Failed() {
			t.Logf("logs: %s", logs.String()[max(0, logs.Len()-6000):])
		}
		for _, m := range members {
			stop(t, m.electee)
		}
	})
}

// stop stops a replica. Keys may be left, but no reconcile.
func stop(t *testing.T, r *electee) {
	t.Helper()
	var left *controller.UnfinishedError[tarn.Key]
	if err := r.stop(); err != nil && (!errors.As(err, &left) || errors.Is(err, controller.ErrStillRunning)) {
		t.Errorf("stop: %v", err)
	}
}
