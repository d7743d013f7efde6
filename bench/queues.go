package main

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	clientgo "k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"

	"github.com/tarnproject/tarn/bench/pods"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/workqueue"
)

// queueJobs are the jobs on work queues. No queue has a name or a metrics provider, so
// none keeps metrics.
var queueJobs = map[string]func(job) sample{
	"queue-alone":      func(j job) sample { return aloneInQueue(j, newQueue(j.Side), 0) },
	"queue-priority":   func(j job) sample { return aloneInQueue(j, prioritised(j.Side), 0) },
	"queue-backlog":    func(j job) sample { return aloneInQueue(j, prioritised(j.Side), 10_000) },
	"queue-contention": contendedQueue,
	"queue-delays":     delayedItems,
	"queue-limited":    limitedItems,
	"queue-memory":     func(j job) sample { return weighItems(j, 0) },
	"queue-delayed":    func(j job) sample { return weighItems(j, time.Hour) },
}

// workQueue is what the benchmarks call of all three.
type workQueue interface {
	basicQueue
	AddAfter(item object.Key, d time.Duration)
	AddRateLimited(item object.Key)
	Forget(item object.Key)
	NumRequeues(item object.Key) int
}

// The limiter of each side: one delay per item, 5 ms at first.
const firstDelay, lastDelay = 5 * time.Millisecond, 1000 * time.Second

// rateLimiting returns a side's rate-limiting queue.
func rateLimiting(side string) workQueue {
	switch side {
	case sideClientGo:
		return clientgo.NewTypedRateLimitingQueue(
			clientgo.NewTypedItemExponentialFailureRateLimiter[object.Key](firstDelay, lastDelay))
	case sideRuntime:
		return priorityqueue.New("", func(o *priorityqueue.Opts[object.Key]) {
			o.RateLimiter = clientgo.NewTypedItemExponentialFailureRateLimiter[object.Key](firstDelay, lastDelay)
		})
	}
	return workqueue.New(workqueue.Options[object.Key]{
		Limiter: workqueue.NewExponential[object.Key](firstDelay, lastDelay),
	})
}

// basicQueue is a queue without delays.
type basicQueue interface {
	Add(item object.Key)
	Get() (item object.Key, shutdown bool)
	Done(item object.Key)
	Len() int
	ShutDown()
}

// newQueue returns a side's basic queue.
func newQueue(side string) basicQueue {
	if side == sideClientGo {
		return clientgo.NewTyped[object.Key]()
	}
	return rateLimiting(side)
}

// prioritised returns a queue whose Add uses three priorities in turn.
func prioritised(side string) basicQueue {
	if side == sideRuntime {
		return &runtimePriorities{PriorityQueue: priorityqueue.New[object.Key]("")}
	}
	return &tarnPriorities{Queue: workqueue.New(workqueue.Options[object.Key]{})}
}

type runtimePriorities struct {
	priorityqueue.PriorityQueue[object.Key]
	added int
}

func (q *runtimePriorities) Add(item object.Key) {
	q.added++
	priority := q.added % 3
	q.AddWithOpts(priorityqueue.AddOpts{Priority: &priority}, item)
}

type tarnPriorities struct {
	*workqueue.Queue[object.Key]
	added int
}

func (q *tarnPriorities) Add(item object.Key) {
	q.added++
	q.AddWith(workqueue.Request{Priority: q.added % 3}, item)
}

// aloneInQueue repeats Add, Get and Done of one item while others may wait.
func aloneInQueue(j job, q basicQueue, waiting int) sample {
	defer q.ShutDown()
	const some = 1_000
	waiting = min(waiting, j.Objects/2)
	keys := pods.Keys(pods.Options{Objects: waiting + some})
	for _, k := range keys[:waiting] {
		q.Add(k)
	}
	at, next := waiting, keys[waiting]
	life := func(n int) {
		for range n {
			q.Add(next)
			got, _ := q.Get()
			if waiting == 0 && got != next {
				fail("added %v, got %v", next, got)
			}
			q.Done(got)
			if next = got; waiting == 0 {
				at = (at + 1) % len(keys)
				next = keys[at]
			}
		}
	}
	life(10 * some)
	m, n := j.begin(), 0
	for now()-m.wall < int64(j.Turn) {
		life(some)
		n += some
	}
	s := m.end(n)
	if left := q.Len(); left != waiting {
		fail("%d items wait; want %d", left, waiting)
	}
	return s
}

// contendedQueue passes items from 8 producers to 8 consumers.
func contendedQueue(j job) sample {
	const producers, consumers = 8, 8
	keys := pods.Keys(pods.Options{Objects: j.Objects})
	q := newQueue(j.Side)
	var consumed atomic.Int64
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range consumers {
		wg.Go(func() {
			for {
				key, shutdown := q.Get()
				if shutdown {
					return
				}
				q.Done(key)
				if consumed.Add(1)%int64(len(keys)) == 0 {
					done <- struct{}{}
				}
			}
		})
	}
	pass := func() {
		for p := range producers {
			wg.Go(func() {
				for i := p; i < len(keys); i += producers {
					q.Add(keys[i])
				}
			})
		}
		<-done
	}
	pass() // grows maps and slices
	m, n := j.begin(), 0
	for n == 0 || now()-m.wall < int64(j.Turn) {
		pass()
		n += len(keys)
	}
	s := m.end(n)
	q.ShutDown()
	wg.Wait()
	if got, want := consumed.Load(), int64(n+len(keys)); got != want {
		fail("%d items came out; want %d", got, want)
	}
	return s
}

// spread is the largest delay.
const spread = time.Second

// delayedItems adds all items with random delays and takes each when it is due.
func delayedItems(j job) sample {
	keys := pods.Keys(pods.Options{Objects: j.Objects})
	rng := rand.New(rand.NewPCG(3, 4))
	delays := make([]time.Duration, len(keys))
	due := make(map[object.Key]time.Time, len(keys))
	for i := range delays {
		delays[i] = 1 + time.Duration(rng.Int64N(int64(spread)))
	}
	// Due times are checked separately, on some of the items, because checking costs
	// more than the operation.
	checked := rateLimiting(j.Side)
	for i, k := range keys[:min(1_000, len(keys))] {
		due[k] = time.Now().Add(delays[i] / 4)
		checked.AddAfter(k, delays[i]/4)
	}
	for len(due) > 0 {
		k, _ := checked.Get()
		if early := time.Until(due[k]); early > 0 {
			fail("%v came %v too early", k, early)
		}
		delete(due, k)
		checked.Done(k)
	}
	checked.ShutDown()

	q := rateLimiting(j.Side)
	defer q.ShutDown()
	m := j.begin()
	go func() {
		for i, k := range keys {
			q.AddAfter(k, delays[i])
		}
	}()
	for range keys {
		k, _ := q.Get()
		q.Done(k)
	}
	s := m.end(len(keys))
	if left := q.Len(); left != 0 {
		fail("%d items are left", left)
	}
	return s
}

// limitedItems makes items fail once: AddRateLimited, Get, Done, Forget.
func limitedItems(j job) sample {
	keys := pods.Keys(pods.Options{Objects: min(10_000, j.Objects)})
	q := rateLimiting(j.Side)
	defer q.ShutDown()
	pass := func() {
		for _, k := range keys {
			q.AddRateLimited(k)
		}
		for range keys {
			k, _ := q.Get()
			q.Done(k)
			q.Forget(k)
		}
	}
	pass()
	m, n := j.begin(), 0
	for n == 0 || now()-m.wall < 2*int64(j.Turn) {
		pass()
		n += len(keys)
	}
	s := m.end(n)
	if left := q.Len(); left != 0 {
		fail("%d items are left", left)
	}
	for _, k := range keys {
		if q.NumRequeues(k) != 0 {
			fail("%v is not forgotten", k)
		}
	}
	return s
}

// weighItems returns the memory of waiting items, or of delayed ones if there is a delay. The
// strings of the keys do not count.
func weighItems(j job, delay time.Duration) sample {
	keys := pods.Keys(pods.Options{Objects: j.Objects})
	before := heap()
	q := rateLimiting(j.Side)
	for _, k := range keys {
		if delay > 0 {
			q.AddAfter(k, delay)
		} else {
			q.Add(k)
		}
	}
	// client-go and controller-runtime accept items in background goroutines.
	if delay > 0 {
		settle()
	}
	if got := q.Len(); delay == 0 && got != len(keys) || delay > 0 && got != 0 {
		fail("%d of %d items wait", got, len(keys))
	}
	s := sample{Ops: float64(len(keys)), Live: float64(heap() - before)}
	runtime.KeepAlive(keys)
	q.ShutDown()
	return s
}

// settle waits until the process has been idle for a while.
func settle() {
	for quiet, last := 0, processTime(); quiet < 3; {
		time.Sleep(20 * time.Millisecond)
		used := processTime()
		if quiet++; used-last > int64(2*time.Millisecond) {
			quiet = 0
		}
		last = used
	}
}
