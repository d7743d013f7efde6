package reflector

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/tarnproject/tarn/object"
)

// streaming is the state of reading the initial events of a streaming list.
type streaming[T any] struct {
	listed[T]
	stream   *stream[T] // nil until the server has accepted the request
	deadline time.Time  // for the next initial event, or the bookmark that ends them
	keys     keyed
}

func (s *streaming[T]) show(st *Status) { st.State, st.Connected = Streaming, s.stream != nil }

func (s *streaming[T]) leave() {
	s.listed.leave()
	if open := s.stream; open != nil {
		s.stream = nil
		open.close()
	}
}

// step opens the stream, or reads one batch of its initial events.
func (s *streaming[T]) step(ctx context.Context, r *Reflector[T]) (state[T], error) {
	if s.stream == nil {
		return s.open(ctx, r)
	}
	events, err := s.stream.next(time.Until(s.deadline))
	if err != nil {
		return s.failed(ctx, r, err)
	}
	now := time.Now()
	r.now.LastEvent = now
	counts := &r.now.Counts
	for i := range events {
		ev := &events[i]
		switch {
		case ev.Kind != 0:
			counts.Events++
			if ev.Item.Err != nil && errors.Is(ev.Item.Err, object.ErrWrongKind) {
				return s.failed(ctx, r, ev.Item.Err)
			}
			if ev.Kind == object.Added {
				s.deadline = now.Add(r.opts.InitialSilence)
			}
			if ev.Item.Outside {
				r.outside()
				if ev.Kind == object.Updated && !ev.Item.Key.IsZero() {
					s.replaced(&ev.Item)
				}
				continue
			}
			if !s.fold(r, ev) {
				counts.Stale++
			}
		case ev.Bookmark:
			counts.Bookmarks++
			if ev.InitialEnd {
				return s.complete(r, ev.Item.Version, events[i+1:])
			}
		case ev.Err != nil:
			return s.failed(ctx, r, ev.Err)
		default:
			counts.Unknown++
		}
	}
	return s, nil
}

// open opens the stream.
func (s *streaming[T]) open(ctx context.Context, r *Reflector[T]) (state[T], error) {
	if err := s.begin(ctx, r); err != nil {
		return nil, err
	}
	opts := object.WatchOptions{Match: object.NotOlderThan, InitialEvents: true}
	if r.atVersion(s.plan) {
		opts.Version = r.at.Seen
	}
	open, err := r.open(ctx, opts, r.heldFor(s.plan))
	if err != nil {
		return s.failed(ctx, r, err)
	}
	s.stream, s.deadline = open, open.opened.Add(r.opts.InitialSilence)
	return s, nil
}

// complete commits the list. The watch that follows takes over the stream, and the events that
// came with the bookmark.
func (s *streaming[T]) complete(r *Reflector[T], version object.Version, rest []object.Event[T]) (state[T], error) {
	s.stream.live.Store(true)
	r.fallback.failed = 0
	r.now.Counts.Streamed++
	r.now.Unpaged = ""
	watch := &watching[T]{stream: s.stream, pending: rest}
	next, err := r.finish(&s.listed, version, watch)
	if err != nil || next != state[T](watch) {
		return next, err
	}
	s.stream = nil
	watch.connected(r)
	return watch, nil
}

// maxStreamingFailures is how many streaming lists in a row may fail before LIST is used instead.
const maxStreamingFailures = 3

// streamAgainAfter is how long LIST is used instead: servers and proxies are upgraded.
const streamAgainAfter = time.Hour

// fallback is what is known about streaming lists that do not work.
type fallback struct {
	failed int       // streaming lists since the last complete one that did not complete
	since  time.Time // when LIST took their place; zero while streaming lists are in use, or disabled
}

// failed returns what follows a streaming list that failed. Its initial events are discarded.
func (s *streaming[T]) failed(ctx context.Context, r *Reflector[T], err error) (state[T], error) {
	s.leave()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	reason := reasonOf(err)
	f := &r.fallback
	switch {
	case reason == Requested:
		return s, nil // the next step handles it
	case err == io.EOF:
		reason, err = NoBookmark, errors.New("the server ended the stream before the bookmark that ends the initial events")
		f.failed++
	case reason == Silent:
		reason, err = NoBookmark, fmt.Errorf("the bookmark that ends the initial events did not arrive within %v of the last event", r.opts.InitialSilence)
		f.failed = maxStreamingFailures
	case reason == Rejected:
		f.failed = maxStreamingFailures
	case len(s.items) > 0, reason == Corrupt, reason == WrongKind, reason == ServerError:
		f.failed++
	}
	e := r.failed("streaming list", reason, err)
	p := s.plan
	if reason == Expired || reason == TooLarge {
		if r.atVersion(p) {
			p.latest = true
			return r.list(p), nil
		}
		return r.backOff(e, r.list(p)), nil
	}
	if r.opts.Streaming == StreamingOn {
		return r.backOff(e, r.list(p)), nil
	}
	if f.failed >= maxStreamingFailures {
		f.since = time.Now()
		r.now.Streaming = StreamingStatus{Cause: string(reason) + ": " + err.Error()}
	}
	switch reason {
	case Throttled, Unavailable, Refused, Network, DNS, TLS:
		return r.backOff(e, r.list(p)), nil
	}
	p.plain = true
	return r.list(p), nil
}

// keyed finds the items of a streaming list by key, so that an event can replace or remove one.
type keyed struct {
	at      map[object.Key]int            // index into the list's items
	deleted map[object.Key]object.Version // keys that were deleted, and the version of the deletion
}

// index makes the maps when the first event comes that is not Added: most lists need none.
func (s *streaming[T]) index() {
	s.keys = keyed{make(map[object.Key]int, len(s.items)), make(map[object.Key]object.Version)}
	for i := range s.items {
		s.keys.at[s.items[i].Key] = i
	}
}

// replaced removes the object of the shard that one outside may have replaced in one event (W17).
func (s *streaming[T]) replaced(by *object.Item[T]) {
	if s.keys.at == nil {
		s.index()
	}
	if i, found := s.keys.at[by.Key]; found && !s.items[i].Version.After(by.Version) {
		s.remove(i)
	}
	s.keys.deleted[by.Key] = by.Version
}

// fold applies an event to the items received so far, and reports whether it changed them.
func (s *streaming[T]) fold(r *Reflector[T], ev *object.Event[T]) bool {
	item, deleted := &ev.Item, ev.Kind == object.Deleted
	if item.Key.IsZero() && deleted {
		return false // which object was deleted is not known
	}
	if s.keys.at == nil {
		if ev.Kind == object.Added {
			s.add(r, item)
			return true
		}
		s.index()
	}
	i, found := s.keys.at[item.Key]
	switch {
	case deleted && !found:
		s.keys.deleted[item.Key] = item.Version
		return false
	case deleted:
		was := &s.items[i]
		if was.UID != item.UID || was.Version.After(item.Version) {
			return false
		}
		s.keys.deleted[item.Key] = item.Version
		s.remove(i)
		return true
	}
	if v, ok := s.keys.deleted[item.Key]; ok && item.Version.NotAfter(v) {
		return false
	}
	if !found {
		s.keys.at[item.Key] = len(s.items)
		s.add(r, item)
		return true
	}
	was := &s.items[i]
	if was.UID == item.UID && item.Version.NotAfter(was.Version) {
		return false
	}
	s.uncount(was)
	*was = *item
	s.count(r, was)
	return true
}

// remove removes an item. The last one takes its place.
func (s *streaming[T]) remove(i int) {
	last := len(s.items) - 1
	delete(s.keys.at, s.items[i].Key)
	s.uncount(&s.items[i])
	if i != last {
		s.items[i] = s.items[last]
		s.keys.at[s.items[i].Key] = i
	}
	s.items[last] = object.Item[T]{}
	s.items = s.items[:last]
}
