package controller

import (
	"cmp"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tarnproject/tarn/workqueue"
)

// Status is a report on a controller. Counters cover all runs.
type Status struct {
	Name  string
	State State
	// Err is the error of the last run; nil while the controller runs.
	Err error
	// Paused is true from a call of Pause until one of Resume.
	Paused bool
	// Workers is how many keys may be reconciled concurrently.
	Workers int
	// Own are the names of the sources whose objects have the reconciled keys: those of For.
	Own []string
	// Fenced is why the controller may not begin a reconcile now; nil if it may.
	Fenced error
	// Queue has the figures of the queue; zero while the controller is idle.
	Queue workqueue.Stats
	// Running are the keys being reconciled, longest running first.
	Running []Running
	// Left is how many keys still had to be reconciled when the last run ended, and LeftKeys
	// are up to Options.Errors of them. Both are zero while the controller runs, and after a
	// loss of leadership.
	Left     int
	LeftKeys []any
	// Failures are the last errors of keys that have not succeeded since, newest first, up
	// to Options.Errors. They are those of the current or the last run; none after a loss of
	// leadership.
	Failures []Failure
	// MoreFailures is true if more keys failed than Failures can hold. It is reset when Failures is
	// empty.
	MoreFailures bool
	// Failing is how many keys fail: those of Failures, and those to be retried whose error is not
	// kept.
	Failing int
	// Keys is how many keys the sources with a Len have; 0 if none has one, or while the controller
	// is idle.
	Keys int

	// Reconciles counts the reconciles that have returned.
	Reconciles uint64
	// Failed counts those that returned a reported error, Panicked those that panicked, and
	// GivenUp those after which the key was not retried.
	Failed, Panicked, GivenUp uint64
	// Conflicts counts those that failed with an optimistic-lock conflict, and Requeued those
	// that returned Requeue.
	Conflicts, Requeued uint64
	// Stale counts those that returned ErrStaleCache.
	Stale uint64
	// Held counts how often a key was held back because a cache was older than a write of
	// this process, before or during a reconcile.
	Held uint64
	// HeldKeys are the keys currently held back for that reason, longest held first, up to
	// Options.Errors.
	HeldKeys []HeldKey
	// SourceFailures counts events that sources could not map to keys.
	SourceFailures uint64
	// FunctionPanics counts the panics of the program's functions other than the reconcile: predicates
	// and functions that map objects to keys, Queue.Group, observers, metrics and limiters. Each
	// affects one key only. LastFunctionPanic is the latest of them, a [*PanicError]; nil if there was none.
	FunctionPanics    uint64
	LastFunctionPanic error
	// NotReady is why the sources of a controller that runs are not ready; nil if they are.
	NotReady error
	// Latency is how long reconciles took.
	Latency Latency
}

// Running is a key that is being reconciled.
type Running struct {
	Key     any
	Attempt int
	Since   time.Time
}

// HeldKey is a key that waits for a cache to have a write of this process.
type HeldKey struct {
	Key any
	// Since is when it was first held back, and Retries how often it was retried.
	Since   time.Time
	Retries int
	// Err wraps [ErrStaleCache]; it names the cache and the object if they are known.
	Err error
}

// Failure is the last error of a key.
type Failure struct {
	Key     any
	Err     error
	Attempt int
	At      time.Time

	// The rest of the reconcile, which outlasts that in Controller.recent.
	outcome Outcome
	took    time.Duration
	log     []string
}

func (f *Failure) reconcile() Reconcile {
	return Reconcile{Key: f.Key, Start: f.At.Add(-f.took), Duration: f.took, Attempt: f.Attempt, Outcome: f.outcome, Err: f.Err, Log: slices.Clone(f.log)}
}

// Latency is how long reconciles took.
type Latency struct {
	Count          uint64
	Mean, Max      time.Duration
	Median, Most99 time.Duration // 50th and 99th percentile, to within a factor of 2
}

// String returns a readable summary of a few lines.
func (s Status) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s, %d waiting, %d running, %d delayed; %d reconciled, %d failed",
		s.Name, s.State, s.Queue.Waiting+s.Queue.Dirty, len(s.Running), s.Queue.Delayed, s.Reconciles, s.Failed)
	if s.Left > 0 {
		fmt.Fprintf(&b, "; %d left when it stopped", s.Left)
	}
	if s.Err != nil {
		fmt.Fprintf(&b, "\n  failed: %v", s.Err)
	}
	if s.Paused {
		b.WriteString("\n  paused")
	}
	if s.NotReady != nil {
		fmt.Fprintf(&b, "\n  not ready: %v", s.NotReady)
	}
	if s.LastFunctionPanic != nil {
		fmt.Fprintf(&b, "\n  %d panics, the last: %v", s.FunctionPanics, s.LastFunctionPanic)
	}
	if s.Fenced != nil {
		fmt.Fprintf(&b, "\n  fenced off: %v", s.Fenced)
	}
	for _, h := range s.HeldKeys {
		fmt.Fprintf(&b, "\n  %v: held back for %v: %v", h.Key, time.Since(h.Since).Round(time.Second), h.Err)
	}
	for _, f := range s.Failures {
		fmt.Fprintf(&b, "\n  %v: attempt %d: %v", f.Key, f.Attempt, f.Err)
	}
	return b.String()
}

// Status returns the current status. It is cheap.
func (c *Controller[K]) Status() Status {
	n := &c.counts
	s := Status{
		Name: c.name, Paused: c.gate.isShut(), Workers: c.opts.Workers, Latency: c.latency.read(),
		Reconciles: n.reconciles.Load(), Failed: n.failures.Load(), Panicked: n.panics.Load(), GivenUp: n.givenUp.Load(),
		Conflicts: n.conflicts.Load(), Requeued: n.requeues.Load(), Stale: n.stale.Load(), Held: n.held.Load(), SourceFailures: n.sourceFailures.Load(),
	}
	s.FunctionPanics = n.functions.Load()
	if p := c.lastPanic.Load(); p != nil {
		s.LastFunctionPanic = p
	}
	s.Failures, s.MoreFailures = c.failures.list()
	s.Failing = len(s.Failures)
	for i := range c.sources {
		if c.sources[i].Pending != nil {
			s.Own = append(s.Own, c.sources[i].Name)
		}
	}
	c.mu.Lock()
	r := c.run
	s.Err, s.Left = c.err, len(c.left)
	for _, key := range c.left[:min(len(c.left), c.opts.Errors)] {
		s.LeftKeys = append(s.LeftKeys, key)
	}
	c.mu.Unlock()
	if r == nil {
		return s
	}
	s.State = State(r.state.Load())
	s.Queue = r.queue.Stats()
	s.HeldKeys = r.notes.heldKeys(c.opts.Errors)
	s.Failing, s.Keys = r.notes.failing(s.Failures), r.keys()
	s.Fenced, s.NotReady = r.fences.check(), r.notReady()
	for i := range r.workers {
		w := &r.workers[i]
		w.mu.Lock()
		if w.busy {
			s.Running = append(s.Running, Running{Key: w.key, Attempt: w.attempt, Since: w.since})
		}
		w.mu.Unlock()
	}
	slices.SortStableFunc(s.Running, func(a, b Running) int { return a.Since.Compare(b.Since) })
	return s
}

// failing returns how many keys are to be retried after an error, and those of kept that are not.
func (n *notes[K]) failing(kept []Failure) (keys int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, e := range n.of {
		if e.failures > 0 {
			keys++
		}
	}
	for _, f := range kept {
		if e := n.of[f.Key.(K)]; e == nil || e.failures == 0 {
			keys++
		}
	}
	return keys
}

// keys returns how many keys the sources have, as far as that is known.
func (r *run[K]) keys() (n int) {
	r.attaching.Lock()
	defer r.attaching.Unlock()
	for _, g := range append(slices.Collect(maps.Values(r.attached)), r.group) {
		for i := range g.sources {
			if size := g.sources[i].Len; size != nil {
				n += size()
			}
		}
	}
	return n
}

// counts are figures for Status.
type counts struct {
	reconciles, failures, panics, givenUp atomic.Uint64
	conflicts, requeues, stale, held      atomic.Uint64
	sourceFailures, functions             atomic.Uint64
}

// histogram counts durations by their number of bits.
type histogram struct {
	buckets [64]atomic.Uint64
	total   atomic.Int64
	most    atomic.Int64
}

func (h *histogram) add(d time.Duration) {
	d = max(0, d)
	h.buckets[bits.Len64(uint64(d))].Add(1)
	h.total.Add(int64(d))
	for most := h.most.Load(); int64(d) > most && !h.most.CompareAndSwap(most, int64(d)); most = h.most.Load() {
	}
}

func (h *histogram) read() Latency {
	var counts [len(h.buckets)]uint64
	l := Latency{Max: time.Duration(h.most.Load())}
	for i := range counts {
		counts[i] = h.buckets[i].Load()
		l.Count += counts[i]
	}
	if l.Count == 0 {
		return l
	}
	l.Mean = time.Duration(uint64(h.total.Load()) / l.Count)
	upTo := func(n uint64) time.Duration {
		for i, c := range counts {
			if c >= n {
				return min(l.Max, time.Duration(uint64(1)<<i-1))
			}
			n -= c
		}
		return l.Max
	}
	l.Median, l.Most99 = upTo((l.Count+1)/2), upTo(l.Count-l.Count/100)
	return l
}

// failures keeps a bounded number of last errors by key.
type failures[K comparable] struct {
	n     atomic.Int64 // len(of)
	limit int

	mu   sync.Mutex // guards all below
	of   map[K]Failure
	more bool // one was dropped for another since of was last empty
}

// put keeps an error with its reconcile. The oldest makes room.
func (f *failures[K]) put(key K, e Failure) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.of == nil {
		f.of = map[K]Failure{}
	}
	if _, ok := f.of[key]; !ok && len(f.of) >= f.limit {
		var oldest K
		var at time.Time
		for k, e := range f.of {
			if at.IsZero() || e.At.Before(at) {
				oldest, at = k, e.At
			}
		}
		delete(f.of, oldest)
		f.more = true
	}
	e.Key, e.At = key, time.Now()
	f.of[key] = e
	f.n.Store(int64(len(f.of)))
}

// drop removes the error of a key that has succeeded.
func (f *failures[K]) drop(key K) {
	if f.n.Load() == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.of, key)
	f.dropped()
}

// dropAll removes the errors of the keys that match.
func (f *failures[K]) dropAll(match func(K) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	maps.DeleteFunc(f.of, func(key K, _ Failure) bool { return match(key) })
	f.dropped()
}

// clear removes all errors.
func (f *failures[K]) clear() { f.dropAll(func(K) bool { return true }) }

// dropped records that errors were removed. The caller holds the lock.
func (f *failures[K]) dropped() {
	f.n.Store(int64(len(f.of)))
	f.more = f.more && len(f.of) > 0
}

// list returns the errors, newest first, and whether there have been more.
func (f *failures[K]) list() ([]Failure, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := make([]Failure, 0, len(f.of))
	for _, e := range f.of {
		list = append(list, e)
	}
	slices.SortFunc(list, func(a, b Failure) int {
		return cmp.Or(b.At.Compare(a.At), cmp.Compare(fmt.Sprint(a.Key), fmt.Sprint(b.Key)))
	})
	return list, f.more
}

// get returns the error of a key; nil if there is none.
func (f *failures[K]) get(key K) *Failure {
	f.mu.Lock()
	defer f.mu.Unlock()
	if e, ok := f.of[key]; ok {
		return &e
	}
	return nil
}
