package leader_test

import (
	"context"
	"fmt"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/controller/leader"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire"
)

// An elector uses a Lease, here of an embedded API server.
func Example() {
	server, err := apiserver.New(apiserver.Options{})
	if err != nil {
		panic(err)
	}
	serving, stopServer := context.WithCancel(context.Background())
	served := make(chan error)
	go func() { served <- server.Run(serving) }()
	defer func() {
		stopServer()
		<-served
	}()
	client, err := wire.New(server.Config(), wire.Options{})
	if err != nil {
		panic(err)
	}

	elector, err := leader.New(client, object.Key{Namespace: "default", Name: "web"}, leader.Options{
		Identity: "pod-1",
		Caches:   func() []leader.Cache { return nil }, // the informers that reconciles read
	})
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	err = elector.Run(ctx, func(ctx context.Context, fence controller.Fence) error {
		s := elector.Status()
		fmt.Println(s.Identity, "leads with", s.Lease, fence.Check(), "ailing:", s.Ailing)
		stop()
		<-ctx.Done()
		fmt.Println("still open while the work ends:", fence.Check() == nil)
		return nil
	})
	fmt.Println(err, elector.Status().Leading)
	// Output:
	// pod-1 leads with default/web <nil> ailing: false
	// still open while the work ends: true
	// <nil> false
}
