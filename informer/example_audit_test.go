package informer_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/internal/sim/simtest"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/store"
)

// An audit compares the mirror with the server, object by object. Here a program wrote to the store
// behind the mirror's back.
func ExampleInformer_Audit() {
	cluster := simtest.Pods("shop/db", "shop/web")
	pods, err := informer.New(cluster, object.Meta[*corev1.Pod](), informer.Options[*corev1.Pod]{Name: "pods", Reflector: listAndWatch})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, end := running(pods)
	defer end()
	var list informer.ListFunc = func(ctx context.Context, opts object.ListOptions, each func(object.Key, informer.Identity) error) (object.Page, error) {
		return cluster.List(ctx, opts, nil, func(item object.Item[*corev1.Pod]) error {
			return each(item.Key, informer.Identity{UID: item.UID, Version: item.Version})
		})
	}
	audit, err := pods.Audit(ctx, list)
	fmt.Println(audit.Objects, "objects,", audit.Count(), "differences", err)

	pods.Edit(func(s *store.Store[*corev1.Pod]) { s.Delete(object.Key{Namespace: "shop", Name: "web"}) })
	pods.View(func(snap store.Snapshot[*corev1.Pod]) {
		_, _, found := snap.Identity(object.Key{Namespace: "shop", Name: "web"})
		fmt.Println("found:", found)
	})
	audit, err = pods.Audit(ctx, list)
	fmt.Println(audit.Objects, "objects,", audit.Count(), "differences", err)
	for _, d := range audit.Differences {
		fmt.Println(d.Key, d.Mirror)
	}
	// Output:
	// 2 objects, 0 differences <nil>
	// found: false
	// 2 objects, 1 differences <nil>
	// shop/web no object
}
