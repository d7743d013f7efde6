package tarn_test

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tarnproject/tarn"
)

// An audit proves that a mirror is what the server has, at one exact version. With the option it runs
// once an hour.
func ExampleCluster_Audit() {
	_, options, end := demo(pod("shop", "web", "node-7"), pod("shop", "db", "node-3"))
	defer end()
	cluster := must(tarn.Connect(options, tarn.WithAudit(time.Hour)))
	pods := must(tarn.MirrorOf[*corev1.Pod](cluster))
	ctx, stop := run(cluster)
	defer stop()
	results, err := cluster.Audit(ctx)
	for name, result := range results {
		fmt.Println(name, result.Objects, result.Count(), err)
	}
	result, err := pods.Audit(ctx)
	fmt.Println(result.Objects, result.Differences, err)
	// Output:
	// pods 2 0 <nil>
	// 2 [] <nil>
}
