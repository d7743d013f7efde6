package storage

import (
	"context"
	"errors"
	"time"

	"github.com/tarnproject/tarn/apiserver/internal/kinds"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/watch"
)

// watchBatch is the number of changes a watcher takes while holding the lock.
const watchBatch = 512

var (
	// ErrCut ends a watch with a dropped connection.
	ErrCut = errors.New("apiserver: watch was cut")
	// ErrOver ends a watch cleanly because its kind is no longer served.
	ErrOver = errors.New("apiserver: resource is no longer served")
	// errOverrun ends a watch whose next changes were dropped from the history.
	errOverrun = errors.New("apiserver: watch fell behind the history")
)

// Watcher is a cursor in the history. It has no buffer. A watcher that is slower than the
// history is cut, and its client gets a 410 when it resumes.
//
// next is called by one goroutine; the storage lock guards cursor and cut.
type Watcher struct {
	storage *Storage
	kind    *kinds.Kind
	sel     Selection
	after   uint64 // only changes after this version are sent
	cursor  int64  // number of changes since the server started
	cut     bool
	delay   time.Duration // of every change; see StaleCache
	Wake    chan struct{} // has a token if there may be new changes
}

// Event is one event of a watch.
type Event struct {
	Kind   watch.EventType
	Record *kinds.Record
}

// poke makes the watcher check for changes.
func (w *Watcher) poke() {
	select {
	case w.Wake <- struct{}{}:
	default:
	}
}

// Start holds the objects to send first, their version, and whether a bookmark follows
// them.
type Start struct {
	Initial []*kinds.Record
	Version uint64
	Mark    bool
}

// Watch opens a watch whose changes are delayed. The caller must close it.
func (s *Storage) Watch(ctx context.Context, k *kinds.Kind, sel Selection, opts *internalversion.ListOptions, delay time.Duration) (*Watcher, Start, error) {
	version, err := ParseVersion(opts.ResourceVersion)
	if err != nil {
		return nil, Start{}, err
	}
	streaming := opts.SendInitialEvents != nil && *opts.SendInitialEvents
	initial := streaming || version == 0 && opts.SendInitialEvents == nil
	if streaming && version > 0 {
		if err := s.Await(ctx, version); err != nil {
			return nil, Start{}, err
		}
	}
	w := &Watcher{storage: s, kind: k, sel: sel, delay: delay, Wake: make(chan struct{}, 1)}
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.bucket(k)
	if b.removed {
		return nil, Start{}, ErrOver
	}
	start := Start{Version: version, Mark: streaming && opts.AllowWatchBookmarks}
	if initial || version == 0 {
		start.Version = s.version
		if delay > 0 && opts.ResourceVersion == "0" {
			start.Version = s.findAgo(delay)
		}
		w.cursor = s.dropped
		if start.Version == s.version {
			w.cursor += int64(len(s.log))
		}
		if initial {
			start.Initial = s.copy(k, sel.namespace, position{version: start.Version})
		}
	} else {
		if version < s.compacted {
			return nil, Start{}, s.TooOld(version, s.compacted)
		}
		w.cursor = s.dropped
	}
	w.after = start.Version
	b.watchers[w] = struct{}{}
	w.poke()
	return w, start, nil
}

// Next returns pending events, possibly none, and the version up to which they are
// complete.
func (w *Watcher) Next() (events []Event, version uint64, err error) {
	batch, at, err := w.take()
	for i := range batch {
		if ev, ok := w.eventFor(&batch[i]); ok {
			events = append(events, ev)
		}
	}
	return events, at, err
}

// take copies the pending changes of the kind. If there are more than watchBatch, it wakes
// itself.
func (w *Watcher) take() (batch []change, version uint64, err error) {
	s := w.storage
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.cut {
		return nil, 0, ErrCut
	}
	// Only dropped changes of its own kind matter: a quiet watch is not woken for others.
	if s.bucket(w.kind).lost > w.after {
		return nil, 0, errOverrun
	}
	w.cursor = max(w.cursor, s.dropped)
	version = w.after
	i := int(w.cursor - s.dropped)
	var early time.Duration // until the next change may be sent
	for ; i < len(s.log) && len(batch) < watchBatch; i++ {
		c := &s.log[i]
		if w.delay > 0 {
			if early = w.delay - time.Since(c.at); early > 0 {
				time.AfterFunc(early, w.poke)
				break
			}
		}
		if c.version > w.after {
			version = c.version
			if c.kind == w.kind.Storage {
				batch = append(batch, *c)
			}
		}
	}
	w.cursor = s.dropped + int64(i)
	if i < len(s.log) {
		if early <= 0 {
			w.poke()
		}
	} else if s.version > version {
		version = s.version
	}
	w.after = version
	if s.bucket(w.kind).removed && i == len(s.log) {
		if len(batch) == 0 {
			err = ErrOver
		} else {
			w.poke() // end after the last events
		}
	}
	return batch, version, err
}

// Selects reports whether the watch includes an object.
func (w *Watcher) Selects(r *kinds.Record) bool { return w.sel.matches(w.kind, r) }

// eventFor converts a change to this watch's event. An object that starts to match the
// selector is ADDED, one that no longer matches is DELETED.
func (w *Watcher) eventFor(c *change) (Event, bool) {
	before := c.old != nil && w.Selects(c.old)
	after := c.current != nil && w.Selects(c.current)
	switch {
	case before && after:
		return Event{watch.Modified, c.current}, true
	case after:
		return Event{watch.Added, c.current}, true
	case before && w.storage.old:
		return Event{watch.Deleted, c.old}, true
	case before:
		return Event{watch.Deleted, c.deleted()}, true
	}
	return Event{}, false
}

// IsCut reports whether the watch must drop its connection.
func (w *Watcher) IsCut() bool {
	w.storage.mu.Lock()
	defer w.storage.mu.Unlock()
	return w.cut
}

// Close ends the watch.
func (w *Watcher) Close() {
	s := w.storage
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.bucket(w.kind).watchers, w)
}

// CutWatches cuts the watches of the matching kinds and returns their number.
func (s *Storage) CutWatches(of func(*kinds.Kind) bool) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.buckets {
		for w := range b.watchers {
			if !of(w.kind) {
				continue
			}
			w.cut = true
			w.poke()
			n++
		}
	}
	return n
}

// Watches returns the number of open watches of the matching kinds.
func (s *Storage) Watches(of func(*kinds.Kind) bool) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.buckets {
		for w := range b.watchers {
			if of(w.kind) {
				n++
			}
		}
	}
	return n
}
