package recorder

import (
	"container/heap"
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire"
)

// While the server is not available, a request is repeated this often and after about this
// time.
const (
	maxAttempts = 12
	retryDelay  = 10 * time.Second
)

// Run sends events until the context is done. Then it sends what is pending, each once and
// without waiting for intervals or limits, for at most Options.Grace. It returns an error
// only if the recorder already runs: events that cannot be written are counted in the status. It
// implements controller.Runner.
func (r *Recorder) Run(ctx context.Context) error {
	if !r.running.CompareAndSwap(false, true) {
		return errors.New("recorder: already running")
	}
	defer r.running.Store(false)
	sending, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(r.opts.Grace, cancel) })()
	for sending.Err() == nil {
		s, wait := r.next(ctx.Err() != nil)
		if s != nil {
			r.send(sending, s, ctx)
			continue
		}
		if ctx.Err() != nil {
			return nil
		}
		var timer <-chan time.Time
		if wait > 0 {
			timer = time.After(wait)
		}
		select {
		case <-ctx.Done():
		case <-r.wake:
		case <-timer:
		}
	}
	r.dropAll()
	return nil
}

// next returns the next series to send, or how long to wait for it; 0 if there is none. When
// the recorder is stopping, nothing waits.
func (r *Recorder) next(stopping bool) (*series, time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	for len(r.queue) > 0 {
		s := r.queue[0]
		if !stopping && s.due.After(now) {
			return nil, s.due.Sub(now)
		}
		heap.Pop(&r.queue)
		if stopping || s.stored == 0 || s.failures > 0 {
			return s, 0 // a new Event and a retry have passed the limit already
		}
		token := s.limit.ReserveN(now, 1)
		delay := token.DelayFrom(now)
		if delay == 0 {
			return s, 0
		}
		token.CancelAt(now)
		s.due = now.Add(delay)
		heap.Push(&r.queue, s)
	}
	return nil, 0
}

// send writes a series to the API. ctx limits the request; the recorder is stopping when
// running is done.
func (r *Recorder) send(ctx context.Context, s *series, running context.Context) {
	event := s.event.DeepCopy()
	r.mu.Lock()
	exists, count := s.stored > 0, s.count
	if count > 1 {
		event.Series = &eventsv1.EventSeries{Count: count, LastObservedTime: micro(s.last)}
	}
	r.mu.Unlock()
	err := r.write(ctx, event, exists)
	if r.settle(s, count, err, running.Err() != nil) {
		r.opts.Logger.Warn("an event could not be written", "kind", event.Regarding.Kind, "namespace", event.Regarding.Namespace,
			"name", event.Regarding.Name, "reason", event.Reason, "error", err)
	}
}

// settle notes the outcome of a request with a count, and reports whether to log its error.
func (r *Recorder) settle(s *series, count int32, err error, stopping bool) (warn bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	s.busy = false
	if err != nil {
		r.status.LastError = err
		if s.failures++; s.failures < maxAttempts && temporary(err) && !stopping {
			r.push(s, now.Add(retryDelay+rand.N(retryDelay/4)))
			return false
		}
		warn = true
		if apierrors.IsForbidden(err) && !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			warn, r.warned = !r.warned, true
		}
	}
	s.failures = 0
	switch {
	case s.stored > 0:
		s.interval = min(2*s.interval, lastUpdate)
	case err == nil:
		r.waiting--
	default: // the next occurrence is a new Event
		r.waiting--
		r.forget(s)
		r.status.Failed += uint64(s.count)
		r.status.Pending -= int(s.count)
		return warn
	}
	n := int(count - s.stored)
	r.status.Pending -= n
	if err != nil {
		r.status.Failed += uint64(n)
	} else {
		r.status.Sent += uint64(n)
	}
	s.stored, s.ready = count, now.Add(s.interval)
	if s.count > s.stored {
		r.push(s, s.ready)
	}
	return warn
}

// write creates an Event or updates its series.
func (r *Recorder) write(ctx context.Context, event *eventsv1.Event, exists bool) error {
	patch := func() error {
		_, err := r.api.Patch(ctx, object.Key{Namespace: event.Namespace, Name: event.Name},
			wire.MergePatchOf(map[string]any{"series": event.Series}), wire.WriteOptions{})
		return err
	}
	if exists {
		if err := patch(); !apierrors.IsNotFound(err) {
			return err
		}
		// Events are deleted after a while, an hour by default.
	}
	_, err := r.api.Create(ctx, event, wire.WriteOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	// An earlier attempt created it, and its response was lost.
	if event.Series == nil {
		return nil
	}
	return patch()
}

// temporary reports whether a request may succeed later.
func temporary(err error) bool {
	var status *wire.Error
	if !errors.As(err, &status) {
		return true // no usable response
	}
	return status.Code >= 500 || status.Code == http.StatusTooManyRequests || status.Code == http.StatusConflict
}

// forget removes a series that was not created. The caller holds the mutex.
func (r *Recorder) forget(s *series) {
	if known, ok := r.series.Get(s.key); ok && known == any(s) {
		r.series.Remove(s.key)
	}
}

// dropAll empties the queue at the end of Grace.
func (r *Recorder) dropAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.queue {
		n := s.count - s.stored
		r.status.Dropped += uint64(n)
		r.status.Pending -= int(n)
		s.busy, s.failures = false, 0
		if s.stored > 0 {
			s.stored = s.count
			continue
		}
		r.waiting--
		r.forget(s)
	}
	r.queue = nil
}
