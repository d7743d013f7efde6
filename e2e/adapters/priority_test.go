package adapters

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"

	"github.com/tarnproject/tarn/clientgo"
)

type priorities = priorityqueue.PriorityQueue[string]

// The list DP in docs/migrating.md is what Tarn's queue with priorities does otherwise than
// controller-runtime's. Its own tests hold Tarn's side; here both are asked the same.
func TestPriorityQueuesDifferAsTheGuideSays(t *testing.T) {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Second, time.Minute)
	sides := []func() priorities{
		func() priorities {
			return priorityqueue.New("theirs", func(o *priorityqueue.Opts[string]) { o.RateLimiter = limiter })
		},
		func() priorities {
			return clientgo.NewPriorityQueue[string, priorityqueue.AddOpts]("", limiter).(priorities)
		},
	}
	for _, c := range []struct {
		what         string
		ask          func(priorities) string
		theirs, ours string
	}{
		{"the highest first", func(q priorities) string {
			for i, item := range []string{"low", "middle", "high"} {
				q.AddWithOpts(priorityqueue.AddOpts{Priority: new(100 * (i - 1))}, item)
			}
			synctest.Wait()
			return take(q) + take(q) + take(q)
		}, "high 100, middle 0, low -100, ", "high 100, middle 0, low -100, "},
		{"DP1 added while it is delayed", func(q priorities) string {
			q.AddAfter("a", time.Hour)
			synctest.Wait()
			q.Add("a")
			return take(q) + later(q)
		}, "a 0, then 0", "a 0, then 1"},
		{"DP2 delayed while it waits", func(q priorities) string {
			q.Add("a")
			synctest.Wait()
			q.AddAfter("a", time.Hour)
			return take(q) + later(q)
		}, "a 0, then 0", "a 0, then 1"},
		{"DP3 added while it is processed", func(q priorities) string {
			q.Add("a")
			item, _ := q.Get()
			q.Add("a")
			synctest.Wait()
			before := q.Len()
			q.Done(item)
			synctest.Wait()
			return fmt.Sprintf("%d before Done, %d after", before, q.Len())
		}, "1 before Done, 1 after", "0 before Done, 1 after"},
		{"DP4 after ShutDown", func(q priorities) string {
			q.Add("a")
			synctest.Wait()
			q.ShutDown()
			_, ended := q.Get()
			return fmt.Sprintf("ended: %t, again: %v", ended, again(q))
		}, "ended: true, again: close of closed channel", "ended: false, again: <nil>"},
	} {
		for i, want := range []string{c.theirs, c.ours} {
			synctest.Test(t, func(t *testing.T) {
				q := sides[i]()
				if got := c.ask(q); got != want {
					t.Errorf("%s, %T: %q; want %q", c.what, q, got, want)
				}
				_ = again(q)
			})
		}
	}
}

// take takes an item and finishes it.
func take(q priorities) string {
	item, priority, _ := q.GetWithPriority()
	q.Done(item)
	return fmt.Sprintf("%s %d, ", item, priority)
}

// later returns how many items wait when all delays have passed.
func later(q priorities) string {
	<-time.After(2 * time.Hour)
	synctest.Wait()
	return fmt.Sprint("then ", q.Len())
}

// again shuts a queue down, perhaps not for the first time, and returns what it panics with.
func again(q priorities) (thrown any) {
	defer func() { thrown = recover() }()
	q.ShutDown()
	return nil
}
