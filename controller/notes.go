package controller

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// notes is what is remembered of keys between their reconciles. Most have none.
type notes[K comparable] struct {
	n atomic.Int64 // len(of): where there is nothing, nobody takes the lock

	mu   sync.Mutex // guards all below
	of   map[K]*note
	room int // notes before those that are not needed are swept out
}

type note struct {
	failures int     // in a row
	limited  bool    // the limiter counts the key
	writes   []write // that mirrors may not show yet

	held    time.Time // since when the key has been held back; zero: it is not
	holds   int
	grumble bool // it has been told that this takes long
}

const (
	// A key that is held back is looked at again after holdLeast, then after twice that,
	// and so on up to holdMost.
	holdLeast = 5 * time.Millisecond
	holdMost  = time.Second
	// heldLong is from when on it is worth a warning. A mirror where nothing happens
	// moves with bookmarks, about once a minute.
	heldLong = 90 * time.Second
)

// note returns the key's note, and makes one if there is none.
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

// sweep forgets writes that are shown, of keys that may never be looked at again.
func (n *notes[K]) sweep() {
	for key, e := range n.of {
		if e.prune(); e.blank() {
			delete(n.of, key)
		}
	}
	n.room = max(64, 2*len(n.of))
}

func (e *note) blank() bool {
	return e.failures == 0 && !e.limited && len(e.writes) == 0 && e.held.IsZero()
}

func (e *note) prune() {
	e.writes = slices.DeleteFunc(e.writes, func(w write) bool { return !w.to.pending(w.key) })
}

// look calls f with the key's note, if there is one, and removes it if it is blank then.
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

// failed counts a failure and returns how many there are in a row.
func (n *notes[K]) failed(key K) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	e := n.note(key)
	e.failures++
	return e.failures
}

// succeeded forgets the failures.
func (n *notes[K]) succeeded(key K) { n.look(key, func(e *note) { e.failures = 0 }) }

// limited notes that the limiter will know the key.
func (n *notes[K]) limited(key K) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.note(key).limited = true
}

// forget forgets all but writes, and reports whether the limiter knows the key.
func (n *notes[K]) forget(key K) (limited bool) {
	n.look(key, func(e *note) {
		limited = e.limited
		*e = note{writes: e.writes}
	})
	return limited
}

// wrote notes writes of a reconcile.
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

// missing reports whether a mirror lacks a write of an earlier reconcile.
func (n *notes[K]) missing(key K) (missing bool) {
	n.look(key, func(e *note) {
		e.prune()
		missing = len(e.writes) > 0
	})
	return missing
}

// hold notes that the key is held back, and returns for how long now, and since when.
func (n *notes[K]) hold(key K) (after, since time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	e := n.note(key)
	if e.held.IsZero() {
		e.held = time.Now()
	}
	after = min(holdMost, holdLeast<<min(e.holds, 16))
	e.holds++
	return after, time.Since(e.held)
}

// keep notes that the key has been put back and is still to be reconciled.
func (n *notes[K]) keep(key K) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if e := n.note(key); e.held.IsZero() {
		e.held = time.Now()
	}
}

// complain reports whether nobody has been told yet that the key is held back.
func (n *notes[K]) complain(key K) (first bool) {
	n.look(key, func(e *note) { first, e.grumble = !e.grumble, true })
	return first
}

// release notes that the key is no longer held back.
func (n *notes[K]) release(key K) {
	n.look(key, func(e *note) { e.held, e.holds, e.grumble = time.Time{}, 0, false })
}

func (n *notes[K]) isHeld(key K) (held bool) {
	n.look(key, func(e *note) { held = !e.held.IsZero() })
	return held
}
