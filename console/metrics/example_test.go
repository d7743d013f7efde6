package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tarnproject/tarn/console/metrics"
	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/controller/shard"
	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/wire"
	"github.com/tarnproject/tarn/workqueue"
)

// show prints the counters and gauges of some names, with the values of their labels.
func show(reg prometheus.Gatherer, names ...string) {
	families, err := reg.Gather()
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, f := range families {
		for _, name := range names {
			if f.GetName() != name {
				continue
			}
			for _, m := range f.GetMetric() {
				fmt.Print(name)
				for _, l := range m.GetLabel() {
					fmt.Print(" ", l.GetName(), "=", l.GetValue())
				}
				fmt.Println(":", m.GetCounter().GetValue()+m.GetGauge().GetValue()+m.GetHistogram().GetSampleSum())
			}
		}
	}
}

func Example() {
	reg := prometheus.NewRegistry()
	m, err := metrics.New(reg)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Close()
	done := make(chan struct{})
	keys := make(chan string, 1)
	web, err := controller.New("web", func(context.Context, string) (controller.Result, error) {
		close(done)
		return controller.Result{}, controller.Terminal(errors.New("no such image"))
	}, controller.Options[string]{
		Observers: []controller.Observer{m.Reconcile},
		Queue:     workqueue.Options[string]{Metrics: m.Queue("web")},
	}, controller.Channel("keys", keys))
	if err != nil {
		fmt.Println(err)
		return
	}
	m.AddCluster(metrics.Static(nil, []metrics.Controller{web}))

	ctx, stop := context.WithCancel(context.Background())
	keys <- "shop/web"
	go func() { <-done; stop() }()
	_ = web.Run(ctx)
	show(reg, "controller_runtime_terminal_reconcile_errors_total", "workqueue_adds_total")
	// Output:
	// controller_runtime_terminal_reconcile_errors_total controller=web: 1
	// workqueue_adds_total controller=web name=web: 1
}

// mirrors is a cluster whose informers come and go.
type mirrors map[string]*still

func (m mirrors) Informers() (all []metrics.Informer) {
	for _, inf := range m {
		all = append(all, inf)
	}
	return all
}

func (m mirrors) Controllers() []metrics.Controller { return nil }

// Each scrape asks the cluster for its present informers.
func ExampleExporter_AddCluster() {
	reg := prometheus.NewRegistry()
	m, _ := metrics.New(reg)
	cluster := mirrors{}
	remove := m.AddCluster(cluster)
	defer remove()
	cluster["pods"] = &still{informer.Status{Name: "pods", Synced: true}}
	show(reg, "tarn_informer_synced")
	delete(cluster, "pods")
	show(reg, "tarn_informer_synced")
	// Output: tarn_informer_synced informer=pods: 1
}

// A queue without a controller.
func ExampleExporter_AddQueue() {
	reg := prometheus.NewRegistry()
	m, _ := metrics.New(reg)
	queue := workqueue.New(workqueue.Options[string]{Metrics: m.Queue("mail")})
	defer m.AddQueue("mail", queue)()
	queue.Add("a@example.com")
	queue.Add("b@example.com")
	show(reg, "workqueue_depth")
	queue.ShutDown()
	m.Forget("mail")
	show(reg, "workqueue_adds_total")
	// Output: workqueue_depth controller=mail name=mail priority=: 2
}

// A group of processes that share the keys.
func ExampleExporter_AddShards() {
	reg := prometheus.NewRegistry()
	m, _ := metrics.New(reg)
	var group metrics.Shards = grouped{shard.Status{Group: "shop/web", Slots: []shard.Slot{3, 7, 9}}} // a *shard.Group
	defer m.AddShards(group)()
	show(reg, "tarn_shard_slots")
	// Output: tarn_shard_slots group=shop/web: 3
}

// Request is an observer for wire.Options.
func ExampleExporter_Request() {
	reg := prometheus.NewRegistry()
	m, _ := metrics.New(reg)
	opts := wire.Options{Observers: []wire.Observer{m.Request}}

	// The client does this for each attempt.
	_, end := opts.Observers[0](context.Background(), wire.AttemptStart{Method: "GET", Host: "cluster.example"})
	end(wire.AttemptEnd{Code: 200, Duration: time.Second})
	show(reg, "rest_client_requests_total", "rest_client_request_duration_seconds")
	// Output:
	// rest_client_request_duration_seconds host=cluster.example verb=GET: 1
	// rest_client_requests_total code=200 host=cluster.example method=GET: 1
}

// Leadership is given to controller.WhileLeading in place of the elector.
func ExampleExporter_Leadership() {
	reg := prometheus.NewRegistry()
	m, _ := metrics.New(reg)
	leading := m.Leadership("shop/web", elected{&fence{}})
	_ = leading.Run(context.Background(), func(context.Context, controller.Fence) error {
		show(reg, "leader_election_master_status")
		return nil
	})
	show(reg, "leader_election_master_status")
	// Output:
	// leader_election_master_status name=shop/web: 1
	// leader_election_master_status name=shop/web: 0
}
