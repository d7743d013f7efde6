package clientgo_test

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/util/workqueue"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/tarnproject/tarn/clientgo"
)

// both runs a test over client-go's queue and ours, each in a bubble of its own.
func both(t *testing.T, test func(t *testing.T, ours bool, q workqueue.TypedDelayingInterface[string])) {
	for name, make := range map[string]func() workqueue.TypedDelayingInterface[string]{
		"client-go": workqueue.NewTypedDelayingQueue[string],
		"tarn":      clientgo.NewTypedDelayingQueue[string],
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := make()
				defer q.ShutDown()
				test(t, name == "tarn", q)
			})
		})
	}
}

// DQ1: due times that lie close together are served together.
func TestDQ1_ADelayMayEndUpToFourMillisecondsLate(t *testing.T) {
	both(t, func(t *testing.T, ours bool, q workqueue.TypedDelayingInterface[string]) {
		q.AddAfter("a", time.Second)
		q.AddAfter("b", time.Second+time.Microsecond)
		<-time.After(time.Second + 2*time.Microsecond)
		synctest.Wait()
		want := 2
		if ours {
			want = 1
		}
		if q.Len() != want {
			t.Errorf("%d wait just after their time, want %d", q.Len(), want)
		}
		<-time.After(4 * time.Millisecond)
		synctest.Wait()
		if q.Len() != 2 {
			t.Errorf("%d wait four milliseconds later, want both", q.Len())
		}
	})
}

// DQ2: Done of what was never taken.
func TestDQ2_DoneOfAnItemThatWaitsDoesNotDoubleIt(t *testing.T) {
	both(t, func(t *testing.T, ours bool, q workqueue.TypedDelayingInterface[string]) {
		q.Add("a")
		q.Done("a")
		want := 2 // client-go then gives it to two workers at a time
		if ours {
			want = 1
		}
		if q.Len() != want {
			t.Errorf("%d wait, want %d", q.Len(), want)
		}
	})
}

// DQ3: client-go's delaying queues handle ShutDown once.
func TestDQ3_EveryShutDownEndsADrain(t *testing.T) {
	both(t, func(t *testing.T, ours bool, q workqueue.TypedDelayingInterface[string]) {
		q.Add("a")
		q.Get()
		q.ShutDown()
		over := make(chan struct{})
		go func() { defer close(over); q.ShutDownWithDrain() }()
		synctest.Wait()
		q.ShutDown()
		synctest.Wait()
		ended := false
		select {
		case <-over:
			ended = true
		default:
		}
		if ended != ours {
			t.Errorf("the drain ended: %v, want %v", ended, ours)
		}
		q.Done("a")
		<-over
	})
}

// DQ4: client-go wakes one of those that wait for the same.
func TestDQ4_ConcurrentDrainsAllEnd(t *testing.T) {
	both(t, func(t *testing.T, ours bool, q workqueue.TypedDelayingInterface[string]) {
		q.Add("a")
		q.Get()
		over := make(chan struct{}, 2)
		for range 2 {
			go func() { q.ShutDownWithDrain(); over <- struct{}{} }()
		}
		synctest.Wait()
		q.Done("a")
		synctest.Wait()
		want := 1
		if ours {
			want = 2
		}
		if len(over) != want {
			t.Errorf("%d drains have ended, want %d", len(over), want)
		}
	})
}

// slow is a ledger whose count of additions can be held up.
type slow struct {
	*ledger
	entered, release chan struct{}
	mu               sync.Mutex // guards reports
	reports          []string
}

type slowCounter struct{ *slow }

func (c slowCounter) Inc() {
	close(c.entered)
	<-c.release
}

type slowGauge struct{ *slow }

func (g slowGauge) note(what string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.reports = append(g.reports, what)
}
func (g slowGauge) Inc() { g.note("one more") }
func (g slowGauge) Dec() { g.note("one less") }

func (s *slow) NewAddsMetric(string) workqueue.CounterMetric { return slowCounter{s} }
func (s *slow) NewDepthMetric(string) workqueue.GaugeMetric  { return slowGauge{s} }

// DQ5: an Add that is about to report to the metrics blocks no other call, so a Get may be reported
// first.
func TestDQ5_MetricsAreToldAfterTheLock(t *testing.T) {
	for name, create := range map[string]func(workqueue.TypedQueueConfig[string]) workqueue.TypedInterface[string]{
		"client-go": func(config workqueue.TypedQueueConfig[string]) workqueue.TypedInterface[string] {
			return workqueue.NewTypedWithConfig(config)
		},
		"tarn": clientgo.NewTypedQueueWithConfig[string],
	} {
		t.Run(name, func(t *testing.T) {
			m := &slow{ledger: &ledger{}, entered: make(chan struct{}), release: make(chan struct{})}
			q := create(workqueue.TypedQueueConfig[string]{Name: "q", MetricsProvider: m})
			defer q.ShutDown()
			var calls sync.WaitGroup
			calls.Go(func() { q.Add("a") })
			<-m.entered
			want := []string{"one more", "one less"}
			if name == "tarn" {
				q.Get() // client-go's would wait for ever
				want = []string{"one less", "one more"}
			} else {
				calls.Go(func() { q.Get() })
			}
			close(m.release)
			calls.Wait()
			if !slices.Equal(m.reports, want) {
				t.Errorf("the depth was set to %q, want %q", m.reports, want)
			}
		})
	}
}

func TestADrainWaitsForWhatIsProcessedAndNotForWhatWaits(t *testing.T) {
	both(t, func(t *testing.T, _ bool, q workqueue.TypedDelayingInterface[string]) {
		q.Add("a")
		q.Add("b")
		q.AddAfter("c", time.Second)
		q.Get()
		q.Add("a") // again, after Done
		over := make(chan struct{})
		go func() { defer close(over); q.ShutDownWithDrain() }()
		synctest.Wait()
		select {
		case <-over:
			t.Fatal("the drain did not wait for a")
		default:
		}
		q.Done("a")
		<-over
		for _, want := range []string{"b", "a"} {
			if item, shutdown := q.Get(); item != want || shutdown {
				t.Errorf("Get = %q, %v; want %q, which waits", item, shutdown, want)
			}
		}
		<-time.After(2 * time.Second)
		if item, shutdown := q.Get(); !shutdown {
			t.Errorf("Get = %q; what was delayed is dropped", item)
		}
	})
}

func TestAFakeClockIsHonoured(t *testing.T) {
	c := clocktesting.NewFakeClock(time.Now())
	q := clientgo.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Hour, time.Hour),
		workqueue.TypedRateLimitingQueueConfig[string]{Clock: c})
	defer q.ShutDown()
	q.AddRateLimited("a")
	for !c.HasWaiters() || q.Len() == 0 { // the goroutine of client-go's queue has to get there
		c.Step(time.Hour)
	}
	if item, _ := q.Get(); item != "a" {
		t.Errorf("Get = %q", item)
	}
}

// backwards is an order of its own: the last first.
type backwards []string

func (b *backwards) Touch(string)     {}
func (b *backwards) Push(item string) { *b = append(*b, item) }
func (b *backwards) Len() int         { return len(*b) }
func (b *backwards) Pop() string {
	item := (*b)[len(*b)-1]
	*b = (*b)[:len(*b)-1]
	return item
}

func TestAnOrderOfOnesOwnIsHonoured(t *testing.T) {
	q := clientgo.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[string]{
		Queue: clientgo.NewTypedQueueWithConfig(workqueue.TypedQueueConfig[string]{Queue: &backwards{}}),
	})
	defer q.ShutDown()
	q.Add("a")
	q.Add("b")
	if item, _ := q.Get(); item != "b" {
		t.Errorf("Get = %q, want b, which came last", item)
	}
}

func TestLayersOverAQueueOfOursShareIt(t *testing.T) {
	below := clientgo.NewTypedQueue[string]()
	l := &ledger{}
	q := clientgo.NewTypedRateLimitingQueueWithConfig(workqueue.DefaultTypedControllerRateLimiter[string](),
		workqueue.TypedRateLimitingQueueConfig[string]{
			DelayingQueue: clientgo.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[string]{
				Name: "q", MetricsProvider: l, Queue: below,
			}),
		})
	q.AddAfter("a", 0)
	if item, _ := below.Get(); item != "a" {
		t.Errorf("Get = %q", item)
	}
	if l.tries != 1 || l.adds != 0 {
		t.Errorf("%d retries, %d adds; want the delays' own metric and no other", l.tries, l.adds)
	}
	q.ShutDown()
	if !below.ShuttingDown() {
		t.Error("the queue below goes on")
	}
}

// ofQueues is the process's provider, which can be set once.
var ofQueues = sync.OnceValue(func() *ledger {
	l := &ledger{}
	workqueue.SetProvider(l)
	return l
})

func TestTheProcessesProviderIsUsedWhereTheConfigNamesNone(t *testing.T) {
	l := ofQueues()
	*l = ledger{}
	// The item must still be delayed when the figures are read.
	q := clientgo.NewQueue("q", workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Hour, time.Hour))
	defer q.ShutDown()
	q.Add("a")
	q.AddRateLimited("b")
	if l.adds != 1 || l.depth != 1 || l.tries != 1 {
		t.Errorf("adds %d, depth %d, retries %d; want one each", l.adds, l.depth, l.tries)
	}
	unnamed := clientgo.NewTypedQueue[string]()
	defer unnamed.ShutDown()
	unnamed.Add("a")
	if l.adds != 1 {
		t.Error("a queue without a name has metrics")
	}
	high := 7
	ranked := clientgo.NewPriorityQueue[string, addOpts]("ranked", nil).(priorityQueue)
	defer ranked.ShutDown()
	ranked.Add("a")
	ranked.AddWithOpts(addOpts{Priority: &high}, "b")
	if l.adds != 3 || l.depth != 3 {
		t.Errorf("adds %d, depth %d; want all priorities in one figure", l.adds, l.depth)
	}
}
