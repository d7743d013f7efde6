package controller

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// notes is the state of keys between their reconciles. Most keys have none.
type notes[K comparable] struct {
	n atomic.Int64 // len(of), so that the common empty case takes no lock

	mu   sync.Mutex // guards all below
	of   map[K]*note
	room int // number of notes that triggers a sweep
}

type note struct {
	failures int     // in a row
	limited  bool    // the limiter has a count for the key
	writes   []write // writes that caches may not have yet
	fenced   bool    // put back because the fence was closed
	held     held
}

// held records how long a key has been held back because of a stale cache. It is zero for
// other keys.
type held struct {
	since   time.Time
	retries int
	err     error
	warn    time.Time // when the next warning is due
}

const (
	// A key that is held back is retried after holdLeast, then with doubling delays up to
	// holdMost.
	holdLeast = 5 * time.Millisecond
	holdMost  = time.Second
	// A warning is logged when a key has been held back for heldLong, and again every
	// heldAgain.
	heldLong  = 30 * time.Second
	heldAgain = 10 * time.Minute
)

// note returns the key's note, creating it if necessary.
func (n *notes[K]) note(key K) *note {
	if n.of == nil {
		n.of, n.room = map[K]*note{}, 64
	}
	e := n.of[key]
	if e == nil {
		if len(n.of) >= n.room {
			n.sweep()
		}
		e = &note{}
		n.of[key] = e
		n.n.Store(int64(len(n.of)))
	}
	return e
}

func (n *notes[K]) remove(key K) {
	delete(n.of, key)
	n.n.Store(int64(len(n.of)))
}

// drop removes the notes of the keys that match, and returns these keys.
func (n *notes[K]) drop(match func(K) bool) (dropped []K) {
	if n.n.Load() == 0 {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for key := range n.of {
		if match(key) {
			dropped = append(dropped, key)
			n.remove(key)
		}
	}
	return dropped
}

// sweep removes settled writes, for keys that may never be reconciled again.
func (n *notes[K]) sweep() {
	for key, e := range n.of {
		if e.prune(); e.blank() {
			delete(n.of, key)
		}
	}
	n.room = max(64, 2*len(n.of))
}

func (e *note) blank() bool {
	return e.failures == 0 && !e.limited && len(e.writes) == 0 && !e.putBack()
}

// putBack reports whether the key was put back without a reconcile.
func (e *note) putBack() bool { return e.fenced || e.held.retries > 0 }

func (e *note) prune() {
	e.writes = slices.DeleteFunc(e.writes, func(w write) bool { return w.to.settled(w.key) })
}

// look calls f with the key's note, if there is one, and removes it if it is empty after
// that.
func (n *notes[K]) look(key K, f func(e *note)) {
	if n.n.Load() == 0 {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if e := n.of[key]; e != nil {
		if f(e); e.blank() {
			n.remove(key)
		}
	}
}

// attempt returns the number of the key's next attempt.
func (n *notes[K]) attempt(key K) int {
	attempt := 1
	n.look(key, func(e *note) { attempt += e.failures })
	return attempt
}

// failed counts a failure and returns the number of consecutive ones.
func (n *notes[K]) failed(key K) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	e := n.note(key)
	e.failures++
	return e.failures
}

// succeeded resets the failures.
func (n *notes[K]) succeeded(key K) { n.look(key, func(e *note) { e.failures = 0 }) }

// limited records that the limiter has a count for the key.
func (n *notes[K]) limited(key K) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.note(key).limited = true
}

// forget resets everything except writes, and reports whether the limiter has a count for
// the key.
func (n *notes[K]) forget(key K) (limited bool) {
	n.look(key, func(e *note) {
		limited = e.limited
		*e = note{writes: e.writes}
	})
	return limited
}

// wrote records the writes of a reconcile.
func (n *notes[K]) wrote(key K, writes []write) {
	if len(writes) == 0 {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	e := n.note(key)
	for _, w := range writes {
		if !slices.Contains(e.writes, w) {
			e.writes = append(e.writes, w)
		}
	}
}

// unsettled returns the writes of earlier reconciles that caches may not have. A cache that lacks none of
// them now may lack one later, as an older state may come after a deletion.
func (n *notes[K]) unsettled(key K) (writes []write) {
	n.look(key, func(e *note) { writes = slices.Clone(e.writes) })
	return writes
}

// missing returns an error if a cache lacks a write of an earlier reconcile.
func (n *notes[K]) missing(key K) (err error) {
	n.look(key, func(e *note) {
		e.prune()
		for _, w := range e.writes {
			if w.to.pending(w.key) {
				err = w.stale()
				return
			}
		}
	})
	return err
}

// hold records that the key is held back because of err. It returns the next delay, since
// when the key is held, and whether a warning is due.
func (n *notes[K]) hold(key K, err error) (after, since time.Duration, warn bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	h, now := &n.note(key).held, time.Now()
	if h.retries == 0 {
		h.since, h.warn = now, now.Add(heldLong)
	}
	after = min(holdMost, holdLeast<<min(h.retries, 16))
	h.retries++
	h.err = err
	if warn = !now.Before(h.warn); warn {
		h.warn = now.Add(heldAgain)
	}
	return after, now.Sub(h.since), warn
}

// fenced records that the key was put back because of the fence.
func (n *notes[K]) fenced(key K) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.note(key).fenced = true
}

// release records that a reconcile met neither a stale cache nor a closed fence. It is called
// after the reconcile, so that a key whose cache stays stale is held longer each time.
func (n *notes[K]) release(key K) {
	n.look(key, func(e *note) { e.fenced, e.held = false, held{} })
}

func (n *notes[K]) isPutBack(key K) (is bool) {
	n.look(key, func(e *note) { is = e.putBack() })
	return is
}

// heldKeys returns the keys held back because of a stale cache, longest held first.
func (n *notes[K]) heldKeys(limit int) (keys []HeldKey) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for key, e := range n.of {
		if h := e.held; h.retries > 0 {
			keys = append(keys, HeldKey{Key: key, Since: h.since, Retries: h.retries, Err: h.err})
		}
	}
	slices.SortFunc(keys, func(a, b HeldKey) int { return a.Since.Compare(b.Since) })
	return keys[:min(len(keys), limit)]
}
