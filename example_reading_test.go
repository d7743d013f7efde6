package tarn_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/store"
	"github.com/tarnproject/tarn/wire"
)

// A program that learns its types when it runs, and reads one mirror as pods and as their metadata.
func ExampleMirror_DecoderFor() {
	_, options, end := demo(pod("shop", "web", "node-7"))
	defer end()
	failed := func(mirror string, err error) { fmt.Println(mirror, err) }
	cluster := must(tarn.Connect(options, tarn.WithWatchErrors(failed)))
	resource := object.Resource{Version: "v1", Resource: "pods", Kind: "Pod", Namespaced: true}
	pods := must(tarn.MirrorResource(cluster, wire.Like[tarn.Object](resource, &corev1.Pod{}), tarn.Compact(), tarn.Latest()))
	ctx, stop := run(cluster)
	defer stop()
	if err := cluster.WaitSynced(ctx); err != nil {
		panic(err)
	}
	decode := must(pods.DecoderFor(&metav1.PartialObjectMetadata{}))
	metadata := store.NewReading(func(raw []byte) tarn.Object { return must(decode(raw)) })
	pods.View(func(snap tarn.Snapshot[tarn.Object]) {
		for obj := range snap.With(metadata.Owned()).All() {
			fmt.Printf("%T %s\n", obj, obj.GetName())
		}
	})
	web, _ := pods.Get(key("shop", "web"))
	fmt.Println(web.(*corev1.Pod).Spec.NodeName)
	// Output:
	// *v1.PartialObjectMetadata web
	// node-7
}
