package sim

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/tarnproject/tarn/object"
)

// faultyStream is a watch through a Faulty. Only its reader accesses its fields, except
// where a comment says otherwise.
type faultyStream struct {
	f      *Faulty
	src    object.Stream[*Thing]
	scope  object.Scope
	in     *object.Intake[*Thing]
	queue  []object.Event[*Thing] // received and not passed on
	err    error                  // to be returned when the queue is empty
	began  bool                   // whether the initial events are over, or there are none
	noEnd  bool
	stalls bool

	// queued is the length of queue, and more than that if the stream is at its end; for
	// others to see.
	queued   atomic.Int64
	lost     atomic.Bool // what was received is to be forgotten; set by others
	once     sync.Once
	released chan struct{} // closed when a stall is to end: by Close or by Faulty.Off
}

// Watch implements [Source].
func (f *Faulty) Watch(ctx context.Context, opts object.WatchOptions, in *object.Intake[*Thing]) (object.Stream[*Thing], error) {
	f.mu.Lock()
	err := f.refusal(opts.Version.Known())
	switch {
	case err != nil:
	case f.expired(opts):
		err = Quirks{}.gone(1, 2)
	case opts.InitialEvents && f.strikes(StreamingRefused):
		err = badRequest("sendInitialEvents is not known here")
		if f.rand.IntN(2) == 0 {
			err = invalid()
		}
	}
	f.mu.Unlock()
	if err != nil {
		f.trace.Add("fault", "watch %s: %v", describeWatch(opts), err)
		return nil, err
	}
	// Whether an object is held is asked here, when its frame is read: what is replayed
	// later must be decoded.
	src, err := f.src.Watch(ctx, opts, nil)
	if err != nil {
		return nil, err
	}
	s := &faultyStream{f: f, src: src, scope: object.Scope(opts.Namespace), in: in, released: make(chan struct{}), began: !opts.InitialEvents}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open[s] = struct{}{}
	s.noEnd = opts.InitialEvents && f.strikes(NoEnd)
	switch {
	case f.strikes(EmptyClose):
		s.fail(io.EOF)
	case opts.Version.Known() && !opts.InitialEvents && f.strikes(Replayed):
		s.replay(opts.Version)
		s.queued.Store(int64(len(s.queue)))
	}
	return s, nil
}

// replay queues some of the events sent before a version, in order.
func (s *faultyStream) replay(until object.Version) {
	past := s.f.past[s.scope]
	for _, ev := range past[max(0, len(past)-1-s.f.rand.IntN(8)):] {
		if ev.Item.Version.NotAfter(until) {
			s.f.trace.Add("fault", "replays %v %s at %s", ev.Kind, ev.Item.Key, ev.Item.Version)
			if ev.Kind != object.Deleted {
				ev.Item = s.peek(ev.Item)
			}
			ev.Item = s.f.spoil(ev.Item, ev.Kind == object.Deleted)
			s.queue = append(s.queue, ev)
		}
	}
}

// peek leaves an object undecoded that the reader holds.
func (s *faultyStream) peek(item object.Item[*Thing]) object.Item[*Thing] {
	if s.in.Holds(item.Key, item.UID, item.Version) {
		item.Object, item.Held = nil, true
	}
	return item
}

// Next implements [object.Stream].
func (s *faultyStream) Next() ([]object.Event[*Thing], error) {
	for {
		if s.stalls {
			<-s.released
			s.fail(fmt.Errorf("reading the watch: %w", io.ErrUnexpectedEOF))
		}
		if s.lost.Load() && s.err == nil {
			s.fail(fmt.Errorf("reading the watch: %w", io.ErrUnexpectedEOF))
		}
		if len(s.queue) == 0 && s.err != nil {
			return nil, s.err
		}
		if len(s.queue) == 0 {
			events, err := s.src.Next()
			if err != nil {
				s.fail(err)
				continue
			}
			s.receive(events)
		}
		out := s.pass()
		if s.err == nil {
			s.queued.Store(int64(len(s.queue)))
		}
		if len(out) > 0 {
			return out, nil
		}
	}
}

// fail ends the stream and drops what it had not passed on.
func (s *faultyStream) fail(err error) {
	s.queue, s.err, s.stalls = nil, err, false
	s.queued.Store(1)
}

// receive queues events, some changed in ways that a reader must get along with.
func (s *faultyStream) receive(events []object.Event[*Thing]) {
	f := s.f
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, ev := range events {
		folded := false
		switch {
		case ev.Bookmark:
			if ev.InitialEnd {
				s.began = true
				if s.noEnd {
					continue
				}
			} else if f.strikes(BookmarkLost) {
				continue
			}
		case ev.Kind != 0:
			if s.began {
				f.past[s.scope] = append(f.past[s.scope], ev)
			} else if f.strikes(EarlyBookmark) {
				s.queue = append(s.queue, object.Event[*Thing]{Bookmark: true, Item: object.Item[*Thing]{Version: ev.Item.Version}})
			}
			next := i + 1
			folded = ev.Kind == object.Deleted && next < len(events) && events[next].Kind == object.Added &&
				events[next].Item.Key == ev.Item.Key && f.strikes(Folded)
			if folded {
				events[next].Kind = object.Updated
			}
			if ev.Kind != object.Deleted {
				ev.Item = s.peek(ev.Item)
			}
			ev.Item = f.spoil(ev.Item, ev.Kind == object.Deleted)
		}
		if folded {
			continue
		}
		s.queue = append(s.queue, ev)
		if s.began && !ev.Bookmark && f.strikes(Duplicated) {
			s.queue = append(s.queue, ev)
		}
	}
}

// pass takes some of the queue, or none and ends the stream.
func (s *faultyStream) pass() []object.Event[*Thing] {
	f := s.f
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(s.queue) == 0 {
		return nil
	}
	n := len(s.queue)
	if !f.off {
		n = 1 + f.rand.IntN(n)
	}
	out := s.queue[:n:n]
	s.queue = s.queue[n:]
	failed := func(err error) {
		out = append(out, object.Event[*Thing]{Err: err})
		s.fail(io.EOF)
	}
	q := Quirks{GoneReason: f.rand.IntN(2) == 0}
	switch {
	case f.strikes(Cut):
		s.fail(fmt.Errorf("reading the watch: %w", io.ErrUnexpectedEOF))
	case f.strikes(Ended):
		s.fail(io.EOF)
	case f.strikes(Stalled):
		s.stalls = true
		s.queue = append(s.queue, object.Event[*Thing]{}) // never to be passed on
	case f.strikes(CorruptFrame):
		s.fail(fmt.Errorf("%w: a frame of 3 GB", object.ErrCorrupt))
	case f.strikes(GoneEvent):
		failed(q.gone(1, 2))
	case f.strikes(InternalEvent):
		failed(internal())
	case f.strikes(BusyEvent):
		failed(busy(2))
	case f.strikes(UnknownType):
		out = append(out, object.Event[*Thing]{})
	}
	return out
}

// release ends a stall. The Faulty's lock must be held.
func (s *faultyStream) release() {
	s.once.Do(func() { close(s.released) })
}

// Close implements [object.Stream].
func (s *faultyStream) Close() error {
	s.f.mu.Lock()
	delete(s.f.open, s)
	s.release()
	s.f.mu.Unlock()
	return s.src.Close()
}
