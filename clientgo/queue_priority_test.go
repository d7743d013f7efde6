package clientgo_test

import (
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/util/workqueue"

	"github.com/tarnproject/tarn/clientgo"
)

// addOpts has the shape of controller-runtime's type of that name; bench/ has the test
// with the real one.
type addOpts struct {
	After       time.Duration
	RateLimited bool
	Priority    *int
}

type priorityQueue interface {
	workqueue.TypedRateLimitingInterface[string]
	AddWithOpts(o addOpts, items ...string)
	GetWithPriority() (item string, priority int, shutdown bool)
}

func newPriorityQueue(t *testing.T, limiter workqueue.TypedRateLimiter[string]) priorityQueue {
	q, ok := clientgo.NewPriorityQueue[string, addOpts]("", limiter).(priorityQueue)
	if !ok {
		t.Fatal("it is no priority queue")
	}
	return q
}

func TestPrioritiesDecideTheOrderAndAreReported(t *testing.T) {
	q := newPriorityQueue(t, nil)
	defer q.ShutDown()
	low, high := -100, 7
	q.AddWithOpts(addOpts{Priority: &low}, "first", "raised")
	q.Add("plain")
	q.AddWithOpts(addOpts{Priority: &high}, "raised")
	for _, want := range []struct {
		item     string
		priority int
	}{{"raised", 7}, {"plain", 0}, {"first", -100}} {
		item, priority, shutdown := q.GetWithPriority()
		if item != want.item || priority != want.priority || shutdown {
			t.Errorf("GetWithPriority = %q, %d, %v; want %v", item, priority, shutdown, want)
		}
		q.Done(item)
	}
	q.ShutDown()
	if _, _, shutdown := q.GetWithPriority(); !shutdown {
		t.Error("it does not report the shutdown")
	}
}

func TestTheShorterOfTwoDelaysCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newPriorityQueue(t, workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Second, time.Hour))
		defer q.ShutDown()
		low := -1
		begin := time.Now()
		q.AddWithOpts(addOpts{RateLimited: true, After: time.Minute, Priority: &low}, "limited")
		q.AddWithOpts(addOpts{RateLimited: true, After: 10 * time.Millisecond}, "after")
		q.AddAfter("minute", time.Minute)
		q.AddRateLimited("second limited")
		for _, want := range []struct {
			item     string
			priority int
			at       time.Duration
		}{{"after", 0, 10 * time.Millisecond}, {"second limited", 0, time.Second}, {"limited", -1, time.Second}, {"minute", 0, time.Minute}} {
			item, priority, _ := q.GetWithPriority()
			if item != want.item || priority != want.priority || time.Since(begin) != want.at {
				t.Errorf("GetWithPriority = %q, %d at %v; want %v", item, priority, time.Since(begin), want)
			}
		}
		if n := q.NumRequeues("limited"); n != 1 {
			t.Errorf("%d requeues", n)
		}
		q.Forget("limited")
		if n := q.NumRequeues("limited"); n != 0 {
			t.Errorf("%d requeues after Forget", n)
		}
	})
}
