package reflector

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/tarnproject/tarn/object"
)

// stepStreaming opens a streaming list, or reads one batch of its initial events.
func (r *Reflector[T]) stepStreaming(ctx context.Context) error {
	l := &r.list
	if r.stream == nil {
		if err := r.takeSlot(ctx); err != nil {
			return err
		}
		l.again()
		l.started = time.Now()
		l.items = slices.Grow(l.items, r.size)
		opts := object.WatchOptions{Match: object.NotOlderThan, InitialEvents: true}
		if r.atVersion(l) {
			opts.Version = r.at.Seen
		}
		if err := r.open(ctx, opts, r.heldBy(l)); err != nil {
			return r.streamingFailed(ctx, err)
		}
		return nil
	}
	s := r.stream
	events, err := s.next()
	if err != nil {
		return r.streamingFailed(ctx, err)
	}
	now := time.Now()
	s.left = s.deadline.Sub(now)
	r.update(func(st *Status) { st.LastEvent = now })
	added := false
	for i := range events {
		ev := &events[i]
		switch {
		case ev.Kind != 0:
			r.counts.Events++
			if ev.Item.Err != nil && errors.Is(ev.Item.Err, object.ErrWrongKind) {
				return r.streamingFailed(ctx, ev.Item.Err)
			}
			added = added || ev.Kind == object.Added
			if !r.foldIn(l, ev) {
				r.counts.Stale++
			}
		case ev.Bookmark:
			r.counts.Bookmarks++
			if ev.InitialEnd {
				return r.streamed(ctx, s, l, ev.Item.Version, now, events[i+1:])
			}
		case ev.Err != nil:
			return r.streamingFailed(ctx, ev.Err)
		default:
			r.counts.Unknown++
		}
	}
	if added {
		s.extend(now, true)
	}
	r.update(r.publish)
	return nil
}

// streamed commits a streaming list that has come to its end, and goes on with the
// events after it.
func (r *Reflector[T]) streamed(ctx context.Context, s *stream[T], l *listing[T], version object.Version, now time.Time, rest []object.Event[T]) error {
	l.version = version
	s.settled.Store(true)
	r.aborted = 0
	r.counts.Streamed++
	if err := r.finish(l); err != nil || r.stream != s {
		return err
	}
	s.extend(now, false)
	r.update(func(st *Status) {
		if !st.Failing {
			st.Cause = nil
		}
	})
	return r.consume(ctx, s, rest)
}

// maxAborted is how many streaming lists may come to nothing before they are given up.
const maxAborted = 3

// atVersion reports whether a list asks for nothing older than what was seen.
func (r *Reflector[T]) atVersion(l *listing[T]) bool {
	return !l.latest && l.epoch == r.epoch && r.at.Seen.Known()
}

// streamingFailed decides what follows a streaming list that failed.
func (r *Reflector[T]) streamingFailed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	r.drop()
	begun := len(r.list.items) > 0
	r.list.again()
	reason := reasonOf(err)
	switch {
	case reason == Asked:
		return nil // the next step hears it
	case err == io.EOF, reason == Short:
		reason, err = NoBookmark, fmt.Errorf("%w: the server ended the stream", ErrNoBookmark)
		r.aborted++
	case reason == Silent:
		reason, err = NoBookmark, fmt.Errorf("%w within %v of the last event", ErrNoBookmark, r.opts.InitialSilence)
		r.aborted = maxAborted
	case reason == Rejected:
		r.aborted = maxAborted
	case begun, reason == Corrupt, reason == WrongKind, reason == ServerError:
		r.aborted++
	}
	e := r.failed("streaming list", reason, err)
	if reason == Expired || reason == TooLarge {
		if r.atVersion(&r.list) {
			l := r.list
			l.latest = true
			r.relist(l)
		} else {
			r.backOff(e, Streaming)
		}
		return nil
	}
	if r.opts.Streaming == StreamingOn {
		r.backOff(e, Streaming)
		return nil
	}
	if r.aborted >= maxAborted {
		r.streaming, r.gaveUp = false, time.Now()
		r.update(func(s *Status) { s.Streaming = StreamingStatus{WhyNot: string(reason) + ": " + err.Error()} })
	}
	switch reason {
	case Throttled, Unavailable, Refused, Network, DNS, TLS:
		r.backOff(e, r.listState())
	default:
		l := r.list
		l.plain = true
		r.relist(l)
	}
	return nil
}

// streamAgainAfter is how long it is remembered that streaming lists do not work: a server is
// upgraded, or a proxy mended, some time.
const streamAgainAfter = time.Hour

// streamAgain makes the list that is about to begin a streaming one if these were given up
// long ago. If that one comes to nothing, they are given up again.
func (r *Reflector[T]) streamAgain() {
	if r.streaming || r.list.plain || r.gaveUp.IsZero() || time.Since(r.gaveUp) < streamAgainAfter {
		return
	}
	r.streaming, r.aborted = true, maxAborted-1
	r.update(func(s *Status) { s.Streaming = StreamingStatus{InUse: true} })
}

// fold finds the items of keys that are told of more than once in a streaming list. It
// is made when the first event comes that is not Added.
type fold[T any] struct {
	at      map[object.Key]int            // in the list's items
	deleted map[object.Key]object.Version // keys that were, until that version
}

// foldIn puts an event of a streaming list into its items, and reports whether it was
// news.
func (r *Reflector[T]) foldIn(l *listing[T], ev *object.Event[T]) bool {
	f, item := &l.fold, &ev.Item
	if item.Key.IsZero() && ev.Kind == object.Deleted {
		return false // it may have been any
	}
	if f.at == nil {
		if ev.Kind == object.Added {
			l.items = append(l.items, *item)
			r.take(l, &l.items[len(l.items)-1])
			return true
		}
		f.at = make(map[object.Key]int, len(l.items))
		f.deleted = make(map[object.Key]object.Version)
		for i := range l.items {
			f.at[l.items[i].Key] = i
		}
	}
	i, listed := f.at[item.Key]
	if listed && ev.Kind == object.Deleted {
		was := &l.items[i]
		if was.UID != item.UID || was.Version.After(item.Version) {
			return false
		}
		r.leave(l, was)
		last := len(l.items) - 1
		l.items[i] = l.items[last]
		f.at[l.items[i].Key] = i
		l.items[last] = object.Item[T]{}
		l.items = l.items[:last]
		delete(f.at, item.Key)
	}
	if ev.Kind == object.Deleted {
		f.deleted[item.Key] = item.Version
		return listed
	}
	if v, ok := f.deleted[item.Key]; ok && item.Version.NotAfter(v) {
		return false
	}
	if !listed {
		f.at[item.Key] = len(l.items)
		l.items = append(l.items, *item)
		r.take(l, &l.items[len(l.items)-1])
		return true
	}
	was := &l.items[i]
	if was.UID == item.UID && item.Version.NotAfter(was.Version) {
		return false
	}
	r.leave(l, was)
	*was = *item
	r.take(l, was)
	return true
}

// leave undoes take for an item that is replaced.
func (r *Reflector[T]) leave(l *listing[T], item *object.Item[T]) {
	if item.Held {
		l.held--
	}
	if item.Err != nil {
		l.bad.remove(item.Key)
	}
}
