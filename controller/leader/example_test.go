package leader_test

import (
	"context"
	"fmt"

	"k8s.io/client-go/kubernetes/fake"

	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/controller/leader"
	"github.com/tarnproject/tarn/object"
)

// An elector uses a Lease, here of an in-memory API server.
func Example() {
	client := fake.NewClientset()
	lock := leader.NewLease(client.CoordinationV1(), object.Key{Namespace: "shop", Name: "web"}, "pod-1")
	elector, err := leader.New(lock, leader.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	err = elector.Run(ctx, func(ctx context.Context, fence controller.Fence) error {
		s := elector.Status()
		fmt.Println(s.Identity, "leads with", s.Lease, fence.Check())
		stop()
		<-ctx.Done()
		fmt.Println("still open while the work ends:", fence.Check() == nil)
		return nil
	})
	fmt.Println(err, elector.Status().Leading)
	// Output:
	// pod-1 leads with shop/web <nil>
	// still open while the work ends: true
	// <nil> false
}
