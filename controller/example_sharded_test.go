package controller_test

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/internal/sim/simtest"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/workqueue"
)

// static is a membership for replicas with fixed shares, such as those of a StatefulSet, each of
// which has some tenants.
type static struct {
	tenants []string
	fence   controller.Fence // of this process; package shard has one for each group
}

func (s static) Run(ctx context.Context, work func(ctx context.Context, group string, fence controller.Fence) error) error {
	var groups errgroup.Group
	for _, tenant := range s.tenants {
		groups.Go(func() error { return work(ctx, tenant, s.fence) })
	}
	return groups.Wait()
}

// Each replica reconciles the keys of its groups. Here the groups are namespaces.
func ExampleSharded() {
	pods := newInformer("pods", simtest.Pods("bank/db", "shop/web"))
	reconciled := make(chan object.Key, 10)
	web, err := controller.New("web", func(_ context.Context, key object.Key) (controller.Result, error) {
		reconciled <- key
		return controller.Result{}, nil
	}, controller.Options[object.Key]{
		Claims: true,
		Queue:  workqueue.Options[object.Key]{Group: func(key object.Key) string { return key.Namespace }},
	}, controller.For(pods))
	if err != nil {
		fmt.Println(err)
		return
	}
	var share controller.Membership = static{tenants: []string{"shop"}, fence: newGate()}
	controllers := []controller.Claimer{web} // further ones work on the same groups

	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- controller.Run(ctx, pods, controller.Sharded(share, controllers...)) }()
	fmt.Println(<-reconciled)
	stop()
	fmt.Println(<-done)
	// Output:
	// shop/web
	// <nil>
}
