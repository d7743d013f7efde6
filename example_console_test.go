package tarn_test

import (
	"fmt"
	"log"

	corev1 "k8s.io/api/core/v1"

	"github.com/tarnproject/tarn"
)

// A page of the program's own reads mirrors and controllers of any type by their names, as the
// console does.
func ExampleCluster_MirrorNamed() {
	_, options, end := demo(pod("shop", "web", "node-7"))
	defer end()
	cluster := must(tarn.Connect(options))
	pods := must(tarn.MirrorOf[*corev1.Pod](cluster))
	must(tarn.NewController(cluster, "website", idle, tarn.For(pods)))
	ctx, stop := run(cluster)
	defer stop()
	if err := cluster.WaitSynced(ctx); err != nil {
		log.Fatal(err)
	}
	mirror := cluster.MirrorNamed("pods")
	mirror.Keys(func(key tarn.Key) bool {
		fmt.Println(mirror.Resource(), key)
		return true
	})
	fmt.Println(cluster.ControllerNamed("website").Name(), cluster.ControllerNamed("mail") == nil)
	// Output:
	// pods shop/web
	// website true
}
