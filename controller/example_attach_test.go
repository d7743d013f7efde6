package controller_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/workqueue"
)

// A controller whose sources come and go. Each has keys of its own group.
func ExampleController_Attach() {
	reconciled := make(chan string)
	c, _ := controller.New("mail", func(ctx context.Context, key string) (controller.Result, error) {
		reconciled <- key
		return controller.Result{}, nil
	}, controller.Options[string]{Queue: workqueue.Options[string]{Group: func(key string) string {
		tenant, _, _ := strings.Cut(key, "/")
		return tenant
	}}})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- c.Run(ctx) }()

	for _, tenant := range []string{"acme", "zoo"} {
		inbox := make(chan string, 1)
		source := controller.Map(controller.Channel("inbox", inbox),
			func(name string) string { return tenant + "/" + name },
			func(key string) string { return strings.TrimPrefix(key, tenant+"/") })
		present, remove := context.WithCancel(ctx)
		detached := make(chan error)
		go func() { detached <- c.Attach(present, tenant, source) }()
		inbox <- "letter"
		fmt.Println(<-reconciled)
		remove()
		fmt.Println("detached:", <-detached)
	}
	stop()
	fmt.Println("ended:", <-ended)
	// Output:
	// acme/letter
	// detached: <nil>
	// zoo/letter
	// detached: <nil>
	// ended: <nil>
}
