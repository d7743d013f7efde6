package clientgo_test

import (
	"fmt"

	"k8s.io/client-go/util/workqueue"

	"github.com/tarnproject/tarn/clientgo"
)

// A controller's queue: one line is another, and the rest of the program stays as it is.
func ExampleNewTypedRateLimitingQueueWithConfig() {
	queue := clientgo.NewTypedRateLimitingQueueWithConfig( // was workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.DefaultTypedControllerRateLimiter[string](),
		workqueue.TypedRateLimitingQueueConfig[string]{Name: "pods"},
	)
	queue.Add("shop/web")
	queue.Add("shop/web")
	key, _ := queue.Get()
	fmt.Println(key, queue.Len())
	queue.Forget(key)
	queue.Done(key)
	queue.ShutDown()
	_, shutdown := queue.Get()
	fmt.Println(shutdown)
	// Output:
	// shop/web 0
	// true
}
