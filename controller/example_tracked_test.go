package controller_test

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/internal/sim/simtest"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/store"
	"github.com/tarnproject/tarn/wire"
	"github.com/tarnproject/tarn/wire/stream"
)

// serve runs an embedded API server and an informer of its pods until end is called.
func serve() (api *wire.API[*corev1.Pod], pods *informer.Informer[*corev1.Pod], end func()) {
	must := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	server, err := apiserver.New(apiserver.Options{})
	must(err)
	client, err := wire.New(server.Config(), wire.Options{})
	must(err)
	api = wire.For(client, wire.MustOf[*corev1.Pod]())
	source, err := stream.NewSource(api, object.Selection{}, stream.Options{})
	must(err)
	pods, err = informer.New(source, object.Meta[*corev1.Pod](), informer.Options[*corev1.Pod]{Name: "pods"})
	must(err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- server.Run(ctx) }()
	go func() { ended <- pods.Run(ctx) }()
	must(pods.WaitSynced(ctx))
	return api, pods, func() {
		stop()
		must(errors.Join(<-ended, <-ended))
	}
}

// What is tracked may be sent in any way, here by package wire.
func ExampleTracked_Write() {
	api, pods, end := serve()
	defer end()
	tracked := controller.Track(pods)
	ctx, key := context.Background(), object.Key{Namespace: "default", Name: "web"}

	web, err := tracked.Write(ctx, key, func(ctx context.Context) (*corev1.Pod, error) {
		config := map[string]any{"metadata": map[string]any{"labels": map[string]any{"app": "web"}}}
		return api.Apply(ctx, key, config, wire.WriteOptions{FieldManager: "example"})
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	web.Status.Phase = corev1.PodRunning
	if _, err := tracked.Write(ctx, key, func(ctx context.Context) (*corev1.Pod, error) {
		return api.UpdateStatus(ctx, web, wire.WriteOptions{})
	}); err != nil {
		fmt.Println(err)
	}
	snap, err := tracked.Snapshot(ctx) // has both writes
	if err != nil {
		fmt.Println(err)
		return
	}
	defer snap.Release()
	for pod := range snap.All() {
		fmt.Println(pod.Name, pod.Labels, pod.Status.Phase)
	}
	// Output:
	// web map[app:web] Running
}

func ExampleTracked_Delete() {
	api, pods, end := serve()
	defer end()
	tracked, ctx, key := controller.Track(pods), context.Background(), object.Key{Namespace: "default", Name: "web"}
	_, err := tracked.Write(ctx, key, func(ctx context.Context) (*corev1.Pod, error) {
		return api.Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}, wire.WriteOptions{})
	})
	fmt.Println(err)
	err = tracked.Delete(ctx, key, func(ctx context.Context) (object.Deletion, error) {
		return api.DeleteReturning(ctx, key, wire.DeleteOptions{})
	})
	fmt.Println(err)
	_ = pods.Writes().Wait(ctx, key)
	_, found, err := tracked.Get(key)
	fmt.Println(found, err)
	// Output:
	// <nil>
	// <nil>
	// false <nil>
}

// podCache is a cache of the program's own: an informer with an index.
type podCache struct {
	pods   *informer.Informer[*corev1.Pod]
	byNode *store.Index[*corev1.Pod, string]
}

// Informer implements controller.Cache.
func (c podCache) Informer() *informer.Informer[*corev1.Pod] { return c.pods.Informer() }

func (c podCache) count(node string) (n int) {
	c.pods.View(func(s store.Snapshot[*corev1.Pod]) { n = c.byNode.Count(s, node) })
	return n
}

// Functions that build sources take a Cache, so that they work with informers, with mirrors of
// package tarn, and with types of the program.
func ExampleCache() {
	nodesOf := func(pods controller.Cache[*corev1.Pod]) controller.Source[string] {
		return controller.Watches(pods, func(p *corev1.Pod, add func(string)) { add(p.Spec.NodeName) })
	}
	srv := simtest.Pods()
	srv.Set("shop/web", func(p *corev1.Pod) { p.Spec.NodeName = "node-1" })
	byNode := store.NewIndex("node", func(p *corev1.Pod) string { return p.Spec.NodeName })
	cache := podCache{newInformer("pods", srv), byNode}
	cache.pods.AddIndex(byNode)
	reconciled(1, nodesOf(cache), cache.pods)
	fmt.Println(cache.count("node-1"), "pod")
	// Output:
	// node-1
	// 1 pod
}

// The objects of one cache may have owners of several kinds.
func ExampleOwns() {
	nsServer, cmServer := simtest.New[*corev1.Namespace](100), simtest.New[*corev1.ConfigMap](200)
	nss, cms := newInformer("namespaces", nsServer), newInformer("configmaps", cmServer)
	ownedBy := func(owner metav1.Object, resource object.Resource) func(*corev1.ConfigMap) {
		return func(cm *corev1.ConfigMap) { _ = controller.SetOwner(cm, owner, resource) }
	}
	cmServer.Set("shop/a", ownedBy(nsServer.Set("shop"), nss.Resource()))
	cmServer.Set("shop/b", ownedBy(cmServer.Set("shop/parent"), cms.Resource()))

	var sources []controller.Source[object.Key]
	for _, owners := range []controller.Owners{nss, cms} {
		sources = append(sources, controller.Owns(cms, owners))
	}
	reconciledAll(2, sources, nss, cms)
	// Unordered output:
	// shop
	// shop/parent
}
