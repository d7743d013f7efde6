package recorder

import (
	"container/heap"
	"hash/maphash"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The limits are those of client-go's recorders, except for the intervals of updates.
const (
	seriesWindow  = 6 * time.Minute
	similarWindow = 10 * time.Minute
	maxSimilar    = 10
	limitBurst    = 25
	limitRefill   = 5 * time.Minute
	maxRemembered = 4096 // series, groups of similar events, and limits

	firstUpdate = 10 * time.Second // of a series, after it was created
	lastUpdate  = 5 * time.Minute  // the longest time between two updates
)

const combinedPrefix = "(combined from similar events): "

// occurrence is one recorded event.
type occurrence struct {
	at                              time.Time
	regarding, related              corev1.ObjectReference
	eventtype, reason, action, note string
}

// The keys have references without a resource version.
type (
	seriesKey struct {
		regarding, related              corev1.ObjectReference
		eventtype, reason, action, note string
		combined                        bool
	}
	similarKey struct {
		regarding         corev1.ObjectReference
		eventtype, reason string
	}
	limitKey struct {
		regarding corev1.ObjectReference
		eventtype string
	}
)

// series is an Event and how often it has occurred. The Recorder's mutex guards it, except for
// key, event and limit, which do not change.
type series struct {
	key   seriesKey
	event *eventsv1.Event // of the first occurrence, without a series
	limit *rate.Limiter   // of requests

	count    int32     // how often it has occurred
	last     time.Time // when it last did
	stored   int32     // the count that the server has; 0 until the Event is created
	failures int       // of the present request
	interval time.Duration
	ready    time.Time // not updated before

	busy  bool      // in the queue, or being sent
	due   time.Time // when it is to be sent; does not change in the queue
	order uint64    // of creation
}

// correlate decides what becomes of an occurrence: part of a series, a new Event, or nothing. The
// caller holds the mutex.
func (r *Recorder) correlate(o occurrence) {
	regarding, related := o.regarding, o.related
	regarding.ResourceVersion, related.ResourceVersion = "", ""
	o.note = truncate(o.note, maxNote)
	key := seriesKey{regarding: regarding, related: related, eventtype: o.eventtype, reason: o.reason, action: o.action, note: o.note}
	if r.manySimilar(similarKey{regarding, o.eventtype, o.reason}, o.note) {
		key = seriesKey{regarding: regarding, eventtype: o.eventtype, reason: o.reason, combined: true}
		o.note = truncate(combinedPrefix+o.note, maxNote)
	}
	if known, ok := r.series.Get(key); ok {
		s := known.(*series)
		r.series.Add(key, s, seriesWindow) // from now on
		s.count++
		s.last = o.at
		r.status.Pending++
		if !s.busy {
			r.push(s, s.ready)
		}
		return
	}
	limit := r.limitOf(limitKey{regarding, o.eventtype})
	if r.waiting >= r.opts.Buffer || !limit.AllowN(o.at, 1) {
		r.status.Dropped++
		return
	}
	r.created++
	s := &series{
		key: key, event: r.newEvent(o), limit: limit, count: 1, last: o.at, interval: firstUpdate, order: r.created,
	}
	r.series.Add(key, s, seriesWindow)
	r.status.Pending++
	r.waiting++
	r.push(s, o.at)
}

// manySimilar reports whether an event is to be combined with similar ones.
func (r *Recorder) manySimilar(key similarKey, note string) bool {
	notes := map[uint64]struct{}{}
	if known, ok := r.similar.Get(key); ok {
		notes = known.(map[uint64]struct{})
	}
	r.similar.Add(key, notes, similarWindow) // from now on
	hash := maphash.String(r.seed, note)
	if _, ok := notes[hash]; ok {
		return false
	}
	if len(notes) == maxSimilar {
		return true
	}
	notes[hash] = struct{}{}
	return false
}

func (r *Recorder) limitOf(key limitKey) *rate.Limiter {
	limit := rate.NewLimiter(rate.Every(limitRefill), limitBurst)
	if known, ok := r.limits.Get(key); ok {
		limit = known.(*rate.Limiter)
	}
	r.limits.Add(key, limit, limitBurst*limitRefill) // then it is full again
	return limit
}

func (r *Recorder) newEvent(o occurrence) *eventsv1.Event {
	e := &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: o.regarding.Namespace, Name: eventName(o.regarding.Name, o.at)},
		EventTime:  micro(o.at), ReportingController: r.controller, ReportingInstance: r.opts.Instance,
		Action: o.action, Reason: o.reason, Regarding: o.regarding, Note: o.note, Type: o.eventtype,
	}
	if e.Namespace == "" { // of a cluster-scoped object
		e.Namespace = metav1.NamespaceDefault
	}
	if o.related != (corev1.ObjectReference{}) {
		e.Related = &o.related
	}
	return e
}

func micro(t time.Time) metav1.MicroTime { return metav1.MicroTime{Time: t.Truncate(time.Microsecond)} }

// push adds a series to the queue. The caller holds the mutex.
func (r *Recorder) push(s *series, due time.Time) {
	s.busy, s.due = true, due
	heap.Push(&r.queue, s)
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// queue is a heap of series by due, then by order of creation.
type queue []*series

// Len implements heap.Interface.
func (q queue) Len() int { return len(q) }

// Less implements heap.Interface.
func (q queue) Less(i, j int) bool {
	if c := q[i].due.Compare(q[j].due); c != 0 {
		return c < 0
	}
	return q[i].order < q[j].order
}

// Swap implements heap.Interface.
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }

// Push implements heap.Interface.
func (q *queue) Push(s any) { *q = append(*q, s.(*series)) }

// Pop implements heap.Interface.
func (q *queue) Pop() any {
	last := len(*q) - 1
	s := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	return s
}
