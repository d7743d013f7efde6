package rules

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/util/teststorage"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/controller/leader"
	"github.com/tarnproject/tarn/controller/shard"
	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/internal/sim/simtest"
	"github.com/tarnproject/tarn/store"
	"github.com/tarnproject/tarn/wire"
)

// scrape is a response of /metrics.
type scrape struct {
	at       time.Time
	instance string
	body     []byte
}

// world is an embedded API server and the programs that use it, in virtual time.
type world struct {
	*testing.T
	server   *apiserver.Server
	programs []http.Handler
	scrapes  []scrape
}

// inWorld runs f in virtual time, and returns what was scraped as the storage of a Prometheus.
func inWorld(t *testing.T, f func(w *world)) (data *teststorage.TestStorage, from, to time.Time) {
	t.Helper()
	var scrapes []scrape
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, server: apiserver.Start(t, apiserver.Options{AnyNamespace: true, Seed: 1})}
		f(w)
		scrapes = w.scrapes
	})
	data = teststorage.New(t)
	for _, s := range scrapes {
		keep(t, data, s)
	}
	return data, scrapes[0].at, scrapes[len(scrapes)-1].at
}

// keep parses a scrape and adds its samples, with the labels that a Prometheus adds.
func keep(t *testing.T, data *teststorage.TestStorage, s scrape) {
	t.Helper()
	app := data.Appender(t.Context())
	p := textparse.NewPromParser(s.body, labels.NewSymbolTable(), false)
	for {
		entry, err := p.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if entry != textparse.EntrySeries {
			continue
		}
		_, _, v := p.Series()
		var l labels.Labels
		p.Labels(&l)
		if _, err := app.Append(0, labels.NewBuilder(l).Set("job", "shop").Set("instance", s.instance).Labels(), s.at.UnixMilli(), v); err != nil {
			t.Fatal(err)
		}
	}
	if err := app.Commit(); err != nil {
		t.Fatal(err)
	}
}

func (w *world) create(objs ...runtime.Object) {
	w.Helper()
	for _, obj := range objs {
		must(w.server.Create(obj))
	}
	synctest.Wait()
}

func (w *world) inject(faults ...apiserver.Fault) {
	w.Helper()
	for _, f := range faults {
		must(w.server.Inject(f))
	}
}

// connect returns a cluster that is not started.
func (w *world) connect(opts ...tarn.ConnectOption) *tarn.Cluster {
	w.Helper()
	opts = append(opts, tarn.WithConfig(w.server.MemoryConfig()), tarn.WithNamespace("shop"), tarn.WithLogger(slog.New(slog.DiscardHandler)))
	return must(tarn.Connect(opts...))
}

// start runs a cluster until the test ends, and adds it to what is scraped. Its error is not of
// interest, because some must fail.
func (w *world) start(c *tarn.Cluster) {
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	w.Cleanup(func() { stop(); <-done })
	w.programs = append(w.programs, c.Handler())
	synctest.Wait()
}

// pass lets time pass, scrapes every 30 seconds, and calls f after each scrape.
func (w *world) pass(d time.Duration, f func(i int)) {
	for i := range int(d / (30 * time.Second)) {
		for n, h := range w.programs {
			r := httptest.NewRecorder()
			h.ServeHTTP(r, httptest.NewRequest(http.MethodGet, "/metrics", nil))
			if r.Code != http.StatusOK {
				w.Fatalf("scrape: %d %s", r.Code, r.Body)
			}
			w.scrapes = append(w.scrapes, scrape{time.Now(), fmt.Sprint(n), bytes.Clone(r.Body.Bytes())})
		}
		f(i)
		simtest.Advance(30 * time.Second)
	}
}

func must[V any](v V, err error) V {
	if err != nil {
		panic(err)
	}
	return v
}

func pod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
}

// reconciler returns a reconcile function that ignores its key.
func reconciler(f func(ctx context.Context) error) tarn.ReconcileFunc {
	return func(ctx context.Context, _ tarn.Key) (tarn.Result, error) { return tarn.Result{}, f(ctx) }
}

// sharded returns a program that is the only replica of its group.
func (w *world) sharded() *tarn.Cluster {
	cluster := w.connect(tarn.WithSharding("shards", shard.Options{}))
	pods := must(tarn.MirrorOf[*corev1.Pod](cluster))
	must(tarn.NewController(cluster, "sharded", reconciler(func(context.Context) error { return nil }), tarn.For(pods)))
	return cluster
}

// healthy runs a program that leads, writes and works, on a cluster whose pods change. Its watch
// breaks and its version expires once.
func healthy(w *world) {
	cluster := w.connect(tarn.WithLeaderElection("web", leader.Options{}), tarn.WithAudit(time.Minute))
	pods, configs := must(tarn.MirrorOf[*corev1.Pod](cluster)), must(tarn.MirrorOf[*corev1.ConfigMap](cluster))
	must(tarn.NewController(cluster, "summary", func(ctx context.Context, key tarn.Key) (tarn.Result, error) {
		_, _, err := configs.Client().CreateOrUpdate(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}, func(m *corev1.ConfigMap) error {
			if p, ok := pods.Get(key); ok {
				m.Data = map[string]string{"node": p.Spec.NodeName}
			}
			return nil
		})
		return tarn.Result{}, err
	}, tarn.For(pods), tarn.WithControllerOptions(controller.Options[tarn.Key]{Workers: 2})))
	w.create(pod("a"), pod("b"))
	w.start(cluster)
	w.start(w.sharded())
	w.pass(40*time.Minute, func(i int) {
		changed := pod([]string{"a", "b"}[i%2])
		changed.Spec.NodeName = fmt.Sprint("node-", i)
		must(w.server.Update(changed))
		switch i {
		case 70: // within the last 5 minutes
			w.server.Cut("pods")
		case 74:
			w.server.Compact(0)
			w.server.Cut("pods")
		}
	})
}

// sick runs programs with everything that the alerts are about, except a store that rejects objects.
func sick(w *world) {
	w.inject(
		apiserver.Fault{Kind: apiserver.Forbidden, Resource: "secrets"},
		apiserver.Fault{Kind: apiserver.Forbidden, Resource: "leases.coordination.k8s.io"},
	)
	cluster := w.connect()
	pods := must(tarn.MirrorOf[*corev1.Pod](cluster))
	must(tarn.MirrorOf[*corev1.Secret](cluster))
	must(tarn.MirrorOf[*corev1.ConfigMap](cluster))
	must(tarn.MirrorOf[*corev1.Service](cluster))
	must(tarn.MirrorTransformed(cluster, wire.MustOf[*corev1.Node](), tarn.NewTransform("fail", func(*corev1.Node) (*corev1.Node, error) { return nil, errors.New("no") })))
	free := make(chan struct{})
	defer close(free) // before the cleanup waits for the program
	must(pods.Informer().Subscribe(informer.Handler[*corev1.Pod]{OnAdd: func(*corev1.Pod, bool) { <-free }}, informer.SubOptions[*corev1.Pod]{Name: "blocked"}))
	for name, f := range map[string]func(ctx context.Context) error{
		"failing":  func(context.Context) error { return errors.New("quota exceeded") },
		"giving":   func(context.Context) error { return controller.Terminal(errors.New("invalid")) },
		"stale":    func(context.Context) error { return controller.ErrStaleCache },
		"hanging":  func(ctx context.Context) error { <-ctx.Done(); return nil },
		"idle":     func(context.Context) error { return nil },
		"panicked": func(context.Context) error { panic("oops") },
	} {
		mine := func(p *corev1.Pod) bool { return name == "hanging" || p.Name == "p0" }
		must(tarn.NewController(cluster, name, reconciler(f), tarn.For(pods, controller.Where(mine)), tarn.WithControllerOptions(controller.Options[tarn.Key]{Grace: -1})))
	}
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "c"}}
	w.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, config)
	w.start(cluster)
	follower := w.connect(tarn.WithLeaderElection("web", leader.Options{}))
	must(tarn.MirrorOf[*corev1.Pod](follower))
	w.start(follower)
	w.start(w.sharded())
	w.pass(time.Hour, func(i int) {
		if i == 1 {
			for n := range 1100 {
				w.create(pod(fmt.Sprint("p", n)))
			}
			w.inject(apiserver.Fault{Kind: apiserver.Unavailable, Resource: "services"})
			w.server.Cut("services")
		}
		if i == 10 {
			pods.Informer().Edit(func(s *store.Store[*corev1.Pod]) { s.Delete(tarn.Key{Namespace: "shop", Name: "p7"}) })
			must(pods.Audit(w.Context()))
		}
		if i%4 == 0 { // the version that the watch would resume from has expired
			w.server.Cut("configmaps")
			synctest.Wait()
			config.Data = map[string]string{"n": fmt.Sprint(i)}
			must(w.server.Update(config))
			w.server.Compact(0)
		}
	})
}

func TestTheFaultsOfAProgramFireTheAlerts(t *testing.T) {
	data, from, to := inWorld(t, sick)
	for _, r := range loadRules(t) {
		got := evaluate(t, r, data, from, to)
		for _, f := range got {
			t.Logf("%s after %v: %s", r.Alert, f.at.Sub(from), f.summary)
		}
		if (len(got) > 0) != (r.Alert != "TarnObjectsRefused") {
			t.Errorf("%s fired %d times", r.Alert, len(got))
		}
	}
}

func TestAHealthyProgramFiresNoAlert(t *testing.T) {
	data, from, to := inWorld(t, healthy)
	exported := map[string]bool{}
	for _, s := range instant(t, data, `group by (__name__) ({job="shop"})`, to) {
		exported[s.Metric.Get(labels.MetricName)] = true
	}
	for _, r := range loadRules(t) {
		for _, f := range evaluate(t, r, data, from, to) {
			t.Errorf("%s after %v: %s", r.Alert, f.at.Sub(from), f.summary)
		}
		expr := must(queries.ParseExpr(r.Expr))
		parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
			if s, ok := n.(*parser.VectorSelector); ok && !exported[s.Name] {
				t.Errorf("%s: the program exports no %s", r.Alert, s.Name)
			}
			return nil
		})
	}
	t.Run("dashboard", func(t *testing.T) { dashboard(t, data, to) })
}

// mayBeZero are the metrics of trouble, and those that are too coarse.
var mayBeZero = []string{
	"tarn_informer_audit_differences", "tarn_informer_pending_deltas", "tarn_informer_subscriber_lag_seconds", "tarn_informer_quarantined_objects", "workqueue_depth", "workqueue_delayed",
	"workqueue_longest_running_processor_seconds", "tarn_controller_failing_keys", "tarn_controller_held_total", "tarn_shard_idle_slots", "process_cpu_seconds_total",
}

func mayBe0(metrics []string) bool {
	return slices.ContainsFunc(metrics, func(m string) bool { return slices.Contains(mayBeZero, m) })
}
