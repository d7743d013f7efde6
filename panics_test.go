package tarn_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
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
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/store"
	"github.com/tarnproject/tarn/wire"
	"github.com/tarnproject/tarn/workqueue"
)

// program is a program with two controllers on the embedded server. Each function that a program can
// pass calls trip with its name.
type program struct {
	*tarn.Cluster
	t   *testing.T
	srv *apiserver.Server
	ctl *tarn.Controller
	log bytes.Buffer

	mu   sync.Mutex
	seen map[string]string // the image of the last reconcile, by controller and key
}

// functions lists every function of a program that Tarn calls for a key, an object or a request. trip
// panics or hangs, once for each.
var functions = []struct {
	name string
	// where says where a panic is reported: in the status of the controller, or else in the log only.
	status bool
	// loses is true if the object itself is not reconciled in that state: what maps it is lost.
	loses bool
	set   func(p *program, s *setup, trip func(obj string))
}{
	{name: "Reconcile", set: func(p *program, s *setup, trip func(string)) { s.reconcile = trip }},
	{name: "Predicate", status: true, set: func(p *program, s *setup, trip func(string)) {
		s.when = func(e informer.Event[*corev1.Pod]) bool { trip(e.Key.Name); return true }
	}},
	{name: "Watches", status: true, loses: true, set: func(p *program, s *setup, trip func(string)) {
		s.keys = func(pod *corev1.Pod) []tarn.Key { trip(pod.Name); return []tarn.Key{key(pod.Namespace, pod.Name)} }
	}},
	{name: "Group", status: true, set: func(p *program, s *setup, trip func(string)) {
		s.options.Queue.Group = func(key tarn.Key) string { trip(key.Name); return key.Namespace }
	}},
	{name: "Observer", status: true, set: func(p *program, s *setup, trip func(string)) {
		s.options.Observers = []controller.Observer{func(ctx context.Context, start controller.ReconcileStart) (context.Context, func(controller.ReconcileEnd)) {
			trip(start.Key.(tarn.Key).Name)
			return ctx, nil
		}}
	}},
	{name: "the end of an Observer", status: true, set: func(p *program, s *setup, trip func(string)) {
		s.options.Observers = []controller.Observer{func(ctx context.Context, start controller.ReconcileStart) (context.Context, func(controller.ReconcileEnd)) {
			return ctx, func(controller.ReconcileEnd) { trip(start.Key.(tarn.Key).Name) }
		}}
	}},
	{name: "Limiter", status: true, set: func(p *program, s *setup, trip func(string)) {
		s.options.Queue.Limiter, s.fail = limiter{trip, workqueue.DefaultLimiter[tarn.Key]()}, true
	}},
	{name: "Metrics", status: true, set: func(p *program, s *setup, trip func(string)) {
		s.options.Queue.Metrics = metrics{func() { trip("bad") }}
	}},
	{name: "Logger", set: func(p *program, s *setup, trip func(string)) {
		s.options.Logger, s.fail = slog.New(handler{slog.DiscardHandler, func() { trip("bad") }}), true
	}},
	{name: "Pending of a Source", status: true, set: func(p *program, s *setup, trip func(string)) {
		s.source = &controller.Source[tarn.Key]{Name: "own", Pending: func(key tarn.Key) bool { trip(key.Name); return false },
			Run: func(ctx context.Context, _ *controller.Intake[tarn.Key]) error { <-ctx.Done(); return nil }}
	}},
	{name: "Every", status: true, set: func(p *program, s *setup, trip func(string)) {
		every := controller.Every(time.Second, func(func(tarn.Key)) { trip("bad") })
		s.source = &every
	}},
	{name: "Index", set: func(p *program, s *setup, trip func(string)) {
		s.pods.AddIndex(store.NewIndex("x", func(pod *corev1.Pod) string { trip(pod.Name); return "" }))
	}},
	{name: "Filter", set: func(p *program, s *setup, trip func(string)) {
		s.subscribe(tarn.SubOptions[*corev1.Pod]{Filter: func(pod *corev1.Pod) bool { trip(pod.Name); return true }})
	}},
	{name: "Handler", set: func(p *program, s *setup, trip func(string)) {
		must(s.pods.Subscribe(tarn.Handler[*corev1.Pod]{OnAdd: func(pod *corev1.Pod, _ bool) { trip(pod.Name) }}, tarn.SubOptions[*corev1.Pod]{}))
	}},
	{name: "OnPanic", set: func(p *program, s *setup, trip func(string)) {
		must(s.pods.Subscribe(tarn.Handler[*corev1.Pod]{OnAdd: func(*corev1.Pod, bool) { panic("handler") }},
			tarn.SubOptions[*corev1.Pod]{OnPanic: func(*informer.PanicError) { trip("bad") }}))
	}},
	{name: "OnSynced", set: func(p *program, s *setup, trip func(string)) {
		s.subscribe(tarn.SubOptions[*corev1.Pod]{OnSynced: func() { trip("bad") }})
	}},
	{name: "observer of requests", set: func(p *program, s *setup, trip func(string)) {
		s.request = func() { trip("bad") }
	}},
	{name: "the end of an observer of requests", set: func(p *program, s *setup, trip func(string)) {
		s.response = func() { trip("bad") }
	}},
}

// setup is what a function of functions changes.
type setup struct {
	t                 *testing.T
	pods              *tarn.Mirror[*corev1.Pod]
	reconcile         func(string)
	when              controller.Predicate[*corev1.Pod]
	keys              func(*corev1.Pod) []tarn.Key
	options           controller.Options[tarn.Key]
	source            *controller.Source[tarn.Key]
	fail              bool // the first reconcile of each key fails
	request, response func()
}

func (s *setup) subscribe(opts tarn.SubOptions[*corev1.Pod]) {
	must(s.pods.SubscribeBatch(func(context.Context, []tarn.Event[*corev1.Pod]) {}, opts))
}

type limiter struct {
	trip func(string)
	workqueue.Limiter[tarn.Key]
}

func (l limiter) When(key tarn.Key) time.Duration { l.trip(key.Name); return l.Limiter.When(key) }

type metrics struct{ trip func() }

func (m metrics) Added(int)            { m.trip() }
func (m metrics) Retried(int)          { m.trip() }
func (m metrics) Dropped(int)          { m.trip() }
func (m metrics) Waited(time.Duration) { m.trip() }
func (m metrics) Worked(time.Duration) { m.trip() }

type handler struct {
	slog.Handler
	trip func()
}

func (h handler) Enabled(context.Context, slog.Level) bool  { return true }
func (h handler) Handle(context.Context, slog.Record) error { h.trip(); return nil }
func (h handler) WithAttrs([]slog.Attr) slog.Handler        { return h }

// newProgram makes a program in which one function calls trip.
func newProgram(t *testing.T, set func(p *program, s *setup, trip func(string)), trip func(obj string)) *program {
	p := &program{t: t, seen: map[string]string{}}
	p.srv = apiserver.Start(t, apiserver.Options{AnyNamespace: true, Seed: 1})
	s := &setup{t: t, request: func() {}, response: func() {}, reconcile: func(string) {}}
	p.Cluster = connect(t, tarn.WithConfig(p.srv.MemoryConfig()), tarn.WithLogger(slog.New(slog.NewTextHandler(&locked{w: &p.log}, nil))),
		tarn.WithObservers(nil, func(ctx context.Context, _ wire.AttemptStart) (context.Context, func(wire.AttemptEnd)) {
			s.request()
			return ctx, func(wire.AttemptEnd) { s.response() }
		}))
	s.pods = must(tarn.MirrorOf[*corev1.Pod](p.Cluster))
	s.options = controller.Options[tarn.Key]{Workers: 2}
	set(p, s, trip)
	var when []controller.Predicate[*corev1.Pod]
	if s.when != nil {
		when = append(when, s.when)
	}
	sources := []tarn.ControllerOption{tarn.WithControllerOptions(s.options)}
	if s.keys != nil {
		sources = append(sources, tarn.Watches(s.pods, s.keys, when...))
	} else {
		sources = append(sources, tarn.For(s.pods, when...))
	}
	if s.source != nil {
		sources = append(sources, tarn.From(*s.source))
	}
	p.ctl = must(tarn.NewController(p.Cluster, "one", p.reconcile("one", s.pods, s), sources...))
	must(tarn.NewController(p.Cluster, "other", p.reconcile("other", s.pods, &setup{reconcile: func(string) {}}), tarn.For(s.pods)))
	return p
}

func (p *program) reconcile(name string, pods *tarn.Mirror[*corev1.Pod], s *setup) tarn.ReconcileFunc {
	failed := map[tarn.Key]bool{}
	return func(_ context.Context, key tarn.Key) (tarn.Result, error) {
		s.reconcile(key.Name)
		p.mu.Lock()
		defer p.mu.Unlock()
		if s.fail && !failed[key] {
			failed[key] = true
			return tarn.Result{}, fmt.Errorf("the first attempt of %s", key)
		}
		if pod, ok := pods.Get(key); ok {
			p.seen[name+" "+key.Name] = pod.Spec.NodeName
		}
		return tarn.Result{}, nil
	}
}

// write writes pods whose node is a round.
func (p *program) write(round string, names ...string) {
	p.t.Helper()
	for _, name := range names {
		new := pod("shop", name, round)
		if _, err := p.srv.Update(new); err == nil {
			continue
		}
		if _, err := p.srv.Create(new); err != nil {
			p.t.Fatal(err)
		}
	}
}

// reconciled checks what the controllers have seen last.
func (p *program) reconciled(when, round string, keys ...string) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, key := range keys {
		if p.seen[key] != round {
			p.t.Errorf("%s: %s was reconciled at %q, not %q", when, key, p.seen[key], round)
		}
	}
}

// locked serialises the lines of a log.
type locked struct {
	mu sync.Mutex
	w  *bytes.Buffer
}

func (l *locked) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(line)
}

func (p *program) run() {
	r := &testCluster{Cluster: p.Cluster, t: p.t, srv: p.srv}
	r.start()
}

// Each function panics once: for the object bad, among others that arrive together.
func TestR10_APanicOfAnyFunctionCostsOneKey(t *testing.T) {
	for _, f := range functions {
		t.Run(f.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				armed, tripped := false, 0
				p := newProgram(t, f.set, func(obj string) {
					mu.Lock()
					panics := armed && obj == "bad"
					if panics {
						armed, tripped = false, tripped+1
					}
					mu.Unlock()
					if panics {
						panic("tripped " + f.name)
					}
				})
				p.write("0", "a", "b")
				armed = true
				p.run()
				simtest.Advance(time.Minute)
				if f.name != "observer of requests" && f.name != "the end of an observer of requests" {
					p.reconciled("at first", "0", "one a", "one b", "other a", "other b")
				}
				p.write("1", "a", "bad", "b", "c")
				simtest.Advance(time.Minute)
				p.reconciled("with a panic", "1", "one a", "one b", "one c", "other a", "other b", "other c", "other bad")
				if !f.loses {
					p.reconciled("the key itself", "1", "one bad")
				}
				p.write("2", "a", "bad", "b", "c")
				simtest.Advance(time.Minute)
				p.reconciled("after a panic", "2", "one a", "one b", "one c", "one bad", "other a", "other bad")
				simtest.Want(t, "panics", tripped, 1)
				s := p.ctl.Status()
				if log := p.log.String(); f.name != "Logger" && f.name != "Index" && !strings.Contains(log, "tripped "+f.name) {
					t.Errorf("the log does not show it: %s", log)
				}
				if f.status && (s.FunctionPanics != 1 || s.LastFunctionPanic == nil) {
					t.Errorf("status: %d panics, the last: %v", s.FunctionPanics, s.LastFunctionPanic)
				}
				if f.status {
					_, body := readyz(p.Cluster)
					want := "[!]controller/one ok, but: 1 panic of the program's functions, the last: panic in "
					if !strings.Contains(body, want) || strings.Contains(body, "tripped") || strings.Contains(body, "bad") {
						t.Errorf("readyz has no authentication, so it must say where and no more: %s", body)
					}
				}
			})
		})
	}
}

// Each function hangs for the object bad. That holds up what waits for it: one worker, one source or one
// subscriber, and shows; another controller and the mirror go on.
func TestR10_AHangOfAnyFunctionStopsNoOtherController(t *testing.T) {
	for _, f := range functions {
		switch f.name {
		case "Index", "observer of requests", "the end of an observer of requests", "Logger", "Metrics":
			continue // these run where the mirror, a request or the queue itself waits
		}
		t.Run(f.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				release := make(chan struct{})
				p := newProgram(t, f.set, func(obj string) {
					if obj == "bad" {
						<-release
					}
				})
				p.write("0", "a", "b")
				p.run()
				defer close(release)
				simtest.Advance(time.Minute)
				p.write("1", "a", "bad", "b", "c")
				simtest.Advance(time.Minute)
				p.reconciled("with a hang", "1", "other a", "other bad", "other b", "other c")
				s := p.ctl.Status()
				switch f.name {
				case "Reconcile", "Observer", "the end of an Observer", "Limiter":
					p.reconciled("by the other worker", "1", "one a", "one b", "one c")
					if len(s.Running) != 1 || s.Running[0].Key != (object.Key{Namespace: "shop", Name: "bad"}) {
						t.Errorf("running: %+v", s.Running)
					}
				case "Every", "Handler", "Filter", "OnPanic", "OnSynced":
					p.reconciled("without it", "1", "one a", "one bad", "one b", "one c")
				}
			})
		})
	}
}
