package workqueue_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/tarnproject/tarn/workqueue"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func want(t *testing.T, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

type options = workqueue.Options[string]

// get takes an item and fails if there is none.
func get(t *testing.T, q *workqueue.Queue[string]) string {
	t.Helper()
	if q.Len() == 0 {
		t.Fatal("nothing to take")
	}
	item, shutdown := q.Get()
	if shutdown {
		t.Fatal("shut down")
	}
	return item
}

// getAll takes all items, one by one, and calls Done for each.
func getAll(t *testing.T, q *workqueue.Queue[string]) (items []string) {
	t.Helper()
	for q.Len() > 0 {
		item := get(t, q)
		items = append(items, item)
		q.Done(item)
	}
	return items
}

func advance(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func TestK01_AddedWhilePendingIsTakenOnce(t *testing.T) {
	q := workqueue.New(options{})
	for range 3 {
		q.Add("a")
		q.AddWith(workqueue.Request{}, "b", "b", "a")
	}
	want(t, "length", q.Len(), 2)
	want(t, "taken", getAll(t, q), []string{"a", "b"})
}

func TestK01_AddedWhileProcessingIsTakenAgainAfterDone(t *testing.T) {
	for _, opts := range []options{{}, {Times: true}} {
		q := workqueue.New(opts)
		q.Add("a")
		want(t, "taken", get(t, q), "a")
		q.Add("a")
		q.Add("a")
		q.Add("b")
		want(t, "could be taken", q.Len(), 1)
		want(t, "dirty", q.Stats().Dirty, 1)
		q.Done("a")
		want(t, "taken", getAll(t, q), []string{"b", "a"})
	}
}

func TestK01_DoneOfAnItemThatIsNotProcessedDoesNothing(t *testing.T) {
	q := workqueue.New(options{})
	q.Done("a")
	q.Add("a")
	q.Done("a")
	want(t, "taken", getAll(t, q), []string{"a"})
	q.Done("a")
	q.AddAfter("a", time.Hour)
	q.Done("a")
	want(t, "stats", q.Stats(), workqueue.Stats{Delayed: 1, Adds: 1, Retries: 1})
	q.ShutDown()
}

func TestK02_QueuedItemsCanBeTakenAfterShutDown(t *testing.T) {
	q := workqueue.New(options{})
	q.Add("a")
	q.Add("b")
	want(t, "taken", get(t, q), "a")
	q.Add("a")
	q.ShutDown()
	q.Add("c")
	q.Done("a")
	want(t, "taken", getAll(t, q), []string{"b", "a"})
	_, shutdown := q.Get()
	want(t, "shutdown", shutdown, true)
	_, err := q.GetContext(t.Context())
	want(t, "error", err, workqueue.ErrShutDown)
	want(t, "shutting down", q.ShuttingDown(), true)
}

func TestK02_ShutDownEndsEveryGet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.New(options{})
		var ended atomic.Int32
		for i := range 6 {
			go func() {
				switch i % 2 {
				case 0:
					_, shutdown := q.Get()
					want(t, "shutdown", shutdown, true)
				case 1:
					_, err := q.GetContext(context.Background())
					want(t, "error", err, workqueue.ErrShutDown)
				}
				ended.Add(1)
			}()
		}
		synctest.Wait()
		want(t, "ended", ended.Load(), int32(0))
		q.ShutDown()
		synctest.Wait()
		want(t, "ended", ended.Load(), int32(6))
	})
}

func TestK02_DrainWaitsForQueuedAndProcessingItems(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.New(options{})
		q.Add("a")
		q.Add("b")
		get(t, q)
		q.Add("a")
		var drained atomic.Int32
		for range 2 {
			go func() { _ = q.Drain(context.Background()); drained.Add(1) }()
		}
		go func() {
			if err := q.Drain(t.Context()); err != nil {
				t.Error(err)
			}
			drained.Add(1)
		}()
		for _, item := range []string{"a", "b", "a"} {
			synctest.Wait()
			want(t, "drained", drained.Load(), int32(0))
			want(t, "shutting down", q.ShuttingDown(), true)
			q.Done(item)
			if item == "a" && q.Len() > 0 || item == "b" {
				get(t, q)
			}
		}
		synctest.Wait()
		want(t, "drained", drained.Load(), int32(3))
		q.ShutDown()
		if err := q.Drain(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestK02_DrainEndsWithItsContextAndWithShutDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.New(options{})
		q.Add("a")
		q.Add("b")
		get(t, q)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := q.Drain(ctx)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want DeadlineExceeded", err)
		}
		want(t, "text", err.Error(), "workqueue: drain: 1 waiting and 1 processing: context deadline exceeded")
		errs := make(chan error, 1)
		go func() { errs <- q.Drain(t.Context()) }()
		synctest.Wait()
		q.ShutDown()
		want(t, "text", fmt.Sprint(<-errs), "workqueue: drain: 1 waiting and 1 processing: ShutDown ended it")
		q.Done("a")
		getAll(t, q)
	})
}

func TestK02_DelayedItemsAreDroppedAndReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dropped []item
		opts := options{Dropped: func(i item) { dropped = append(dropped, i) }}
		q := workqueue.New(opts)
		start := time.Now()
		q.AddAfter("b", 2*time.Hour)
		q.AddAfter("a", time.Hour)
		q.AddWith(workqueue.Request{RateLimited: true, Priority: 7}, "c")
		q.Add("a")
		q.ShutDown()
		q.ShutDown()
		q.AddAfter("d", time.Hour)
		q.AddRateLimited("e")
		q.AddWith(workqueue.Request{Priority: 3}, "f", "g")
		want(t, "dropped", dropped, []item{
			{Key: "c", State: workqueue.Delayed, Reason: workqueue.AddedRateLimited, Priority: 7, Due: start.Add(5 * time.Millisecond)},
			{Key: "a", State: workqueue.Delayed, Reason: workqueue.AddedAfter, Due: start.Add(time.Hour)},
			{Key: "b", State: workqueue.Delayed, Reason: workqueue.AddedAfter, Due: start.Add(2 * time.Hour)},
			{Key: "d", State: workqueue.Refused, Reason: workqueue.AddedAfter},
			{Key: "e", State: workqueue.Refused, Reason: workqueue.AddedRateLimited},
			{Key: "f", State: workqueue.Refused, Reason: workqueue.Added, Priority: 3},
			{Key: "g", State: workqueue.Refused, Reason: workqueue.Added, Priority: 3},
		})
		want(t, "counted", q.Stats().Dropped, uint64(7))
		want(t, "failures of what was refused", q.NumRequeues("e"), 0)
		advance(3 * time.Hour)
		want(t, "taken", getAll(t, q), []string{"a"})
	})
}

func TestK03_TheEarliestDueTimeIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.New(options{})
		q.AddAfter("a", 3*time.Second)
		q.AddAfter("b", 2*time.Second)
		q.AddAfter("a", time.Second)
		q.AddAfter("a", 5*time.Second)
		advance(time.Second - 1)
		want(t, "early", q.Len(), 0)
		advance(1)
		want(t, "at its time", getAll(t, q), []string{"a"})
		advance(time.Second)
		want(t, "at its time", getAll(t, q), []string{"b"})
		advance(time.Hour)
		want(t, "later", q.Len(), 0)
	})
}

func TestK03_ZeroAndNegativeDelaysAddNow(t *testing.T) {
	q := workqueue.New(options{})
	q.AddAfter("a", 0)
	q.AddAfter("b", -time.Hour)
	q.AddAfter("a", -1)
	want(t, "taken", getAll(t, q), []string{"a", "b"})
}

func TestK03_AddingADelayedItemKeepsItsDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.New(options{})
		q.AddAfter("a", time.Second)
		q.Add("a")
		want(t, "taken", getAll(t, q), []string{"a"})
		advance(time.Second)
		q.AddAfter("a", time.Second)
		advance(time.Second)
		want(t, "taken once", getAll(t, q), []string{"a"})
	})
}

func TestK03_AVeryLongDelayNeverEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.New(options{})
		advance(time.Second)
		q.AddAfter("a", 1<<63-1)
		advance(10_000 * time.Hour)
		want(t, "delayed", q.Stats().Delayed, 1)
		q.AddAfter("a", time.Second)
		advance(time.Second)
		want(t, "taken", getAll(t, q), []string{"a"})
	})
}

// An item due just after another may be up to 1 ms late, or 4 ms if many are due; the timer does
// not fire for each of them.
func TestK03_DueTimesAreKeptToTheMillisecond(t *testing.T) {
	for _, crowd := range []int{1, 100} {
		synctest.Test(t, func(t *testing.T) {
			const n = 2000
			f := &figures{}
			q := workqueue.New(workqueue.Options[int]{Metrics: f})
			bound := time.Millisecond
			if crowd > 1 {
				bound = 4 * time.Millisecond
			}
			start := time.Now()
			due := func(i int) time.Time { return start.Add(time.Duration(i/crowd+1) * 37 * time.Microsecond) }
			for i := range n {
				q.AddAfter(i, due(i).Sub(start))
			}
			last := start
			for range n {
				i, _ := q.Get()
				if late := time.Since(due(i)); late < 0 || late > bound {
					t.Errorf("%d is %v late", i, late)
				}
				last = time.Now()
			}
			synctest.Wait()
			if calls, most := f.calls, int(last.Sub(start)/bound)+2; calls > most {
				t.Errorf("the timer called %d times in %v", calls, last.Sub(start))
			}
		})
	}
}

func TestGetContextEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.New(options{})
		cause := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Minute, func() { cancel(cause) })
		_, err := q.GetContext(ctx)
		want(t, "error", err, cause)
		q.Add("a")
		_, err = q.GetContext(ctx)
		want(t, "error, though there is an item", err, cause)
		item, err := q.GetContext(t.Context())
		want(t, "taken", item, "a")
		want(t, "error", err, nil)
	})
}
