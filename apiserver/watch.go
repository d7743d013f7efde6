package apiserver

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
	// errCut ends a watch with a dropped connection.
	errCut = errors.New("apiserver: watch was cut")
	// errOver ends a watch cleanly because its kind is no longer served.
	errOver = errors.New("apiserver: resource is no longer served")
	// errOverrun ends a watch whose next changes were dropped from the history.
	errOverrun = errors.New("apiserver: watch fell behind the history")
)

// watcher is a cursor in the history. It has no buffer. A watcher that is slower than the
// history is cut, and its client gets a 410 when it resumes.
//
// next is called by one goroutine; the storage lock guards cursor and cut.
type watcher struct {
	storage *storage
	kind    *kinds.Kind
	sel     selection
	after   uint64 // only changes after this version are sent
	cursor  int64  // number of changes since the server started
	cut     bool
	delay   time.Duration // of every change; see StaleCache
	wake    chan struct{} // has a token if there may be new changes
}

// watchEvent is one event of a watch.
type watchEvent struct {
	kind   watch.EventType
	record *kinds.Record
}

// poke makes the watcher check for changes.
func (w *watcher) poke() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// watchStart holds the objects to send first, their version, and whether a bookmark follows
// them.
type watchStart struct {
	initial []*kinds.Record
	version uint64
	mark    bool
}

// watch opens a watch whose changes are delayed. The caller must close it.
func (s *storage) watch(ctx context.Context, k *kinds.Kind, sel selection, opts *internalversion.ListOptions, delay time.Duration) (*watcher, watchStart, error) {
	version, err := parseVersion(opts.ResourceVersion)
	if err != nil {
		return nil, watchStart{}, err
	}
	streaming := opts.SendInitialEvents != nil && *opts.SendInitialEvents
	initial := streaming || version == 0 && opts.SendInitialEvents == nil
	if streaming && version > 0 {
		if err := s.await(ctx, version); err != nil {
			return nil, watchStart{}, err
		}
	}
	w := &watcher{storage: s, kind: k, sel: sel, delay: delay, wake: make(chan struct{}, 1)}
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.bucket(k)
	if b.removed {
		return nil, watchStart{}, errOver
	}
	start := watchStart{version: version, mark: streaming && opts.AllowWatchBookmarks}
	if initial || version == 0 {
		start.version = s.version
		if delay > 0 && opts.ResourceVersion == "0" {
			start.version = s.findAgo(delay)
		}
		w.cursor = s.dropped
		if start.version == s.version {
			w.cursor += int64(len(s.log))
		}
		if initial {
			start.initial = s.copy(k, sel.namespace, position{version: start.version})
		}
	} else {
		if version < s.compacted {
			return nil, watchStart{}, s.tooOld(version, s.compacted)
		}
		w.cursor = s.dropped
	}
	w.after = start.version
	b.watchers[w] = struct{}{}
	w.poke()
	return w, start, nil
}

// next returns pending events, possibly none, and the version up to which they are
// complete.
func (w *watcher) next() (events []watchEvent, version uint64, err error) {
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
func (w *watcher) take() (batch []change, version uint64, err error) {
	s := w.storage
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.cut {
		return nil, 0, errCut
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
			err = errOver
		} else {
			w.poke() // end after the last events
		}
	}
	return batch, version, err
}

// eventFor converts a change to this watch's event. An object that starts to match the
// selector is ADDED, one that no longer matches is DELETED.
func (w *watcher) eventFor(c *change) (watchEvent, bool) {
	before := c.old != nil && w.sel.matches(w.kind, c.old)
	after := c.current != nil && w.sel.matches(w.kind, c.current)
	switch {
	case before && after:
		return watchEvent{watch.Modified, c.current}, true
	case after:
		return watchEvent{watch.Added, c.current}, true
	case before && w.storage.old:
		return watchEvent{watch.Deleted, c.old}, true
	case before:
		return watchEvent{watch.Deleted, c.deleted()}, true
	}
	return watchEvent{}, false
}

func (w *watcher) isCut() bool {
	w.storage.mu.Lock()
	defer w.storage.mu.Unlock()
	return w.cut
}

func (w *watcher) close() {
	s := w.storage
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.bucket(w.kind).watchers, w)
}

// cutWatches cuts the watches of the matching kinds and returns their number.
func (s *storage) cutWatches(of func(*kinds.Kind) bool) (n int) {
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
