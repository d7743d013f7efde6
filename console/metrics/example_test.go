package metrics_test

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tarnproject/tarn/console/metrics"
	"github.com/tarnproject/tarn/workqueue"
)

func Example() {
	reg := prometheus.NewRegistry()
	m, err := metrics.New(reg, metrics.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	queue := workqueue.New(workqueue.Options[string]{Metrics: m.Queue("web")})
	if err := m.AddQueue("web", queue); err != nil {
		fmt.Println(err)
		return
	}
	queue.Add("shop/web")
	queue.Add("shop/db")

	families, err := reg.Gather()
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, f := range families {
		switch f.GetName() {
		case "workqueue_adds_total":
			fmt.Println(f.GetName(), f.GetMetric()[0].GetCounter().GetValue())
		case "workqueue_depth":
			fmt.Println(f.GetName(), f.GetMetric()[0].GetGauge().GetValue())
		}
	}
	// Output:
	// workqueue_adds_total 2
	// workqueue_depth 2
}
