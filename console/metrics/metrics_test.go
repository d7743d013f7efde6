package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
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
	m, err := metrics.New(reg)
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

// only returns a cluster of one informer or controller.
func only(part any) metrics.Cluster {
	if inf, ok := part.(metrics.Informer); ok {
		return metrics.Static([]metrics.Informer{inf}, nil)
	}
	return metrics.Static(nil, []metrics.Controller{part.(metrics.Controller)})
}

// histogram returns the number, sum and native schema of the observations of a series, and how
// many classic buckets it has.
func histogram(t *testing.T, reg prometheus.Gatherer, name string) (n uint64, sum float64, native int32, classic int) {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			h := f.GetMetric()[0].GetHistogram()
			return h.GetSampleCount(), h.GetSampleSum(), h.GetSchema(), len(h.GetBucket())
		}
	}
	t.Fatalf("no histogram %s", name)
	return
}

func TestQueuesHaveTheNamesAndLabelsOfControllerRuntime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, reg := newExporter(t)
		q := workqueue.New(workqueue.Options[string]{Metrics: m.Queue("web")})
		remove := m.AddQueue("web", q)
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
			workqueue_adds_total{controller="web",name="web"} 4
			workqueue_delayed{controller="web",name="web"} 1
			workqueue_depth{controller="web",name="web",priority=""} 2
			workqueue_longest_running_processor_seconds{controller="web",name="web"} 3
			workqueue_processing{controller="web",name="web"} 1
			workqueue_retries_total{controller="web",name="web"} 1
			workqueue_unfinished_work_seconds{controller="web",name="web"} 3`,
			"workqueue_adds_total", "workqueue_delayed", "workqueue_depth", "workqueue_longest_running_processor_seconds",
			"workqueue_processing", "workqueue_retries_total", "workqueue_unfinished_work_seconds")
		for name, want := range map[string]string{
			"workqueue_queue_duration_seconds": "2 24 3 12", "workqueue_work_duration_seconds": "1 20 3 12",
		} {
			n, sum, native, classic := histogram(t, reg, name)
			simtest.Want(t, name, fmt.Sprint(n, sum, native, classic), want)
		}
		q.ShutDown()
		expect(t, reg, `workqueue_dropped_total{controller="web",name="web"} 1`, "workqueue_dropped_total")

		remove()
		remove()
		m.Forget("web")
		if n, err := testutil.GatherAndCount(reg); n != 0 || err != nil {
			t.Errorf("after Forget there are %d series, %v", n, err)
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
		remove := m.AddCluster(only(pods))
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

		remove()
		if n, err := testutil.GatherAndCount(reg); n != 0 || err != nil {
			t.Errorf("after the cluster was removed there are %d series, %v", n, err)
		}
	})
}

func TestReconcilesHaveTheNamesOfControllerRuntime(t *testing.T) {
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
			case key == "after" && first:
				return controller.Result{RequeueAfter: time.Second}, nil
			case key == "long":
				<-free
			}
			return controller.Result{}, nil
		}, controller.Options[string]{
			Workers: 2, Observers: []controller.Observer{m.Reconcile}, Queue: workqueue.Options[string]{Metrics: m.Queue("web")},
		}, controller.Channel("keys", keys))
		if err != nil {
			t.Fatal(err)
		}
		remove := m.AddCluster(only(c))
		expect(t, reg, `controller_runtime_reconcile_errors_total{controller="web"} 0`, "controller_runtime_reconcile_errors_total")
		start(t, c)
		t.Cleanup(func() {
			close(free)
			simtest.Advance(time.Minute) // nothing is left to do
		})
		for _, key := range []string{"fine", "panic", "error", "terminal", "stale", "requeue", "after"} {
			keys <- key
			simtest.Advance(time.Minute)
		}
		keys <- "long"
		simtest.Advance(time.Minute)
		expect(t, reg, `
			controller_runtime_active_workers{controller="web"} 1
			controller_runtime_max_concurrent_reconciles{controller="web"} 2
			controller_runtime_reconcile_errors_total{controller="web"} 3
			controller_runtime_reconcile_panics_total{controller="web"} 1
			controller_runtime_reconcile_total{controller="web",result="conflict"} 0
			controller_runtime_reconcile_total{controller="web",result="error"} 3
			controller_runtime_reconcile_total{controller="web",result="fenced"} 0
			controller_runtime_reconcile_total{controller="web",result="requeue"} 1
			controller_runtime_reconcile_total{controller="web",result="requeue_after"} 1
			controller_runtime_reconcile_total{controller="web",result="stale"} 1
			controller_runtime_reconcile_total{controller="web",result="success"} 6
			controller_runtime_terminal_reconcile_errors_total{controller="web"} 1
			tarn_controller_failing_keys{controller="web"} 1
			tarn_controller_fenced{controller="web"} 0
			tarn_controller_given_up_total{controller="web"} 1
			tarn_controller_held_seconds{controller="web"} 0
			tarn_controller_held_total{controller="web"} 1
			tarn_controller_state{controller="web",state="cancelled"} 0
			tarn_controller_state{controller="web",state="draining"} 0
			tarn_controller_state{controller="web",state="idle"} 0
			tarn_controller_state{controller="web",state="starting"} 0
			tarn_controller_state{controller="web",state="working"} 1
			workqueue_processing{controller="web",name="web"} 1`,
			"controller_runtime_active_workers", "controller_runtime_max_concurrent_reconciles", "controller_runtime_reconcile_errors_total",
			"controller_runtime_reconcile_panics_total", "controller_runtime_reconcile_total", "controller_runtime_terminal_reconcile_errors_total",
			"tarn_controller_failing_keys", "tarn_controller_fenced", "tarn_controller_given_up_total", "tarn_controller_held_seconds", "tarn_controller_held_total",
			"tarn_controller_state", "workqueue_processing")
		n, sum, native, classic := histogram(t, reg, "controller_runtime_reconcile_time_seconds")
		simtest.Want(t, "reconcile time", fmt.Sprint(n, sum, native, classic), "12 12 3 40")
		remove()
		m.Forget("web")
		if n, err := testutil.GatherAndCount(reg); n != 0 || err != nil {
			t.Errorf("after Forget there are %d series, %v", n, err)
		}
	})
}

func TestRequestsHaveTheNamesOfClientGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, reg := newExporter(t)
		server := apiserver.Start(t, apiserver.Options{Bookmarks: time.Hour})
		client, err := wire.New(server.Config(), wire.Options{Observers: []wire.Observer{m.Request}})
		if err != nil {
			t.Fatal(err)
		}
		pods := wire.For(client, wire.MustOf[*corev1.Pod]())
		if _, err := pods.Create(t.Context(), pod("a"), wire.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := pods.Get(t.Context(), object.Key{Namespace: "default", Name: "b"}, wire.GetOptions{}); err == nil {
			t.Fatal("found a pod that does not exist")
		}
		if _, _, err := stream.List(t.Context(), pods, object.ListOptions{}); err != nil {
			t.Fatal(err)
		}
		watch, err := stream.Watch(t.Context(), pods, object.WatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
		watch.Close()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := pods.Get(ctx, object.Key{Namespace: "default", Name: "b"}, wire.GetOptions{}); err == nil {
			t.Fatal("a cancelled request succeeded")
		}
		host := client.Host()
		expect(t, reg, `
			rest_client_requests_total{code="200",host="`+host+`",method="GET"} 2
			rest_client_requests_total{code="201",host="`+host+`",method="POST"} 1
			rest_client_requests_total{code="404",host="`+host+`",method="GET"} 1
			rest_client_requests_total{code="<error>",host="`+host+`",method="GET"} 1`, "rest_client_requests_total")
		n, _, native, classic := histogram(t, reg, "rest_client_request_duration_seconds") // of GET: all but the watch
		simtest.Want(t, "request duration", fmt.Sprint(n, native, classic), "3 3 12")
	})
}

// fence is a fence that a test opens and closes.
type fence struct{ closed bool }

func (f *fence) Check() error {
	if f.closed {
		return controller.ErrNotLeading
	}
	return nil
}

func (f *fence) Lost() <-chan struct{} { return nil }

// elected leads at once.
type elected struct{ fence *fence }

func (e elected) Run(ctx context.Context, lead func(context.Context, controller.Fence) error) error {
	return lead(ctx, e.fence)
}

func TestLeadershipIsThatOfTheFence(t *testing.T) {
	m, reg := newExporter(t)
	l := m.Leadership("shop", elected{&fence{}})
	status := func(want string) {
		t.Helper()
		expect(t, reg, `leader_election_master_status{name="shop"} `+want, "leader_election_master_status")
	}
	status("0")
	err := l.Run(t.Context(), func(_ context.Context, f controller.Fence) error {
		status("1")
		f.(*fence).closed = true
		status("0")
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	status("0")
}

// fixed is a controller with the status that a test gives it.
type fixed struct{ status controller.Status }

func (c *fixed) Name() string              { return c.status.Name }
func (c *fixed) Status() controller.Status { return c.status }

// still is an informer with the status that a test gives it.
type still struct{ status informer.Status }

func (i *still) Name() string            { return i.status.Name }
func (i *still) Status() informer.Status { return i.status }

// changing is a cluster whose parts come and go.
type changing struct {
	informers   []metrics.Informer
	controllers []metrics.Controller
}

func (c *changing) Informers() []metrics.Informer     { return c.informers }
func (c *changing) Controllers() []metrics.Controller { return c.controllers }

func TestPartsOfAClusterComeAndGo(t *testing.T) {
	m, reg := newExporter(t)
	c := &changing{}
	defer m.AddCluster(c)()
	pods := func(objects int, synced bool, oldest time.Duration) *still {
		s := informer.Status{Name: "pods", Synced: synced}
		s.Store.Objects, s.Pending.Oldest = objects, oldest
		return &still{s}
	}
	names := []string{"tarn_informer_objects", "tarn_informer_synced", "tarn_informer_pending_seconds"}
	expect(t, reg, "", names...)
	c.informers = []metrics.Informer{pods(3, true, time.Second)}
	expect(t, reg, `
		tarn_informer_objects{informer="pods"} 3
		tarn_informer_pending_seconds{informer="pods"} 1
		tarn_informer_synced{informer="pods"} 1`, names...)
	c.informers = append(c.informers, pods(4, false, 2*time.Second), pods(1, true, 0))
	expect(t, reg, `
		tarn_informer_objects{informer="pods"} 8
		tarn_informer_pending_seconds{informer="pods"} 2
		tarn_informer_synced{informer="pods"} 0`, names...)
	c.controllers = []metrics.Controller{&fixed{controller.Status{Name: "web", Workers: 1}}, &fixed{controller.Status{Name: "web", Workers: 2}}}
	remove := m.AddCluster(only(c.controllers[0]))
	expect(t, reg, `controller_runtime_max_concurrent_reconciles{controller="web"} 4`, "controller_runtime_max_concurrent_reconciles")
	remove()
	c.informers = nil
	expect(t, reg, "", names...)
	expect(t, reg, `controller_runtime_max_concurrent_reconciles{controller="web"} 3`, "controller_runtime_max_concurrent_reconciles")
}

func TestScrapesAndEventsMayBeConcurrent(t *testing.T) {
	m, reg := newExporter(t)
	var group sync.WaitGroup
	for i := range 4 {
		group.Go(func() {
			for range 50 {
				remove := m.AddCluster(only(&fixed{controller.Status{Name: "web"}}))
				_, end := m.Reconcile(t.Context(), controller.ReconcileStart{Controller: "web"})
				end(controller.ReconcileEnd{Outcome: controller.OutcomeSuccess})
				m.Queue("web").Added(1)
				if _, err := reg.Gather(); err != nil {
					t.Error(err)
				}
				remove()
				if i == 0 {
					m.Forget("web")
				}
			}
		})
	}
	group.Wait()

	// No call counts into a series that Forget removed.
	m.Forget("web")
	for _, outcome := range []controller.Outcome{controller.OutcomeSuccess, controller.OutcomePanic, "unheard-of"} {
		_, end := m.Reconcile(t.Context(), controller.ReconcileStart{Controller: "web"})
		end(controller.ReconcileEnd{Outcome: outcome})
	}
	expect(t, reg, `
		controller_runtime_reconcile_errors_total{controller="web"} 1
		controller_runtime_reconcile_panics_total{controller="web"} 1`,
		"controller_runtime_reconcile_errors_total", "controller_runtime_reconcile_panics_total")
	n, _, _, _ := histogram(t, reg, "controller_runtime_reconcile_time_seconds")
	outcomes, err := testutil.GatherAndCount(reg, "controller_runtime_reconcile_total")
	simtest.Want(t, "reconciles, outcomes", fmt.Sprint(n, outcomes, err), "3 8 <nil>")
}

func TestOneExporterForARegistryUntilItIsClosed(t *testing.T) {
	m, reg := newExporter(t)
	var taken prometheus.AlreadyRegisteredError
	if _, err := metrics.New(reg); !errors.As(err, &taken) {
		t.Errorf("a second one: %v, want %T", err, taken)
	}
	m.Close()
	if _, err := metrics.New(reg); err != nil {
		t.Errorf("after Close: %v", err)
	}
}
