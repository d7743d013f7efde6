package workqueue_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/tarnproject/tarn/workqueue"
)

func Example() {
	q := workqueue.New(workqueue.Options[string]{})
	var worker sync.WaitGroup
	worker.Go(func() {
		for {
			key, shutdown := q.Get()
			if shutdown {
				return
			}
			if key == "default/web" && q.NumRequeues(key) == 0 {
				fmt.Println(key, "failed")
				q.AddRateLimited(key) // in 5 milliseconds
			} else {
				fmt.Println(key, "is done")
				q.Forget(key)
			}
			q.Done(key)
			if q.Stats().Adds == 3 {
				q.ShutDown()
			}
		}
	})
	q.AddWith(workqueue.Request{}, "default/web", "default/db")
	worker.Wait()
	// Output:
	// default/web failed
	// default/db is done
	// default/web is done
}

func ExampleQueue_Add() {
	q := workqueue.New(workqueue.Options[string]{})
	q.Add("web")
	q.Add("web") // already waiting
	fmt.Println("waiting:", q.Len())

	key, _ := q.Get()
	q.Add("web") // changed while it is processed
	fmt.Println("waiting while it is processed:", q.Len())
	q.Done(key)
	fmt.Println("waiting after Done:", q.Len())
	// Output:
	// waiting: 1
	// waiting while it is processed: 0
	// waiting after Done: 1
}

func ExampleQueue_AddWith() {
	q := workqueue.New(workqueue.Options[string]{})
	q.AddWith(workqueue.Request{Priority: -1}, "listed1", "listed2") // low priority
	q.Add("changed")
	q.AddWith(workqueue.Request{Priority: 1}, "urgent")
	for q.Len() > 0 {
		key, _ := q.Get()
		fmt.Println(key)
		q.Done(key)
	}
	// Output:
	// urgent
	// changed
	// listed1
	// listed2
}

func ExampleQueue_AddAfter() {
	q := workqueue.New(workqueue.Options[string]{})
	q.AddAfter("web", time.Hour)
	fmt.Println("waiting:", q.Len())
	q.AddAfter("web", time.Millisecond) // the earlier due time wins
	key, _ := q.Get()
	fmt.Println(key)
	// Output:
	// waiting: 0
	// web
}

func ExampleQueue_AddRateLimited() {
	q := workqueue.New(workqueue.Options[string]{
		Limiter: workqueue.NewExponential[string](time.Millisecond, time.Minute),
	})
	for range 3 {
		q.AddRateLimited("web")
		key, _ := q.Get()
		fmt.Println(key, "requeued", q.NumRequeues(key))
		q.Done(key)
	}
	q.Forget("web")
	fmt.Println("after Forget:", q.NumRequeues("web"))
	// Output:
	// web requeued 1
	// web requeued 2
	// web requeued 3
	// after Forget: 0
}

func ExampleQueue_GetContext() {
	q := workqueue.New(workqueue.Options[string]{})
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	_, err := q.GetContext(ctx)
	fmt.Println(err)

	q.ShutDown()
	_, err = q.GetContext(context.Background())
	fmt.Println(errors.Is(err, workqueue.ErrShutDown))
	// Output:
	// context deadline exceeded
	// true
}

func ExampleQueue_Drain() {
	q := workqueue.New(workqueue.Options[string]{
		Dropped: func(i workqueue.Item[string]) {
			if i.State == workqueue.Refused {
				fmt.Println(i.Key, "was added too late")
				return
			}
			fmt.Println("dropped:", i.Key, i.State)
		},
	})
	q.Add("web")
	q.AddAfter("db", time.Hour)
	key, _ := q.Get()

	// The worker is given a deadline.
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	fmt.Println(q.Drain(ctx))
	for _, left := range q.Snapshot().Processing {
		fmt.Println("left:", left.Key)
	}
	q.Add("late")

	q.Done(key)
	fmt.Println(q.Drain(context.Background()))
	// Output:
	// dropped: db delayed
	// workqueue: drain: 0 waiting and 1 processing: context deadline exceeded
	// left: web
	// late was added too late
	// <nil>
}

func ExampleQueue_Snapshot() {
	q := workqueue.New(workqueue.Options[string]{Times: true})
	q.Add("web")
	q.AddWith(workqueue.Request{Priority: 2}, "db")
	q.AddAfter("cache", time.Hour)
	key, _ := q.Get()
	q.Add(key)

	s := q.Snapshot()
	for _, list := range [][]workqueue.Item[string]{s.Waiting, s.Dirty, s.Processing, s.Delayed} {
		for _, i := range list {
			fmt.Printf("%s: %s, priority %d, %s\n", i.Key, i.State, i.Priority, i.Reason)
		}
	}
	fmt.Println("cache is due in an hour:", time.Until(s.Delayed[0].Due).Round(time.Minute))
	q.ShutDown()
	// Output:
	// web: waiting, priority 0, added
	// db: dirty, priority 0, added
	// db: processing, priority 2, added
	// cache: delayed, priority 0, added after a delay
	// cache is due in an hour: 1h0m0s
}

// Reason distinguishes a retry from a new item.
func ExampleQueue_Inspect() {
	q := workqueue.New(workqueue.Options[string]{})
	q.Add("web")
	q.AddRateLimited("web")
	for _, i := range q.Inspect("web") {
		fmt.Println(i.State, "retry:", i.Reason == workqueue.AddedRateLimited)
	}
	q.ShutDown()
	// Output:
	// waiting retry: false
	// delayed retry: true
}

func ExampleQueue_Stats() {
	q := workqueue.New(workqueue.Options[string]{})
	q.AddWith(workqueue.Request{}, "web", "db")
	q.Get()
	s := q.Stats()
	fmt.Println(s.Waiting, "waiting,", s.Processing, "processing,", s.Adds, "added so far")
	q.ShutDown()
	fmt.Println("shutting down:", q.ShuttingDown())
	// Output:
	// 1 waiting, 1 processing, 2 added so far
	// shutting down: true
}

// Namespaces take turns, so a large one does not starve the others.
func ExampleOptions_group() {
	q := workqueue.New(workqueue.Options[string]{
		Group: func(key string) string { namespace, _, _ := strings.Cut(key, "/"); return namespace },
	})
	q.AddWith(workqueue.Request{}, "big/1", "big/2", "big/3", "small/1")
	for q.Len() > 0 {
		key, _ := q.Get()
		fmt.Println(key)
		q.Done(key)
	}
	// Output:
	// big/1
	// small/1
	// big/2
	// big/3
}

// counts is a small [workqueue.Metrics].
type counts struct{ added, retried, dropped, taken, done int }

func (c *counts) Added(n int)          { c.added += n }
func (c *counts) Retried(n int)        { c.retried += n }
func (c *counts) Dropped(n int)        { c.dropped += n }
func (c *counts) Waited(time.Duration) { c.taken++ }
func (c *counts) Worked(time.Duration) { c.done++ }

func ExampleMetrics() {
	var c counts
	q := workqueue.New(workqueue.Options[string]{Metrics: &c})
	q.Add("web")
	key, _ := q.Get()
	q.AddRateLimited(key)
	q.Done(key)
	q.ShutDown()
	fmt.Printf("%+v\n", c)
	// Output: {added:1 retried:1 dropped:1 taken:1 done:1}
}

func ExampleNewMaxOf() {
	limiter := workqueue.NewMaxOf[string](
		workqueue.NewExponential[string](time.Second, time.Hour),       // for each item
		workqueue.NewBucket[string](rate.NewLimiter(rate.Limit(1), 2)), // for all of them
	)
	fmt.Println(limiter.When("web"), limiter.When("web"), limiter.NumRequeues("web"))
	// Output: 1s 2s 2
}

func ExampleNewFastSlow() {
	limiter := workqueue.NewFastSlow[string](time.Second, time.Minute, 2)
	fmt.Println(limiter.When("web"), limiter.When("web"), limiter.When("web"))
	// Output: 1s 1s 1m0s
}

func ExampleNewCeiling() {
	limiter := workqueue.NewCeiling[string](workqueue.NewExponential[string](time.Second, time.Hour), 3*time.Second)
	fmt.Println(limiter.When("web"), limiter.When("web"), limiter.When("web"))
	// Output: 1s 2s 3s
}

func ExampleDefaultLimiter() {
	limiter := workqueue.DefaultLimiter[string]()
	fmt.Println(limiter.When("web"), limiter.When("web"), limiter.When("web"))
	// Output: 5ms 10ms 20ms
}

// A panic in a function of the options costs the queue nothing.
func ExampleOptions_onPanic() {
	q := workqueue.New(workqueue.Options[string]{
		Group: func(key string) string {
			if key == "bad" {
				panic("no group")
			}
			return key[:1]
		},
		OnPanic: func(option string, value any) { fmt.Println(option, "panicked:", value) },
	})
	q.AddWith(workqueue.Request{}, "a1", "bad", "b1")
	fmt.Println(q.Len(), "items,", q.Stats().Panics, "panic")
	// Output:
	// Group panicked: no group
	// 3 items, 1 panic
}
