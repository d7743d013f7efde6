package tarn_test

import (
	"fmt"
	"log"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/controller/shard"
	"github.com/tarnproject/tarn/object"
)

// The first of two replicas mirrors half of the namespaces, and all of them when the other one ends.
func ExampleInShard() {
	settings := func(namespace string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "settings"}}
	}
	_, opts, end := demo(settings("bank"), settings("hotel"), settings("market"), settings("shop"))
	defer end()
	cluster := must(tarn.Connect(opts))
	part := tarn.NewShard(object.Part(object.ByNamespace, 0, 2))
	maps := must(tarn.MirrorOf[*corev1.ConfigMap](cluster, tarn.InShard(part)))
	ctx, stop := run(cluster)
	defer stop()
	show := func() {
		if err := cluster.WaitSynced(ctx); err != nil {
			log.Fatal(err)
		}
		maps.View(func(snap tarn.Snapshot[*corev1.ConfigMap]) {
			var namespaces []string
			for m := range snap.Sorted() {
				namespaces = append(namespaces, m.Namespace)
			}
			fmt.Printf("%v: %v\n", part.Part(), namespaces)
		})
	}
	show()
	part.Set(object.Part(object.ByNamespace, 0, 1))
	show()
	// Output:
	// 50.0 % by object.metadata.namespace: [hotel shop]
	// 100.0 % by object.metadata.namespace: [bank hotel market shop]
}

// Each replica mirrors the ConfigMaps of the namespaces that it reconciles, and all Secrets.
func ExampleUnsharded() {
	_, opts, end := demo()
	defer end()
	cluster := must(tarn.Connect(opts, tarn.WithSharding("web", shard.Options{Ranges: true})))
	maps := must(tarn.MirrorOf[*corev1.ConfigMap](cluster))
	secrets := must(tarn.MirrorOf[*corev1.Secret](cluster, tarn.Unsharded()))
	fmt.Println(maps.Name())
	fmt.Println(secrets.Name())
	// Output:
	// configmaps of a shard
	// secrets
}
