package clientgo

import (
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"

	own "github.com/tarnproject/tarn/workqueue"
)

// NewTypedQueue is client-go's workqueue.NewTyped on Tarn's queue.
func NewTypedQueue[T comparable]() workqueue.TypedInterface[T] {
	return NewTypedQueueWithConfig(workqueue.TypedQueueConfig[T]{})
}

// NewTypedQueueWithConfig is client-go's workqueue.NewTypedWithConfig on Tarn's queue.
// A config with a Queue of its own, which decides the order, or with a Clock that is
// not the real one asks for client-go's queue, and gets it.
func NewTypedQueueWithConfig[T comparable](config workqueue.TypedQueueConfig[T]) workqueue.TypedInterface[T] {
	if config.Queue != nil || !realClock(config.Clock) {
		return workqueue.NewTypedWithConfig(config)
	}
	return newQueue(own.Options[T]{}, config.Name, config.MetricsProvider)
}

// NewTypedDelayingQueue is client-go's constructor of that name on Tarn's queue.
func NewTypedDelayingQueue[T comparable]() workqueue.TypedDelayingInterface[T] {
	return NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[T]{})
}

// NewTypedDelayingQueueWithConfig is client-go's constructor of that name on Tarn's
// queue. A config with a Clock that is not the real one, or with a Queue that
// [NewTypedQueue] did not make, gets the delays of client-go. There is no goroutine that
// could need the Logger.
func NewTypedDelayingQueueWithConfig[T comparable](config workqueue.TypedDelayingQueueConfig[T]) workqueue.TypedDelayingInterface[T] {
	if !realClock(config.Clock) {
		return workqueue.NewTypedDelayingQueueWithConfig(config)
	}
	q, ours := config.Queue.(*queue[T])
	switch {
	case config.Queue == nil:
		q = newQueue(own.Options[T]{}, config.Name, config.MetricsProvider)
	case !ours:
		return workqueue.NewTypedDelayingQueueWithConfig(config)
	}
	return &delayingQueue[T]{q, retriesOf(config.Name, config.MetricsProvider)}
}

// NewTypedRateLimitingQueue is client-go's constructor of that name on Tarn's queue.
func NewTypedRateLimitingQueue[T comparable](rateLimiter workqueue.TypedRateLimiter[T]) workqueue.TypedRateLimitingInterface[T] {
	return NewTypedRateLimitingQueueWithConfig(rateLimiter, workqueue.TypedRateLimitingQueueConfig[T]{})
}

// NewTypedRateLimitingQueueWithConfig is client-go's constructor of that name on Tarn's
// queue. A config with a Clock that is not the real one, or with a DelayingQueue that
// [NewTypedDelayingQueue] did not make, gets client-go's.
func NewTypedRateLimitingQueueWithConfig[T comparable](rateLimiter workqueue.TypedRateLimiter[T], config workqueue.TypedRateLimitingQueueConfig[T]) workqueue.TypedRateLimitingInterface[T] {
	if config.DelayingQueue == nil {
		config.DelayingQueue = NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[T]{
			Name: config.Name, MetricsProvider: config.MetricsProvider, Clock: config.Clock,
		})
	}
	q, ours := config.DelayingQueue.(*delayingQueue[T])
	if !ours {
		return workqueue.NewTypedRateLimitingQueueWithConfig(rateLimiter, config)
	}
	return &rateLimitingQueue[T]{q, rateLimiter}
}

// NewQueue makes a named queue with a limiter. It is what controller-runtime's
// controller.Options wants, for a controller without priorities:
//
//	NewQueue: clientgo.NewQueue[reconcile.Request],
//
// [NewPriorityQueue] is for one with them, which is controller-runtime's default.
func NewQueue[T comparable](name string, rateLimiter workqueue.TypedRateLimiter[T]) workqueue.TypedRateLimitingInterface[T] {
	return NewTypedRateLimitingQueueWithConfig(rateLimiter, workqueue.TypedRateLimitingQueueConfig[T]{Name: name})
}

// realClock reports whether the clock is the one that Tarn's queue has. For any other, such as a
// test's, client-go's implementation is used. Tests with testing/synctest need no other clock.
func realClock(c clock.PassiveClock) bool {
	switch c.(type) {
	case nil, clock.RealClock, *clock.RealClock:
		return true
	}
	return false
}

// queue is Tarn's queue with what client-go does differently: its metrics, and a drain
// that waits for what is being processed only. All methods may be called from any
// goroutine.
//
// The layers delayingQueue and rateLimitingQueue add methods and no state: there is one
// queue, with one lock, below any of them.
type queue[T comparable] struct {
	*own.Queue[T]
	report   *report // nil without metrics
	draining atomic.Bool

	mu      sync.Mutex
	drained chan struct{} // closed when a drain is over; nil when there is none. Guarded by mu
}

// unlimited is the limiter of queues that are never asked to limit: those of client-go's
// own do, see rateLimitingQueue, and Tarn's need not be made.
type unlimited[T comparable] struct{}

func (unlimited[T]) When(T) time.Duration { return 0 }
func (unlimited[T]) Forget(T)             {}
func (unlimited[T]) NumRequeues(T) int    { return 0 }

func newQueue[T comparable](opts own.Options[T], name string, provider workqueue.MetricsProvider) *queue[T] {
	opts.Limiter = unlimited[T]{}
	m := metricsOf(name, provider)
	if m == nil {
		return &queue[T]{Queue: own.New(opts)}
	}
	opts.Metrics = m
	q := &queue[T]{Queue: own.New(opts)}
	q.report = startReport(m, q.Stats)
	return q
}

// Done is [own.Queue.Done], and ends a drain when nothing is processed any more.
func (q *queue[T]) Done(item T) {
	q.Queue.Done(item)
	if q.draining.Load() {
		q.endDrainIfIdle()
	}
}

// ShutDown is [own.Queue.ShutDown]; with metrics it waits until they are no longer
// reported.
func (q *queue[T]) ShutDown() {
	q.Queue.ShutDown()
	q.endDrain()
	q.report.stop()
}

// ShutDownWithDrain waits as client-go's does: until nothing is being processed. What
// waits to be taken does not hold it up, and neither does what was added while it was
// processed.
func (q *queue[T]) ShutDownWithDrain() {
	q.Queue.ShutDown()
	q.report.stop()
	<-q.drain()
}

// drain returns a channel that is closed when nothing is processed, or by ShutDown.
func (q *queue[T]) drain() <-chan struct{} {
	q.mu.Lock()
	if q.drained == nil {
		q.drained = make(chan struct{})
	}
	c := q.drained
	q.draining.Store(true)
	q.mu.Unlock()
	// A Done that did not see draining yet came before this look.
	q.endDrainIfIdle()
	return c
}

func (q *queue[T]) endDrainIfIdle() {
	if q.Stats().Processing == 0 {
		q.endDrain()
	}
}

func (q *queue[T]) endDrain() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.drained != nil {
		close(q.drained)
		q.drained = nil
	}
	q.draining.Store(false)
}

// delayingQueue counts retries where client-go does.
type delayingQueue[T comparable] struct {
	*queue[T]
	retries workqueue.CounterMetric // nil without metrics
}

// AddAfter is [own.Queue.AddAfter].
func (q *delayingQueue[T]) AddAfter(item T, d time.Duration) {
	if q.retries != nil && !q.ShuttingDown() {
		q.retries.Inc()
	}
	q.Queue.AddAfter(item, d)
}

// rateLimitingQueue asks a limiter of client-go's, each time.
type rateLimitingQueue[T comparable] struct {
	*delayingQueue[T]
	limiter workqueue.TypedRateLimiter[T]
}

// AddRateLimited adds the item when the limiter says so.
func (q *rateLimitingQueue[T]) AddRateLimited(item T) { q.AddAfter(item, q.limiter.When(item)) }

// Forget makes the limiter forget the item.
func (q *rateLimitingQueue[T]) Forget(item T) { q.limiter.Forget(item) }

// NumRequeues returns how often the limiter was asked about the item since Forget.
func (q *rateLimitingQueue[T]) NumRequeues(item T) int { return q.limiter.NumRequeues(item) }
