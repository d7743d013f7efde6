package informer_test

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/internal/sim/simtest"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
	"github.com/tarnproject/tarn/store"
)

// The examples mirror a small cluster in memory. A real source comes from package wire.
var listAndWatch = reflector.Options[*corev1.Pod]{Streaming: reflector.StreamingOff}

// running starts an informer; end stops it and waits for its end.
func running(inf *podInformer) (ctx context.Context, end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- inf.Run(ctx) }()
	return ctx, func() {
		cancel()
		if err := <-done; err != nil {
			fmt.Println(err)
		}
	}
}

// Make an informer, run it, wait until it has the state, and read.
func Example() {
	cluster := simtest.Pods("shop/db", "shop/web")
	pods, err := informer.New(cluster, object.Meta[*corev1.Pod](), informer.Options[*corev1.Pod]{
		Name: "pods", Reflector: listAndWatch,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, end := running(pods)
	defer end()
	if err := pods.WaitSynced(ctx); err != nil {
		fmt.Println(err) // says why
		return
	}
	web, ok := pods.Get(object.Key{Namespace: "shop", Name: "web"})
	fmt.Println(web.Name, ok)

	snap := pods.Snapshot() // never changes
	defer snap.Release()
	fmt.Println(snap.Len(), "pods at version", snap.Version())
	// Output:
	// web true
	// 2 pods at version 102
}

// An index is a value; it is asked with a snapshot, and may be added at any time.
func ExampleInformer_AddIndex() {
	cluster := simtest.Pods()
	cluster.Set("shop/db", onNode("node-1"))
	cluster.Set("shop/web", onNode("node-2"))
	byNode := store.NewIndex("node", func(p *corev1.Pod) string { return p.Spec.NodeName })
	pods, err := informer.New(cluster, object.Meta[*corev1.Pod](), informer.Options[*corev1.Pod]{Reflector: listAndWatch})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, end := running(pods)
	defer end()
	if err := pods.WaitSynced(ctx); err != nil {
		fmt.Println(err)
		return
	}
	pods.AddIndex(byNode)
	snap := pods.Snapshot()
	defer snap.Release()
	for pod := range byNode.Get(snap, "node-2") {
		fmt.Println(pod.Name)
	}
	// Output: web
}

// A handler is called for what is there and for what changes.
func ExampleInformer_Subscribe() {
	cluster := simtest.Pods("shop/web")
	pods, err := informer.New(cluster, object.Meta[*corev1.Pod](), informer.Options[*corev1.Pod]{Reflector: listAndWatch})
	if err != nil {
		fmt.Println(err)
		return
	}
	gone := make(chan struct{})
	sub, err := pods.Subscribe(informer.Handler[*corev1.Pod]{
		OnAdd: func(pod *corev1.Pod, isInitial bool) { fmt.Println("add", pod.Name, isInitial) },
		OnUpdate: func(old, pod *corev1.Pod) {
			fmt.Println("update", pod.Name, old.ResourceVersion, pod.ResourceVersion)
		},
		OnDelete: func(pod *corev1.Pod, finalStateUnknown bool) {
			fmt.Println("delete", pod.Name, finalStateUnknown)
			close(gone)
		},
	}, informer.SubOptions[*corev1.Pod]{Name: "printer"})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, end := running(pods)
	defer end()
	<-sub.Synced() // what was there has been printed
	cluster.Set("shop/web")
	cluster.Delete("shop/web")
	<-gone
	// Output:
	// add web true
	// update web 101 102
	// delete web false
}

// A loop is a subscriber too; leaving it is all that it takes to end it.
func ExampleInformer_Events() {
	cluster := simtest.Pods("shop/web")
	pods, err := informer.New(cluster, object.Meta[*corev1.Pod](), informer.Options[*corev1.Pod]{Reflector: listAndWatch})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, end := running(pods)
	defer end()
	for event := range pods.Events(ctx, informer.SubOptions[*corev1.Pod]{}) {
		if event.Initial {
			fmt.Println(event.Kind, event.Key)
			cluster.Set("shop/web", onNode("node-1"))
			continue
		}
		fmt.Printf("%v %v: node %q, was %q\n", event.Kind, event.Key, event.New().Spec.NodeName, event.Old().Spec.NodeName)
		break
	}
	// Output:
	// Added shop/web
	// Updated shop/web: node "node-1", was ""
}

// A function that gets many changes at once costs least.
func ExampleInformer_SubscribeBatch() {
	cluster := simtest.Pods("shop/db", "shop/web")
	pods, err := informer.New(cluster, object.Meta[*corev1.Pod](), informer.Options[*corev1.Pod]{Reflector: listAndWatch})
	if err != nil {
		fmt.Println(err)
		return
	}
	sub, err := pods.SubscribeBatch(func(_ context.Context, events []informer.Event[*corev1.Pod]) {
		fmt.Println(len(events), "events")
	}, informer.SubOptions[*corev1.Pod]{})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, end := running(pods)
	defer end()
	<-sub.Synced()
	// Output: 2 events
}

// Note what was written, and read nothing older.
func ExampleWrites() {
	cluster := simtest.Pods("shop/web")
	pods, err := informer.New(cluster, object.Meta[*corev1.Pod](), informer.Options[*corev1.Pod]{Reflector: listAndWatch})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, end := running(pods)
	defer end()
	if err := pods.WaitSynced(ctx); err != nil {
		fmt.Println(err)
		return
	}
	written := cluster.Set("shop/web", onNode("node-7")) // as the server returned it
	if err := pods.Writes().Wrote(written); err != nil {
		fmt.Println(err)
		return
	}
	web, _, err := pods.Writes().Get(ctx, object.Key{Namespace: "shop", Name: "web"})
	fmt.Println(web.Spec.NodeName, err, pods.Writes().Settled(object.Key{Namespace: "shop", Name: "web"}))
	// Output: node-7 <nil> true
}

// A handler that does not keep up holds up nobody. It is told, in the end, what leads
// from the state it knew to the present one, and not everything in between.
func Example_slowHandler() {
	cluster := simtest.Pods("shop/web")
	pods, err := informer.New(cluster, object.Meta[*corev1.Pod](), informer.Options[*corev1.Pod]{
		Log: 4, Reflector: listAndWatch,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	asleep, wake, last := make(chan struct{}), make(chan struct{}), make(chan struct{})
	updates := 0
	slow, err := pods.Subscribe(informer.Handler[*corev1.Pod]{
		OnAdd: func(*corev1.Pod, bool) {
			close(asleep)
			<-wake
		},
		OnUpdate: func(_, pod *corev1.Pod) {
			updates++
			if pod.ResourceVersion == "1101" {
				close(last)
			}
		},
	}, informer.SubOptions[*corev1.Pod]{Name: "slow"})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, end := running(pods)
	defer end()
	<-asleep
	for range 1000 {
		version := object.Version(cluster.Set("shop/web").ResourceVersion)
		if err := pods.WaitFor(ctx, version); err != nil { // the mirror goes on
			fmt.Println(err)
			return
		}
	}
	fmt.Println("behind by more than 900:", slow.Status().Lag > 900)
	close(wake)
	<-last
	fmt.Println("told of fewer than 10:", updates < 10)
	// Output:
	// behind by more than 900: true
	// told of fewer than 10: true
}

// An informer may cover a set of namespaces that changes while it runs.
func ExampleInformer_SetNamespaces() {
	cluster := simtest.Pods("blue/web", "green/web", "red/web")
	pods, err := informer.New(cluster, object.Meta[*corev1.Pod](), informer.Options[*corev1.Pod]{
		Namespaces: []string{"blue", "green"}, Reflector: listAndWatch,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, end := running(pods)
	defer end()
	print := func() {
		if err := pods.WaitSynced(ctx); err != nil {
			fmt.Println(err)
			return
		}
		snap := pods.Snapshot()
		defer snap.Release()
		fmt.Println(slices.SortedFunc(snap.Keys(), object.Key.Compare))
	}
	print()
	if err := pods.SetNamespaces("blue", "green", "red"); err != nil {
		fmt.Println(err)
		return
	}
	print()
	// Output:
	// [blue/web green/web]
	// [blue/web green/web red/web]
}

// A replica mirrors the first half of the namespaces, and then all of them.
func ExampleInformer_SetShard() {
	pods := newPods(simtest.Pods("bank/db", "shop/web"), informer.Options[*corev1.Pod]{
		Selection: object.Selection{Shard: object.Part(object.ByNamespace, 0, 2)},
	})
	ctx, end := synced(pods)
	defer end()
	print := func() { fmt.Printf("%v: %d pods\n", pods.Shard(), pods.Len()) }
	print()
	if err := pods.SetShard(object.Part(object.ByNamespace, 0, 1)); err != nil {
		fmt.Println(err)
		return
	}
	if err := pods.WaitSynced(ctx); err != nil {
		fmt.Println(err)
		return
	}
	print()
	// Output:
	// 50.0 % by object.metadata.namespace: 1 pods
	// 100.0 % by object.metadata.namespace: 2 pods
}
