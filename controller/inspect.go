package controller

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tarnproject/tarn/workqueue"
)

// KeyStatus is a report on one key of a controller.
type KeyStatus struct {
	// Running is the reconcile in progress; nil if there is none.
	Running *Running
	// Queued is true if the key waits for a worker, since Since. That is zero where the queue
	// notes no times; see workqueue.Options.Times. While a reconcile of the key runs, it means
	// that the key will be reconciled again.
	Queued   bool
	Since    time.Time
	Priority int
	// Due is when the key is added to the queue next; zero if it is not delayed. Backoff is true
	// if that is a retry.
	Due     time.Time
	Backoff bool
	// Attempt is the number of the next attempt, from 1 on.
	Attempt int
	// Held is set while the key waits for a cache to have a write of this process.
	Held *HeldKey
	// Failure is the last error of a key that has not succeeded since. It may be nil for a failing
	// key, whose Attempt is more than 1, if more keys fail than Options.Errors.
	Failure *Failure
	// Recent are the last reconciles of the key, newest first, as far as Options.Recent kept them.
	// The last is that of Failure if Options.Recent did not keep it.
	Recent []Reconcile
}

// Inspect returns what the controller knows of a key. It is for people, not for every second.
func (c *Controller[K]) Inspect(key K) KeyStatus {
	s := KeyStatus{Attempt: 1, Recent: c.recent.of(key), Failure: c.failures.get(key)}
	if s.Failure != nil && len(c.recent.ring) > 0 && !slices.ContainsFunc(s.Recent, func(r Reconcile) bool { return r.Outcome.Failure() }) {
		s.Recent = append(s.Recent, s.Failure.reconcile())
	}
	c.mu.Lock()
	r := c.run
	c.mu.Unlock()
	if r == nil {
		return s
	}
	s.Attempt = r.notes.attempt(key)
	if s.Failure == nil && s.Attempt > 1 && len(s.Recent) > 0 && s.Recent[0].Outcome.Failure() { // others were kept instead
		last := s.Recent[0]
		s.Failure = &Failure{Key: key, Err: last.Err, Attempt: last.Attempt, At: last.Start.Add(last.Duration)}
	}
	taken := false
	for _, item := range r.queue.Inspect(key) {
		switch item.State {
		case workqueue.Processing:
			taken = true
		case workqueue.Waiting, workqueue.Dirty:
			s.Queued, s.Since, s.Priority = true, item.Since, item.Priority
		case workqueue.Delayed:
			s.Due, s.Backoff = item.Due, item.Reason == workqueue.AddedRateLimited
		}
	}
	for i := range r.workers {
		w := &r.workers[i]
		w.mu.Lock()
		if w.busy && w.key == key {
			s.Running = &Running{Key: key, Attempt: w.attempt, Since: w.since}
		}
		w.mu.Unlock()
	}
	if taken && s.Running == nil && !s.Queued { // it waits for a pause to end or for the rate limit
		s.Queued = true
	}
	r.notes.look(key, func(e *note) {
		if h := e.held; h.retries > 0 {
			s.Held = &HeldKey{Key: key, Since: h.since, Retries: h.retries, Err: h.err}
		}
	})
	return s
}

// Retry reconciles a key as soon as a worker is free, instead of waiting out its delay or back-off,
// which starts over. It returns an error if the controller does not run, or if this process has
// not claimed the group of the key.
func (c *Controller[K]) Retry(key K) error {
	c.mu.Lock()
	r := c.run
	c.mu.Unlock()
	if r == nil || State(r.state.Load()) > Working {
		return fmt.Errorf("controller %s: retry %v: the controller does not run", c.name, key)
	}
	switch g, err := r.groupOf(key); {
	case err != nil:
		return fmt.Errorf("controller %s: retry %v: %w", c.name, key, err)
	case g == nil:
		return fmt.Errorf("controller %s: retry %v: this process does not reconcile the keys of its group %s", c.name, key, c.opts.Queue.Group(key))
	default:
		g.running.Done()
	}
	r.queue.Forget(key)
	// Add would leave the delay, and the key would be reconciled a second time when that ends.
	r.queue.AddAfter(key, time.Nanosecond)
	return nil
}

// Pause lets no further reconcile start until [Controller.Resume] is called. Running ones finish,
// and sources keep adding keys to the queue. It outlasts Run. Pausing again does nothing.
func (c *Controller[K]) Pause() { c.gate.shut() }

// Resume ends a pause.
func (c *Controller[K]) Resume() { c.gate.open() }

// gate stops those that pass it while it is shut.
type gate struct {
	mu       sync.Mutex                    // serialises shut and open
	released atomic.Pointer[chan struct{}] // closed by open; nil while the gate is open
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.released.Load() == nil {
		g.released.Store(new(make(chan struct{})))
	}
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c := g.released.Swap(nil); c != nil {
		close(*c)
	}
}

func (g *gate) isShut() bool { return g.released.Load() != nil }

// pass waits until the gate is open, and reports whether that was before the context was done.
func (g *gate) pass(ctx context.Context) bool {
	for {
		c := g.released.Load()
		if c == nil {
			return true
		}
		select {
		case <-*c:
		case <-ctx.Done():
			return false
		}
	}
}

// Reconcile is a reconcile that has returned.
type Reconcile struct {
	Key      any
	Start    time.Time
	Duration time.Duration
	Attempt  int
	Outcome  Outcome
	Err      error
	// Log has the first lines that were logged with [Logger], each as "LEVEL message key=value".
	Log []string
}

// recent keeps the last reconciles of a controller in a ring.
type recent[K comparable] struct {
	mu   sync.Mutex // guards all below
	ring []reconciled[K]
	next int
	full bool
}

type reconciled[K comparable] struct {
	key K
	Reconcile
}

func (r *recent[K]) add(e reconciled[K]) {
	if len(r.ring) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ring[r.next] = e
	if r.next++; r.next == len(r.ring) {
		r.next, r.full = 0, true
	}
}

// of returns the reconciles of a key, newest first.
func (r *recent[K]) of(key K) (all []Reconcile) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.next
	if r.full {
		n = len(r.ring)
	}
	for i := range n {
		if e := &r.ring[(r.next-1-i+len(r.ring))%len(r.ring)]; e.key == key {
			found := e.Reconcile
			found.Key, found.Log = key, slices.Clone(found.Log)
			all = append(all, found)
		}
	}
	return all
}
