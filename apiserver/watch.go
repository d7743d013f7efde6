package apiserver

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/watch"
)

// watchBatch is how many changes a watcher looks at under the lock in one go.
const watchBatch = 512

var (
	// errCut ends a watch as a lost connection does.
	errCut = errors.New("apiserver: the watch was cut")
	// errOver ends a watch in order: its kind is no longer served.
	errOver = errors.New("apiserver: the resource is gone")
	// errOverrun ends a watch that was so slow that the history went past it.
	errOverrun = errors.New("apiserver: the watch fell behind the history")
)

// watcher is a cursor in the history. It has no buffer: a slow reader holds nothing but
// its place, and is cut when the ring has gone past it, whereupon it learns from a 410
// that it missed something.
//
// next is called by one goroutine; the storage's lock guards cursor and cut.
type watcher struct {
	storage *storage
	kind    *kind
	sel     selection
	after   uint64 // only changes after this version are told
	cursor  int64  // counts changes from the beginning of time
	cut     bool
	wake    chan struct{} // has a token when there may be something new
}

// told is one event of a watch.
type told struct {
	kind   watch.EventType
	record *record
}

// poke makes the watcher look again.
func (w *watcher) poke() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// begin says where a watch starts: what is told first, if it matches the selection, at
// which version that is, and whether the end of it is to be marked.
type begin struct {
	initial []*record
	version uint64
	mark    bool
}

// watch opens a watch. The caller closes it.
func (s *storage) watch(ctx context.Context, k *kind, sel selection, opts *internalversion.ListOptions) (*watcher, begin, error) {
	version, err := parseVersion(opts.ResourceVersion)
	if err != nil {
		return nil, begin{}, err
	}
	streaming := opts.SendInitialEvents != nil && *opts.SendInitialEvents
	initial := streaming || version == 0 && opts.SendInitialEvents == nil
	if streaming && version > 0 {
		if err := s.await(ctx, version); err != nil {
			return nil, begin{}, err
		}
	}
	w := &watcher{storage: s, kind: k, sel: sel, wake: make(chan struct{}, 1)}
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.bucket(k)
	if b.removed {
		return nil, begin{}, errOver
	}
	start := begin{version: version, mark: streaming && opts.AllowWatchBookmarks}
	if initial || version == 0 {
		// From now on.
		start.version = s.version
		w.cursor = s.dropped + int64(len(s.log))
		if initial {
			start.initial = s.copy(k, sel.namespace, place{version: s.version})
		}
	} else {
		if version < s.compacted {
			return nil, begin{}, s.tooOld(version, s.compacted)
		}
		w.cursor = s.dropped
	}
	w.after = start.version
	b.watchers[w] = struct{}{}
	w.poke()
	return w, start, nil
}

// next returns the events that have come, none if there are none, and the version up to
// which everything has then been told.
func (w *watcher) next() (events []told, version uint64, err error) {
	batch, at, err := w.take()
	for i := range batch {
		if ev, ok := w.tell(&batch[i]); ok {
			events = append(events, ev)
		}
	}
	return events, at, err
}

// take copies the changes of the kind since the last time. When there are more, it
// wakes itself.
func (w *watcher) take() (batch []change, version uint64, err error) {
	s := w.storage
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.cut {
		return nil, 0, errCut
	}
	// What was dropped of other kinds is no loss: a quiet watch is not woken for it.
	if s.bucket(w.kind).lost > w.after {
		return nil, 0, errOverrun
	}
	w.cursor = max(w.cursor, s.dropped)
	version = w.after
	i := int(w.cursor - s.dropped)
	for ; i < len(s.log) && len(batch) < watchBatch; i++ {
		if c := &s.log[i]; c.version > w.after {
			version = c.version
			if c.kind == w.kind.home {
				batch = append(batch, *c)
			}
		}
	}
	w.cursor = s.dropped + int64(i)
	if i < len(s.log) {
		w.poke()
	} else if s.version > version {
		version = s.version
	}
	w.after = version
	if s.bucket(w.kind).removed {
		if len(batch) == 0 {
			err = errOver
		} else {
			w.poke() // the end comes after the last events
		}
	}
	return batch, version, err
}

// tell turns a change into the event that this watch gets: objects that come to match
// the selector are added, those that no longer do are deleted.
func (w *watcher) tell(c *change) (told, bool) {
	before := c.old != nil && w.sel.matches(w.kind, c.old)
	after := c.current != nil && w.sel.matches(w.kind, c.current)
	switch {
	case before && after:
		return told{watch.Modified, c.current}, true
	case after:
		return told{watch.Added, c.current}, true
	case before && w.storage.old:
		return told{watch.Deleted, c.old}, true
	case before:
		return told{watch.Deleted, c.gone()}, true
	}
	return told{}, false
}

func (w *watcher) isCut() bool {
	w.storage.mu.Lock()
	defer w.storage.mu.Unlock()
	return w.cut
}

// close ends the watch.
func (w *watcher) close() {
	s := w.storage
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.bucket(w.kind).watchers, w)
}

// cutWatches breaks all watches of a kind, or of all kinds, and counts them.
func (s *storage) cutWatches(of func(*kind) bool) (n int) {
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
