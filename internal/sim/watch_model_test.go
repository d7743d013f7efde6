package sim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/tarnproject/tarn/object"
)

// bookmarkPeriod is how often a watch that asked for them gets bookmarks.
const bookmarkPeriod = time.Minute

// defaultTimeout ends a watch that did not say when.
const defaultTimeout = 30 * time.Minute

var errClosed = errors.New("sim: the stream was closed by its reader")

// stream is one open watch. The server's lock guards its fields.
type stream struct {
	server *Server
	ctx    context.Context
	opts   object.WatchOptions
	match  matcher
	in     *object.Intake[*Thing]
	// initial are the synthetic events still to come; endDue that the bookmark after
	// them is, too.
	initial []object.Event[*Thing]
	endDue  bool
	at      uint64 // everything up to this version has been sent
	ends    time.Time
	marked  time.Time // when a bookmark was sent last
	err     error
	failed  error // to be sent as an ERROR event, once
	broken  bool  // the connection is lost
	closed  chan struct{}
}

// Watch opens a watch with the meanings that the API gives to version and initial
// events.
func (s *Server) Watch(ctx context.Context, opts object.WatchOptions, in *object.Intake[*Thing]) (object.Stream[*Thing], error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	w, err := s.open(ctx, opts, in)
	if err != nil {
		s.trace.Add("server", "watch %s refused: %v", describeWatch(opts), err)
		return nil, err
	}
	s.trace.Add("server", "watch %s: opened", describeWatch(opts))
	return w, nil
}

func describeWatch(o object.WatchOptions) string {
	text := fmt.Sprintf("from %q", o.Version)
	if o.InitialEvents {
		text += " with initial events"
	}
	if o.Selection != (object.Selection{}) {
		text += fmt.Sprintf(" of %s/%s/%s %s", o.Namespace, o.Labels, o.Fields, o.Shard.Selector())
	}
	return text
}

func (s *Server) open(ctx context.Context, opts object.WatchOptions, in *object.Intake[*Thing]) (*stream, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.removed {
		return nil, notFound()
	}
	w := &stream{server: s, ctx: ctx, opts: opts, match: s.matcher(opts.Selection), in: in,
		closed: make(chan struct{}), ends: now().Add(defaultTimeout), marked: now()}
	if w.match.err != nil {
		return nil, badRequest("%v", w.match.err)
	}
	if opts.Timeout > 0 {
		w.ends = now().Add(opts.Timeout)
	}
	if err := w.begin(); err != nil {
		return nil, err
	}
	s.streams[w] = struct{}{}
	return w, nil
}

// begin finds where the watch starts.
func (w *stream) begin() error {
	s := w.server
	initial := w.opts.InitialEvents
	if initial {
		switch {
		case w.opts.Match != object.NotOlderThan || !w.opts.Bookmarks:
			return badRequest("sendInitialEvents needs resourceVersionMatch=NotOlderThan and allowWatchBookmarks=true")
		case s.quirks.Streaming == Invalid:
			return invalid()
		case s.quirks.Streaming == BadRequest:
			return badRequest("sendInitialEvents is not known here")
		case s.quirks.Streaming == Endless:
			initial = false
		}
	} else if w.opts.Match != "" {
		return badRequest("resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided")
	}
	at := uint64(0)
	if w.opts.Version.Known() {
		var err error
		if at, err = parse(w.opts.Version); err != nil {
			return err
		}
		if at > s.version {
			// After a restore, say. A server could also stay silent until the version comes; what
			// it would leave out then, no client can detect.
			return s.quirks.tooLarge(at, s.version)
		}
	}
	switch {
	case initial && at > 0:
		w.at = s.behind(at)
	case w.opts.Version == "0":
		w.at = s.behind(0)
	case at == 0:
		w.at = s.version
	default:
		w.at = at
		if at < s.compacted {
			gone := s.quirks.gone(at, s.compacted)
			if !s.quirks.GoneInStream {
				return gone
			}
			w.failed = gone
		}
		return nil
	}
	w.endDue = initial
	state := s.stateAt(w.at)
	for _, k := range sortedKeys(state) {
		if w.match.matches(state[k]) {
			w.initial = append(w.initial, object.Event[*Thing]{Kind: object.Added, Item: itemOf(state[k], w.in)})
		}
	}
	return nil
}

// idle reports whether the watch is open and nothing is left to send.
func (w *stream) idle() bool {
	if w.err != nil || w.broken || w.failed != nil || len(w.initial) > 0 || w.endDue {
		return false
	}
	for _, c := range w.server.log {
		if c.version > w.at && (w.match.matches(c.old) || w.match.matches(c.current)) {
			return false
		}
	}
	return true
}

// Next implements [object.Stream].
func (w *stream) Next() ([]object.Event[*Thing], error) {
	for {
		events, changed, err := w.poll()
		if err != nil || len(events) > 0 {
			return events, err
		}
		if idle := w.server.Idle; idle != nil {
			idle(w.closed)
			continue
		}
		until := time.NewTimer(min(w.ends.Sub(now()), bookmarkPeriod))
		select {
		case <-changed:
		case <-until.C:
		case <-w.closed:
		case <-w.ctx.Done():
		}
		until.Stop()
	}
}

// poll returns what there is to send, or a channel that is closed when there may be more.
func (w *stream) poll() ([]object.Event[*Thing], <-chan struct{}, error) {
	s := w.server
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-w.closed:
		return nil, nil, errClosed
	default:
	}
	switch {
	case w.err != nil:
		return nil, nil, w.err
	case w.ctx.Err() != nil:
		return nil, nil, w.fail(context.Cause(w.ctx))
	case w.broken:
		return nil, nil, w.fail(fmt.Errorf("reading the watch: %w", io.ErrUnexpectedEOF))
	case w.failed != nil:
		failed := w.failed
		w.failed = nil
		w.fail(io.EOF)
		return []object.Event[*Thing]{{Err: failed}}, nil, nil
	}
	events := w.pending()
	if len(events) > 0 {
		return events, nil, nil
	}
	if s.removed || !now().Before(w.ends) {
		return nil, nil, w.fail(io.EOF)
	}
	return nil, s.changed, nil
}

func (w *stream) fail(err error) error {
	w.err = err
	delete(w.server.streams, w)
	return err
}

// pending takes the events that are due.
func (w *stream) pending() []object.Event[*Thing] {
	s := w.server
	events := w.initial
	w.initial = nil
	if w.endDue {
		w.endDue = false
		events = append(events, object.Event[*Thing]{Bookmark: true, InitialEnd: true, Item: object.Item[*Thing]{Version: format(w.at)}})
	}
	for _, c := range s.log {
		if c.version <= w.at {
			continue
		}
		if ev, ok := w.event(c); ok {
			events = append(events, ev)
		}
	}
	w.at = max(w.at, s.version) // changes may share a version
	due := now().Sub(w.marked) >= bookmarkPeriod || !now().Before(w.ends)
	if due && len(events) == 0 && w.opts.Bookmarks && !s.quirks.NoBookmarks {
		w.marked = now()
		if now().Before(w.ends) { // the last one would keep the watch from ending
			events = append(events, object.Event[*Thing]{Bookmark: true, Item: object.Item[*Thing]{Version: format(w.at)}})
		}
	}
	return events
}

// event says what a change means to the watch.
func (w *stream) event(c change) (object.Event[*Thing], bool) {
	was, is := w.match.matches(c.old), w.match.matches(c.current)
	switch {
	case !was && !is:
		return object.Event[*Thing]{}, false
	case is && was:
		return object.Event[*Thing]{Kind: object.Updated, Item: itemOf(c.current, w.in)}, true
	case is:
		return object.Event[*Thing]{Kind: object.Added, Item: itemOf(c.current, w.in)}, true
	}
	last := c.old.clone()
	if !w.server.quirks.OwnVersionDeleted {
		last.ResourceVersion = string(format(c.version))
	}
	return object.Event[*Thing]{Kind: object.Deleted, Item: itemOf(last, nil)}, true
}

// Close implements [object.Stream].
func (w *stream) Close() error {
	s := w.server
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-w.closed:
	default:
		close(w.closed)
		delete(s.streams, w)
	}
	return nil
}
