package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// worker is one goroutine that reconciles, and its current key.
type worker[K comparable] struct {
	mu      sync.Mutex // guards all below, for Status
	busy    bool
	key     K
	attempt int
	since   time.Time
}

func (w *worker[K]) begin(key K, attempt int, now time.Time) {
	w.mu.Lock()
	w.busy, w.key, w.attempt, w.since = true, key, attempt, now
	w.mu.Unlock()
}

func (w *worker[K]) end() {
	w.mu.Lock()
	w.busy = false
	w.mu.Unlock()
}

// errExited reports a reconcile that called runtime.Goexit, as t.FailNow does.
var errExited = errors.New("the reconcile ended its goroutine by runtime.Goexit")

// fenceRetry is the delay of a key that met a closed fence. By then the fence has opened or
// the run has ended.
const fenceRetry = 200 * time.Millisecond

// serve reconciles keys until no new reconcile may start.
func (r *run[K]) serve(w *worker[K]) {
	ended := false
	defer func() {
		if !ended { // by runtime.Goexit
			r.serving.Go(func() { r.serve(w) })
		}
	}()
	for {
		// A worker that waited for a key meanwhile is stopped by admit.
		if !r.c.gate.pass(r.intake) {
			ended = true
			return
		}
		key, err := r.queue.GetContext(r.intake)
		if err != nil {
			ended = true
			return
		}
		r.handle(w, key)
	}
}

// handle processes a key that was taken from the queue.
func (r *run[K]) handle(w *worker[K], key K) {
	defer r.queue.Done(key)
	g, err := r.groupOf(key)
	if g == nil {
		if err == nil {
			r.drop(key)
			return
		}
		r.c.failures.put(key, Failure{Err: err, Attempt: r.notes.failed(key), outcome: OutcomePanic})
		r.retry(key)
		return
	}
	defer g.running.Done()
	may := false
	if !r.c.guard("the check before a reconcile", key, func() { may = r.admit(g, key) }) {
		r.c.failures.put(key, Failure{Err: r.c.lastPanic.Load(), Attempt: r.notes.failed(key), outcome: OutcomePanic})
		r.retry(key)
	}
	if !may {
		return
	}
	s := &scope[K]{Context: g.work, log: r.c.opts.Logger, keep: len(r.c.recent.ring) > 0, key: key, attempt: r.notes.attempt(key), writes: r.notes.unsettled(key)}
	var end func(ReconcileEnd)
	begin := time.Now()
	w.begin(key, s.attempt, begin) // also while it is with an observer, so that Status shows one that hangs
	defer w.end()
	if r.c.observe != nil {
		s.Context, end = r.c.observe(g.work, ReconcileStart{Controller: r.c.name, Key: key, Attempt: s.attempt})
		begin = time.Now()
	}
	var res Result
	err = errExited
	defer func() {
		took := time.Since(begin)
		r.c.latency.add(took)
		v := failed
		if !r.c.guard("the end of a reconcile", key, func() { v = r.settle(g, s, res, err, took) }) {
			r.retry(key)
		}
		outcome := outcomeOf(v, res)
		r.c.recent.add(reconciled[K]{key, Reconcile{Start: begin, Duration: took, Attempt: s.attempt, Outcome: outcome, Err: err, Log: s.lines.take()}})
		if end != nil {
			r.c.guard("an observer", key, func() { end(ReconcileEnd{Outcome: outcome, Err: err, Duration: took}) })
		}
	}()
	res, err = r.call(s, key)
}

// admit waits for the end of a pause and for the rate limit, and reports whether the key may be
// reconciled now. If not, it has put the key back.
func (r *run[K]) admit(g *group[K], key K) bool {
	if !r.startable(g, key) {
		return false // without a token, and without the time until there is one
	}
	if r.rate == nil {
		return true
	}
	select {
	case r.turn <- struct{}{}:
	case <-g.intake.Done():
		r.queue.Add(key)
		return false
	}
	defer func() { <-r.turn }()
	if !r.token {
		next := r.rate.Reserve()
		t := time.NewTimer(next.Delay())
		defer t.Stop()
		select {
		case <-t.C:
			r.token = true
		case <-g.intake.Done():
			next.Cancel()
			r.queue.Add(key)
			return false
		}
	}
	if !r.startable(g, key) {
		return false // the token is for the next key
	}
	r.token = false
	return true
}

// startable waits for the end of a pause, and reports whether the key may be reconciled now. If not, it
// has put the key back.
func (r *run[K]) startable(g *group[K], key K) bool {
	if !r.c.gate.pass(g.intake) {
		r.queue.Add(key)
		return false
	}
	if err := r.missing(g, key); err != nil {
		r.hold(key, err)
		return false
	}
	// The fences are checked last, so that nothing slow is between the check and the call.
	if g.fences.check() != nil {
		r.putOff(key)
		return false
	}
	return true
}

// putOff puts back a key that may not be reconciled now.
func (r *run[K]) putOff(key K) {
	r.notes.fenced(key)
	r.queue.AddAfter(key, fenceRetry)
}

// missing returns an error if a cache lacks a write that a reconcile of the key must read.
func (r *run[K]) missing(g *group[K], key K) error {
	for i := range g.sources {
		if s := &g.sources[i]; s.Pending != nil && s.Pending(key) {
			return fmt.Errorf("%s: %w", s.Name, ErrStaleCache)
		}
	}
	return r.notes.missing(key)
}

// hold delays a key because of a stale cache, or one that is not synced. The event that updates a
// stale cache usually adds the key earlier.
func (r *run[K]) hold(key K, err error) {
	after, since, warn := r.notes.hold(key, err)
	r.c.counts.held.Add(1)
	r.queue.AddAfter(key, after)
	if warn {
		r.c.warn("a key is held back",
			"key", fmt.Sprint(key), "for", since.Round(time.Second), "error", err)
	}
}

// call calls the reconcile function.
func (r *run[K]) call(ctx context.Context, key K) (res Result, err error) {
	if d := r.c.opts.Timeout; d > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, d, ErrTimeout)
		defer cancel()
	}
	defer func() {
		if p := recover(); p != nil {
			err = newPanicError(r.c.name, "", fmt.Sprint(key), p)
		}
	}()
	return r.c.reconcile(ctx, key)
}

// settle applies the outcome of a reconcile and returns how it was classified.
func (r *run[K]) settle(g *group[K], s *scope[K], res Result, err error, took time.Duration) verdict {
	key, c := s.key, &r.c.counts
	v := judge(err)
	if err != nil && context.Cause(r.work) == ErrStopping {
		r.cut.Store(true)
	}
	if v == failed && g.work.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.Cause(g.work))) {
		v = fenced // the reconcile returned because its context was cancelled
	}
	if v != fenced {
		c.reconciles.Add(1)
	}
	r.notes.wrote(key, s.madeWrites())
	if v != stale && v != fenced {
		r.notes.release(key)
	}
	switch v {
	case fine:
		r.succeeded(key, res)
	case fenced:
		r.putOff(key)
	case stale:
		c.stale.Add(1)
		r.hold(key, err)
	case conflict:
		c.conflicts.Add(1)
		r.retry(key)
	case final:
		r.failed(s, err, took, "reconcile failed; not to be retried")
		c.givenUp.Add(1)
		r.rest(key)
		return v
	case failed, panicked:
		if attempts := r.notes.failed(key); r.c.opts.Attempts > 0 && attempts >= r.c.opts.Attempts {
			r.failed(s, err, took, "reconcile failed; given up until the key changes")
			c.givenUp.Add(1)
			r.rest(key)
			return v
		}
		r.failed(s, err, took, "")
		r.retry(key)
		return v
	}
	if log := s.log; log.Enabled(s, slog.LevelDebug) {
		attrs := s.attrs(took)
		if err != nil {
			attrs = append(attrs, slog.Any("error", err))
		}
		log.LogAttrs(s, slog.LevelDebug, [...]string{fine: "reconciled", conflict: "conflict", stale: "held back", fenced: "fenced off"}[v], attrs...)
	}
	return v
}

func (r *run[K]) succeeded(key K, res Result) {
	r.c.failures.drop(key)
	switch {
	case res.Requeue:
		r.c.counts.requeues.Add(1)
		r.notes.succeeded(key)
		r.retry(key)
		return
	case res.RequeueAfter > 0:
		r.queue.AddAfter(key, res.RequeueAfter)
	}
	r.rest(key)
}

// retry adds a key again with back-off.
func (r *run[K]) retry(key K) {
	r.notes.limited(key)
	r.queue.AddRateLimited(key)
}

// drop removes what is recorded about a key whose group is no longer attached.
func (r *run[K]) drop(key K) {
	r.notes.look(key, func(e *note) { *e = note{} })
	r.c.failures.drop(key)
	r.queue.Forget(key)
}

// rest resets the key's attempts and its back-off.
func (r *run[K]) rest(key K) {
	if r.notes.forget(key) {
		r.queue.Forget(key)
	}
}

// failed reports a failure. With an empty message it will be retried.
func (r *run[K]) failed(s *scope[K], err error, took time.Duration, final string) {
	c := &r.c.counts
	c.failures.Add(1)
	r.c.failures.put(s.key, Failure{Err: err, Attempt: s.attempt, outcome: outcomeOf(judge(err), Result{}), took: took, log: s.lines.take()})
	attrs := append(s.attrs(took), slog.Any("error", err))
	var p *PanicError
	if errors.As(err, &p) {
		c.panics.Add(1)
		attrs = append(attrs, slog.String("stack", string(p.Stack)))
	}
	level, message := slog.LevelWarn, "reconcile failed; will be retried"
	if final != "" {
		level, message = slog.LevelError, final
	}
	s.log.LogAttrs(s, level, message, attrs...)
}
