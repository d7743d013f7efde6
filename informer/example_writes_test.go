package informer_test

import (
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/internal/sim/simtest"
	"github.com/tarnproject/tarn/object"
)

var web = object.Key{Namespace: "shop", Name: "web"}

// Begin precedes a request, and its result records the server's answer.
func ExampleWrites_Begin() {
	cluster := simtest.Pods("shop/web")
	pods := newPods(cluster, informer.Options[*corev1.Pod]{})
	ctx, end := synced(pods)
	defer end()
	update := pods.Writes().Begin(web)
	answer := cluster.Set("shop/web", onNode("node-7")) // PUT
	if err := update.Wrote(answer); err != nil {
		fmt.Println(err)
	}
	pod, ok, err := pods.Writes().Get(ctx, web)
	fmt.Println(pod.Spec.NodeName, ok, err)

	deletion := pods.Writes().Begin(web)
	uid := cluster.Delete("shop/web").UID // DELETE
	deletion.Deleting(object.Deletion{UID: uid})
	_, ok, err = pods.Writes().Get(ctx, web)
	fmt.Println(ok, err)
	// Output:
	// node-7 true <nil>
	// false <nil>
}

// A worker that must not block checks, and tries again later.
func ExampleWrites_Check() {
	cluster := simtest.Pods("shop/web")
	pods := newPods(cluster, informer.Options[*corev1.Pod]{})
	ctx, end := synced(pods)
	defer end()
	cluster.Hold(true) // the watch is slow
	if err := pods.Writes().Wrote(cluster.Set("shop/web", onNode("node-7"))); err != nil {
		fmt.Println(err)
	}
	pending, err := pods.Writes().Check(web)
	fmt.Println("pending:", pending, err)
	_, ok, pending, err := pods.Writes().Peek(web) // a read that does not wait
	fmt.Println("read:", ok, "pending:", pending, err)
	cluster.Hold(false)
	if err := pods.Writes().Wait(ctx, web); err != nil {
		fmt.Println(err)
	}
	fmt.Println("pending:", pods.Writes().Pending(web))

	dryRun := &corev1.Pod{} // was not stored, so it has no version
	dryRun.Namespace, dryRun.Name = "shop", "web"
	fmt.Println("not tracked:", errors.Is(pods.Writes().Wrote(dryRun), informer.ErrNoVersion))
	// Output:
	// pending: true <nil>
	// read: false pending: true <nil>
	// pending: false
	// not tracked: true
}

// A snapshot with all writes of this process, to list after several of them.
func ExampleWrites_Snapshot() {
	cluster := simtest.Pods("shop/db", "shop/web")
	pods := newPods(cluster, informer.Options[*corev1.Pod]{})
	ctx, end := synced(pods)
	defer end()
	if err := pods.Writes().Wrote(cluster.Set("shop/mail")); err != nil {
		fmt.Println(err)
	}
	db, _ := pods.Get(object.Key{Namespace: "shop", Name: "db"})
	cluster.Delete("shop/db")
	if err := pods.Writes().Deleted(db); err != nil {
		fmt.Println(err)
	}
	shop := informer.Part{Namespaces: []string{"shop"}}
	snap, err := pods.Writes().Snapshot(ctx, shop)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer snap.Release()
	pending, err := pods.Writes().CheckIn(snap, object.Key{Namespace: "shop", Name: "db"})
	fmt.Println("pending:", pending, err, "missing:", pods.Writes().Missing(snap, shop))
	fmt.Println(slices.SortedFunc(snap.Keys(), object.Key.Compare))
	// Output:
	// pending: false <nil> missing: <nil>
	// [shop/mail shop/web]
}

// A write that the mirror can never have is an error, and not an endless wait.
func ExampleQuarantinedError() {
	cluster := simtest.Pods("shop/web")
	pods := newPods(cluster, informer.Options[*corev1.Pod]{Transform: func(p *corev1.Pod) (*corev1.Pod, error) {
		if p.Spec.NodeName == "" {
			return p, nil
		}
		return nil, errors.New("no such node")
	}})
	ctx, end := synced(pods)
	defer end()
	if err := pods.Writes().Wrote(cluster.Set("shop/web", onNode("node-7"))); err != nil {
		fmt.Println(err)
	}
	_, _, err := pods.Writes().Get(ctx, web)
	if quarantined := (*informer.QuarantinedError)(nil); errors.As(err, &quarantined) {
		fmt.Println(quarantined.Key, quarantined.Version, quarantined.Cause)
	}
	fmt.Println(pods.Unreadable(web) != nil, pods.Unreadable(object.Key{Namespace: "shop", Name: "db"}))
	// Output:
	// shop/web 102 transform: no such node
	// true <nil>
}

// WaitForKey waits for a version that another program reports, such as kubectl.
func ExampleInformer_WaitForKey() {
	cluster := simtest.Pods()
	pods := newPods(cluster, informer.Options[*corev1.Pod]{Namespaces: []string{"shop"}})
	ctx, end := synced(pods)
	defer end()
	created := cluster.Set("shop/web")
	fmt.Println(pods.WaitForKey(ctx, web, object.Version(created.ResourceVersion)), pods.Covers(created))

	other := cluster.Set("bank/web")
	err := pods.WaitForKey(ctx, object.Key{Namespace: "bank", Name: "web"}, object.Version(other.ResourceVersion))
	if missed := (*informer.NotReachedError)(nil); errors.As(err, &missed) {
		fmt.Println(missed.Key, missed.Version, errors.Is(err, informer.ErrNotCovered), pods.Covers(other))
	}
	// Output:
	// <nil> true
	// bank/web 102 true false
}
