package reflector

import (
	"errors"
	"time"

	"github.com/tarnproject/tarn/object"
)

// confirmation is a version that a reader waits for and that no event has brought. Reflector.mu guards
// it.
type confirmation struct {
	version object.Version // empty without one
	due     bool           // the next watch is to be a short one
	tries   int            // short watches that have not brought it
	next    time.Time      // not before this is there another
}

const (
	// confirmTimeout is the timeout of a watch that is opened for a bookmark. kube-apiserver sends one
	// two seconds before it ends a watch.
	confirmTimeout = 3 * time.Second
	// confirmQuiet is how long a watch must have been silent before it is opened again. As long as
	// events arrive, they advance the version.
	confirmQuiet = 250 * time.Millisecond
	// Another short watch follows after twice confirmTimeout, and then with doubling delays up to
	// confirmMost, as long as the server sends no bookmark.
	confirmMost = 5 * time.Minute
)

// errConfirm ends a watch in favour of a short one.
var errConfirm error = &askedError{cause: errors.New("a version is to be confirmed")}

// Confirm asks the server to confirm that the sink has everything up to a version, for a reader that
// waits for it. While nothing changes, only a bookmark says that, and kube-apiserver sends one every minute
// or two. But it also sends one two seconds before a watch times out. If the watch has been silent for
// a while, Confirm therefore ends it and opens it again where it ended, with a timeout of three
// seconds, which brings a bookmark after one. This is not a failure, and nothing is listed.
//
// Confirm does not block and may be called from any goroutine, as often as the reader likes. It does
// nothing while the last short watch may still bring a bookmark. Where servers send none, the short
// watches become rare. Status.Confirming is the version, and Counts.Ended has the number of watches that
// ended for it, as Confirming.
func (r *Reflector[T]) Confirm(version object.Version) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, c, now := &r.status, &r.confirm, time.Now()
	last := s.LastEvent
	if s.Since.After(last) {
		last = s.Since
	}
	if !version.Known() || version.NotAfter(s.Resume) || !s.Resume.Known() || !s.Live() || now.Before(c.next) || now.Sub(last) < confirmQuiet {
		return
	}
	c.version, c.due = version, true
	c.next = now.Add(min(2*confirmTimeout<<min(c.tries, 10), confirmMost))
	c.tries++
	if r.interrupt != nil {
		r.interrupt(errConfirm)
	}
}

// confirms reports whether the watch that is about to be opened is to be a short one.
func (r *Reflector[T]) confirms() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	due := r.confirm.due
	r.confirm.due = false
	return due
}

// reached ends the confirmation if the sink has everything up to its version.
func (c *confirmation) reached(at object.Version) {
	if c.version.NotAfter(at) {
		*c = confirmation{}
	}
}
