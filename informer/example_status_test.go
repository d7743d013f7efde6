package informer_test

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/internal/sim/simtest"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
	"github.com/tarnproject/tarn/store"
)

// newPods is informer.New for the examples.
func newPods(cluster *simtest.Server[*corev1.Pod], opts informer.Options[*corev1.Pod]) *podInformer {
	opts.Name, opts.Reflector.Streaming = "pods", reflector.StreamingOff
	pods, err := informer.New(cluster, object.Meta[*corev1.Pod](), opts)
	if err != nil {
		panic(err)
	}
	return pods
}

// synced starts an informer and waits until it is synced.
func synced(inf *podInformer) (ctx context.Context, end func()) {
	ctx, end = running(inf)
	if err := inf.WaitSynced(ctx); err != nil {
		panic(err)
	}
	return ctx, end
}

// The status of each source says why the mirror is not live.
func ExampleInformer_Status() {
	cluster := simtest.Pods("shop/web")
	cluster.Refuse("", apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New("the role allows only get")))
	failed := make(chan error, 100)
	pods := newPods(cluster, informer.Options[*corev1.Pod]{Reflector: reflector.Options[*corev1.Pod]{
		OnError: func(err error) { failed <- err },
	}})
	_, end := running(pods)
	defer end()
	<-failed
	for _, source := range pods.Sources() {
		fmt.Println(source.Listed, source.Err())
	}
	cluster.Refuse("", nil) // an administrator corrects the role
	for !pods.Status().Live() {
		pods.Wake() // retry at once instead of waiting out the back-off
	}
	fmt.Println(pods.Status())
	// Output:
	// false reflector pods: list: pods is forbidden: the role allows only get
	// pods: live, 1 objects
	//   source pods: Watching
}

// A readiness probe that does not block.
func ExampleInformer_Synced() {
	pods := newPods(simtest.Pods("shop/web"), informer.Options[*corev1.Pod]{})
	probe := func() {
		select {
		case <-pods.Stopped():
			fmt.Println(pods.Name(), "no longer change")
			return
		default:
		}
		select {
		case <-pods.Synced():
			fmt.Println(pods.Name(), "are ready")
		default:
			fmt.Println(pods.Name(), "are not ready")
		}
	}
	probe()
	_, end := synced(pods)
	probe()
	end()
	probe()
	_, err := pods.Subscribe(informer.Handler[*corev1.Pod]{}, informer.SubOptions[*corev1.Pod]{})
	fmt.Println(errors.Is(err, informer.ErrStopped), pods.Len(), "pod can still be read")
	// Output:
	// pods are not ready
	// pods are ready
	// pods no longer change
	// true 1 pod can still be read
}

// Relist makes a mirror complete again whose watch lost events.
func ExampleInformer_Relist() {
	cluster := simtest.Pods("shop/web")
	pods := newPods(cluster, informer.Options[*corev1.Pod]{})
	ctx, end := synced(pods)
	defer end()
	cluster.Mute() // a broken proxy drops events but keeps the connection open
	missed := cluster.Set("shop/db")
	pods.Relist(errors.New("an end-to-end check found a stale cache"))
	fmt.Println(pods.WaitFor(ctx, object.Version(missed.ResourceVersion)), pods.Len())
	// Output: <nil> 2
}

// View reads a consistent state without an allocation.
func ExampleInformer_View() {
	cluster := simtest.Pods()
	cluster.Set("shop/db", onNode("node-1"))
	cluster.Set("shop/web", onNode("node-1"))
	byNode := store.NewIndex("node", func(p *corev1.Pod) string { return p.Spec.NodeName })
	pods := newPods(cluster, informer.Options[*corev1.Pod]{Indexes: []store.AnyIndex[*corev1.Pod]{byNode}})
	_, end := synced(pods)
	defer end()
	pods.View(func(s store.Snapshot[*corev1.Pod]) {
		fmt.Println(byNode.Count(s, "node-1"), "of", s.Len())
	})
	// Output: 2 of 2
}

// Edit fills the mirror before Run, for example from a file. The first list replaces that.
func ExampleInformer_Edit() {
	saved := simtest.Pods("shop/old", "shop/web").Objects() // of the last run of the program
	cluster := simtest.Pods("shop/db", "shop/web")
	pods := newPods(cluster, informer.Options[*corev1.Pod]{})
	pods.Edit(func(s *store.Store[*corev1.Pod]) {
		for _, pod := range saved {
			if err := s.Set(pod); err != nil {
				fmt.Println(err)
			}
		}
	})
	old := object.Key{Namespace: "shop", Name: "old"}
	_, ok := pods.Get(old)
	fmt.Println("before the first list:", ok)
	_, end := synced(pods)
	defer end()
	_, ok = pods.Get(old)
	fmt.Println("after it:", ok)
	// Output:
	// before the first list: true
	// after it: false
}

// An owner reference needs the resource and the UID of the owner.
func ExampleInformer_UIDOf() {
	owners := newPods(simtest.Pods("shop/web"), informer.Options[*corev1.Pod]{
		Resource: object.Resource{Version: "v1", Resource: "pods", Kind: "Pod", Namespaced: true},
	})
	_, end := synced(owners)
	defer end()
	apiVersion, kind := owners.Resource().GVK().ToAPIVersionAndKind()
	if uid, ok := owners.UIDOf(object.Key{Namespace: "shop", Name: "web"}); ok {
		ref := metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: "web", UID: uid}
		fmt.Println(ref.APIVersion, ref.Kind, ref.UID)
	}
	// Output: v1 Pod u101
}

// Resync replays the state to one subscriber, and Remove ends its subscription.
func ExampleSubscription() {
	cluster := simtest.Pods("shop/web")
	pods := newPods(cluster, informer.Options[*corev1.Pod]{})
	replayed := make(chan struct{}, 1)
	sub, err := pods.Subscribe(informer.Handler[*corev1.Pod]{
		OnAdd: func(pod *corev1.Pod, _ bool) { fmt.Println("add", pod.Name) },
		OnResync: func(pod *corev1.Pod) {
			fmt.Println("again", pod.Name)
			replayed <- struct{}{}
		},
	}, informer.SubOptions[*corev1.Pod]{})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, end := running(pods)
	defer end()
	<-sub.Synced()
	sub.Resync()
	<-replayed
	sub.Remove()
	<-sub.Done() // no call is in progress, and none follows
	db := cluster.Set("shop/db")
	fmt.Println(pods.WaitFor(ctx, object.Version(db.ResourceVersion)), pods.Len())
	// Output:
	// add web
	// again web
	// <nil> 2
}

// A subscriber that panics loses one change; the others and the mirror are not affected.
func ExamplePanicError() {
	pods := newPods(simtest.Pods("shop/db", "shop/web"), informer.Options[*corev1.Pod]{})
	sub, err := pods.SubscribeBatch(func(context.Context, []informer.Event[*corev1.Pod]) {
		panic("not implemented")
	}, informer.SubOptions[*corev1.Pod]{Name: "billing", OnPanic: func(e *informer.PanicError) {
		fmt.Println(e, len(e.Stack) > 0)
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, end := running(pods)
	defer end()
	<-sub.Synced()
	// Output: informer: subscriber billing panicked: not implemented true
}
