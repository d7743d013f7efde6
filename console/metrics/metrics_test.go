package metrics_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/console/metrics"
	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/internal/sim/simtest"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/store"
	"github.com/tarnproject/tarn/wire"
	"github.com/tarnproject/tarn/wire/stream"
	"github.com/tarnproject/tarn/workqueue"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newExporter(t *testing.T) (*metrics.Exporter, *prometheus.Registry) {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	m, err := metrics.New(reg, metrics.Options{Buckets: []float64{1, 10}})
	if err != nil {
		t.Fatal(err)
	}
	return m, reg
}

// expect compares the series of some names, without their HELP and TYPE lines.
func expect(t *testing.T, reg prometheus.Gatherer, want string, names ...string) {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var expected strings.Builder
	for _, f := range families {
		for _, name := range names {
			if f.GetName() == name {
				expected.WriteString("# HELP " + name + " " + f.GetHelp() + "\n# TYPE " + name + " " + strings.ToLower(f.GetType().String()) + "\n")
			}
		}
	}
	for line := range strings.Lines(want) {
		expected.WriteString(strings.TrimLeft(line, "\t"))
	}
	if err := testutil.GatherAndCompare(reg, strings.NewReader(expected.String()+"\n"), names...); err != nil {
		t.Error(err)
	}
}

func TestQueuesAreShownByTheNamesOfClientGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, reg := newExporter(t)
		q := workqueue.New(workqueue.Options[string]{Metrics: m.Queue("web")})
		if err := m.AddQueue("web", q); err != nil {
			t.Fatal(err)
		}
		q.Add("a")
		q.Add("b")
		q.Add("c")
		q.AddAfter("d", time.Hour)
		simtest.Advance(2 * time.Second)
		a, _ := q.Get()
		simtest.Advance(20 * time.Second)
		q.Done(a)
		b, _ := q.Get()
		q.Add(b)
		simtest.Advance(3 * time.Second)
		expect(t, reg, `
			workqueue_adds_total{name="web"} 4
			workqueue_delayed{name="web"} 1
			workqueue_depth{name="web"} 2
			workqueue_longest_running_processor_seconds{name="web"} 3
			workqueue_processing{name="web"} 1
			workqueue_queue_duration_seconds_bucket{name="web",le="1"} 0
			workqueue_queue_duration_seconds_bucket{name="web",le="10"} 1
			workqueue_queue_duration_seconds_bucket{name="web",le="+Inf"} 2
			workqueue_queue_duration_seconds_sum{name="web"} 24
			workqueue_queue_duration_seconds_count{name="web"} 2
			workqueue_retries_total{name="web"} 1
			workqueue_unfinished_work_seconds{name="web"} 3
			workqueue_work_duration_seconds_bucket{name="web",le="1"} 0
			workqueue_work_duration_seconds_bucket{name="web",le="10"} 0
			workqueue_work_duration_seconds_bucket{name="web",le="+Inf"} 1
			workqueue_work_duration_seconds_sum{name="web"} 20
			workqueue_work_duration_seconds_count{name="web"} 1`,
			"workqueue_adds_total", "workqueue_delayed", "workqueue_depth", "workqueue_longest_running_processor_seconds",
			"workqueue_processing", "workqueue_queue_duration_seconds", "workqueue_retries_total",
			"workqueue_unfinished_work_seconds", "workqueue_work_duration_seconds")
		q.ShutDown()
		expect(t, reg, `workqueue_dropped_total{name="web"} 1`, "workqueue_dropped_total")

		m.RemoveQueue("web")
		if n, err := testutil.GatherAndCount(reg); n != 0 || err != nil {
			t.Errorf("after RemoveQueue there are %d series, %v", n, err)
		}
	})
}

func pod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.PodSpec{NodeName: "node-" + name}}
}

// newPods makes an informer of the server's pods.
func newPods(t *testing.T, server *apiserver.Server, opts informer.Options[*corev1.Pod]) *informer.Informer[*corev1.Pod] {
	t.Helper()
	client, err := wire.New(server.Config(), wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	src, err := stream.NewSource(wire.For(client, wire.MustOf[*corev1.Pod]()), object.Selection{}, stream.Options{})
	if err != nil {
		t.Fatal(err)
	}
	opts.Name = "pods"
	pods, err := informer.New(src, object.Meta[*corev1.Pod](), opts)
	if err != nil {
		t.Fatal(err)
	}
	return pods
}

// start runs something until the test ends.
func start(t *testing.T, parts ...controller.Runner) {
	ctx, stop := context.WithCancel(context.Background()) // the test's own ends too early
	done := make(chan error, 1)
	go func() { done <- controller.Run(ctx, parts...) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestInformersAndTheirReflectorsAreShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, reg := newExporter(t)
		server := apiserver.Start(t, apiserver.Options{Bookmarks: time.Hour})
		for _, name := range []string{"a", "b", "c"} {
			if _, err := server.Create(pod(name)); err != nil {
				t.Fatal(err)
			}
		}
		byNode := store.NewIndex("node", func(p *corev1.Pod) string { return p.Spec.NodeName })
		broken := errors.New("broken")
		pods := newPods(t, server, informer.Options[*corev1.Pod]{
			Indexes: []store.AnyIndex[*corev1.Pod]{byNode},
			Transform: func(p *corev1.Pod) (*corev1.Pod, error) {
				if p.Name == "bad" {
					return nil, broken
				}
				return p, nil
			},
		})
		if err := m.AddInformer(pods); err != nil {
			t.Fatal(err)
		}
		expect(t, reg, `tarn_informer_synced{informer="pods"} 0`, "tarn_informer_synced")
		free := make(chan struct{})
		blocked := informer.Handler[*corev1.Pod]{OnAdd: func(*corev1.Pod, bool) { <-free }}
		for range 2 { // two of one name are one series
			if _, err := pods.Subscribe(blocked, informer.SubOptions[*corev1.Pod]{Name: "slow"}); err != nil {
				t.Fatal(err)
			}
		}
		start(t, pods)
		t.Cleanup(func() { close(free) })
		synctest.Wait()
		server.Cut("pods")
		simtest.Advance(time.Minute)
		if _, err := server.Create(pod("bad")); err != nil {
			t.Fatal(err)
		}
		simtest.Advance(5 * time.Second)
		expect(t, reg, `
			tarn_informer_index_failures_total{index="node",informer="pods"} 0
			tarn_informer_index_values{index="node",informer="pods"} 3
			tarn_informer_live{informer="pods"} 1
			tarn_informer_objects{informer="pods"} 3
			tarn_informer_quarantined_objects{informer="pods"} 1
			tarn_informer_subscriber_lag_changes{informer="pods",subscriber="slow"} 6
			tarn_informer_subscriber_lag_seconds{informer="pods",subscriber="slow"} 65
			tarn_informer_synced{informer="pods"} 1
			tarn_reflector_connected{informer="pods",namespace=""} 1
			tarn_reflector_lists_total{informer="pods",namespace=""} 1
			tarn_reflector_requests_ended_total{informer="pods",namespace="",reason="network"} 1
			tarn_reflector_state{informer="pods",namespace="",state="backing-off"} 0
			tarn_reflector_state{informer="pods",namespace="",state="idle"} 0
			tarn_reflector_state{informer="pods",namespace="",state="listing"} 0
			tarn_reflector_state{informer="pods",namespace="",state="stopped"} 0
			tarn_reflector_state{informer="pods",namespace="",state="streaming"} 0
			tarn_reflector_state{informer="pods",namespace="",state="watching"} 1
			tarn_reflector_streaming_lists_total{informer="pods",namespace=""} 1
			tarn_reflector_watches_total{informer="pods",namespace=""} 2`,
			"tarn_informer_index_failures_total", "tarn_informer_index_values", "tarn_informer_live", "tarn_informer_objects",
			"tarn_informer_quarantined_objects", "tarn_informer_subscriber_lag_changes", "tarn_informer_subscriber_lag_seconds",
			"tarn_informer_synced", "tarn_reflector_connected", "tarn_reflector_lists_total", "tarn_reflector_requests_ended_total",
			"tarn_reflector_state", "tarn_reflector_streaming_lists_total", "tarn_reflector_watches_total")

		m.RemoveInformer("pods")
		if n, err := testutil.GatherAndCount(reg); n != 0 || err != nil {
			t.Errorf("after RemoveInformer there are %d series, %v", n, err)
		}
	})
}

func TestControllersAreShownByResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, reg := newExporter(t)
		keys := make(chan string)
		attempts := map[string]int{}
		free := make(chan struct{})
		c, err := controller.New("web", func(_ context.Context, key string) (controller.Result, error) {
			attempts[key]++
			first := attempts[key] == 1
			<-time.After(time.Second)
			switch {
			case key == "panic" && first:
				panic("oops")
			case key == "error" && first:
				return controller.Result{}, errors.New("oops")
			case key == "terminal":
				return controller.Result{}, controller.Terminal(errors.New("oops"))
			case key == "stale" && first:
				return controller.Result{}, controller.ErrStaleCache
			case key == "requeue" && first:
				return controller.Result{Requeue: true}, nil
			case key == "long":
				<-free
			}
			return controller.Result{}, nil
		}, controller.Options[string]{Queue: workqueue.Options[string]{Metrics: m.Queue("web")}}, controller.Channel("keys", keys))
		if err != nil {
			t.Fatal(err)
		}
		if err := m.AddController(c); err != nil {
			t.Fatal(err)
		}
		start(t, c)
		t.Cleanup(func() {
			close(free)
			simtest.Advance(time.Minute) // nothing is left to do
		})
		for _, key := range []string{"fine", "panic", "error", "terminal", "stale", "requeue"} {
			keys <- key
			simtest.Advance(time.Minute)
		}
		keys <- "long"
		keys <- "waiting"
		simtest.Advance(time.Minute)
		expect(t, reg, `
			tarn_controller_active_workers{controller="web"} 1
			tarn_controller_failing_keys{controller="web"} 1
			tarn_controller_fenced{controller="web"} 0
			tarn_controller_given_up_total{controller="web"} 1
			tarn_controller_held_total{controller="web"} 1
			tarn_controller_panics_total{controller="web"} 1
			tarn_controller_reconcile_duration_seconds{controller="web",quantile="0.5"} 1
			tarn_controller_reconcile_duration_seconds{controller="web",quantile="0.99"} 1
			tarn_controller_reconcile_duration_seconds{controller="web",quantile="1"} 1
			tarn_controller_reconcile_duration_seconds_sum{controller="web"} 10
			tarn_controller_reconcile_duration_seconds_count{controller="web"} 10
			tarn_controller_reconciles_total{controller="web",result="stale"} 1
			tarn_controller_reconciles_total{controller="web",result="conflict"} 0
			tarn_controller_reconciles_total{controller="web",result="error"} 3
			tarn_controller_reconciles_total{controller="web",result="requeue"} 1
			tarn_controller_reconciles_total{controller="web",result="success"} 5
			tarn_controller_state{controller="web",state="cancelled"} 0
			tarn_controller_state{controller="web",state="draining"} 0
			tarn_controller_state{controller="web",state="idle"} 0
			tarn_controller_state{controller="web",state="starting"} 0
			tarn_controller_state{controller="web",state="working"} 1
			workqueue_depth{name="web"} 1`,
			"tarn_controller_active_workers", "tarn_controller_failing_keys", "tarn_controller_fenced", "tarn_controller_given_up_total",
			"tarn_controller_held_total", "tarn_controller_panics_total", "tarn_controller_reconcile_duration_seconds",
			"tarn_controller_reconciles_total", "tarn_controller_state", "workqueue_depth")
		m.RemoveController("web")
		if n, err := testutil.GatherAndCount(reg); n != 0 || err != nil {
			t.Errorf("after RemoveController there are %d series, %v", n, err)
		}
	})
}

// fixed is a controller with the status that a test gives it.
type fixed struct{ status controller.Status }

func (c *fixed) Name() string              { return c.status.Name }
func (c *fixed) Status() controller.Status { return c.status }

func TestSuccessesNeverFall(t *testing.T) {
	m, reg := newExporter(t)
	c := &fixed{controller.Status{Name: "web", Reconciles: 10}}
	if err := m.AddController(c); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		reconciles, failed uint64
		want               string
	}{{10, 0, "10"}, {10, 1, "10"}, {12, 1, "11"}, {0, 3, "11"}} {
		c.status.Reconciles, c.status.Failed = step.reconciles, step.failed
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			for _, s := range f.GetMetric() {
				if f.GetName() == "tarn_controller_reconciles_total" && strings.Contains(s.String(), `"success"`) {
					if got := s.GetCounter().String(); !strings.Contains(got, "value:"+step.want) {
						t.Errorf("%d reconciles, %d failed: successes %s, want %s", step.reconciles, step.failed, got, step.want)
					}
				}
			}
		}
	}
}

func TestANameIsShownOnce(t *testing.T) {
	m, reg := newExporter(t)
	q := workqueue.New(workqueue.Options[string]{})
	c := &fixed{controller.Status{Name: "web"}}
	if err := errors.Join(m.AddQueue("web", q), m.AddController(&fixed{controller.Status{Name: "db"}})); err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"queue":                   m.AddQueue("web", q),
		"controller":              m.AddController(&fixed{controller.Status{Name: "db"}}),
		"a controller as a queue": m.AddController(c),
	} {
		if !errors.Is(err, metrics.ErrTaken) {
			t.Errorf("%s: %v, want ErrTaken", what, err)
		}
	}
	m.RemoveQueue("web")
	if err := m.AddController(c); err != nil {
		t.Errorf("after the other was removed: %v", err)
	}
	if _, err := reg.Gather(); err != nil {
		t.Error(err)
	}
}

func TestOneExporterForARegistryUntilItIsClosed(t *testing.T) {
	m, reg := newExporter(t)
	var taken prometheus.AlreadyRegisteredError
	if _, err := metrics.New(reg, metrics.Options{}); !errors.As(err, &taken) {
		t.Errorf("a second one: %v, want %T", err, taken)
	}
	m.Close()
	if _, err := metrics.New(reg, metrics.Options{}); err != nil {
		t.Errorf("after Close: %v", err)
	}
}

func TestTheNamesAreAsPrometheusAdvises(t *testing.T) {
	m, reg := newExporter(t)
	m.Queue("web").Waited(time.Second)
	if err := m.AddController(&fixed{controller.Status{Name: "web"}}); err != nil {
		t.Fatal(err)
	}
	problems, err := testutil.GatherAndLint(reg)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}
