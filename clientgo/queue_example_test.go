package clientgo_test

import (
	"fmt"
	"time"

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

// A queue without delays: items that wait are not added again.
func ExampleNewTypedQueue() {
	queue := clientgo.NewTypedQueue[string]() // was workqueue.NewTyped
	queue.Add("shop/web")
	queue.Add("shop/db")
	queue.Add("shop/web")
	queue.ShutDown()
	for {
		key, shutdown := queue.Get()
		if shutdown {
			return
		}
		fmt.Println(key)
		queue.Done(key)
	}
	// Output:
	// shop/web
	// shop/db
}

// A delayed item is in the queue when it is due.
func ExampleNewTypedDelayingQueue() {
	queue := clientgo.NewTypedDelayingQueue[string]()
	defer queue.ShutDown()
	queue.AddAfter("shop/web", time.Millisecond)
	fmt.Println(queue.Get())
	// Output: shop/web false
}

// The layers of a queue are composed as those of client-go.
func ExampleNewTypedDelayingQueueWithConfig() {
	items := clientgo.NewTypedQueueWithConfig(workqueue.TypedQueueConfig[string]{Name: "pods"})
	delayed := clientgo.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[string]{Name: "pods", Queue: items})
	defer delayed.ShutDown()
	delayed.AddAfter("shop/web", time.Millisecond)
	key, _ := items.Get()
	fmt.Println(key)
	items.Done(key)
	// Output: shop/web
}

// NewQueue is for controller-runtime's controller.Options{NewQueue: clientgo.NewQueue[reconcile.Request]}.
func ExampleNewQueue() {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Millisecond, time.Second)
	queue := clientgo.NewQueue("pods", limiter)
	defer queue.ShutDown()
	queue.AddRateLimited("shop/web")
	key, _ := queue.Get()
	fmt.Println(key, "was tried", queue.NumRequeues(key), "time")
	queue.Forget(key)
	queue.Done(key)
	// Output: shop/web was tried 1 time
}

// addLast adds what may wait. O is controller-runtime's priorityqueue.AddOpts.
func addLast[O clientgo.AddOptions](queue interface{ AddWithOpts(O, ...string) }, items ...string) {
	low := -100
	queue.AddWithOpts(O(addOpts{Priority: &low}), items...)
}

// What a controller found at its start gives way to what has changed since.
func ExampleNewPriorityQueue() {
	limiter := workqueue.DefaultTypedControllerRateLimiter[string]()
	queue := clientgo.NewPriorityQueue[string, addOpts]("pods", limiter)
	addLast[addOpts](queue.(interface{ AddWithOpts(addOpts, ...string) }), "shop/old-1", "shop/old-2")
	queue.Add("shop/new")
	queue.ShutDown()
	for key, shutdown := queue.Get(); !shutdown; key, shutdown = queue.Get() {
		fmt.Println(key)
		queue.Done(key)
	}
	// Output:
	// shop/new
	// shop/old-1
	// shop/old-2
}
