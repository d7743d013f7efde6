package reflector

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/tarnproject/tarn/object"
)

// stepWatching opens a watch, or reads one batch of its events.
func (r *Reflector[T]) stepWatching(ctx context.Context) error {
	if s := r.stream; s != nil {
		events, err := s.next()
		if err != nil {
			return r.watchFailed(ctx, s, err)
		}
		return r.consume(ctx, s, events)
	}
	// From a version nothing comes that is held; to ask would cost more than to decode.
	var held object.Held
	if !r.at.Complete.Known() {
		held = r.sink.Held
	}
	r.at.begin()
	if err := r.open(ctx, object.WatchOptions{Version: r.at.Complete}, held); err != nil {
		return r.watchFailed(ctx, nil, err)
	}
	r.update(func(s *Status) {
		if !s.Failing {
			s.Cause = nil
		}
	})
	return nil
}

// consume hands the events of one read to the sink, as one batch.
func (r *Reflector[T]) consume(ctx context.Context, s *stream[T], events []object.Event[T]) error {
	if len(events) == 0 {
		s.left = time.Until(s.deadline)
		r.update(r.publish)
		return nil
	}
	began := time.Now()
	news, before := r.news, r.complete()
	failure := r.collect(s, events)
	if mark := r.complete(); mark != before || len(r.batch.Changes) > 0 {
		r.batch.Marks = append(r.batch.Marks, mark)
		if err := r.flush(); err != nil {
			return err
		}
	}
	if news = r.news - news; news > 0 {
		r.trouble = trouble{hurried: r.trouble.hurried}
	}
	r.update(func(st *Status) {
		st.LastEvent = began
		st.Mark.Version, st.Resume = r.at.Seen, r.at.Complete
		if news > 0 {
			st.Failing, st.Cause = false, nil
		}
		r.publish(st)
	})
	now := time.Now()
	s.extend(now, false) // the time that the sink took does not count as silence
	if took := now.Sub(began); took > r.opts.SlowBatch {
		r.opts.Logger.Warn("slow batch", "took", took, "events", len(events))
	}
	if failure != nil {
		return r.watchFailed(ctx, s, failure)
	}
	return nil
}

// keepBatch is how many changes a batch may have for its memory to be kept for the next.
const keepBatch = 1024

// flush hands the batch to the sink.
func (r *Reflector[T]) flush() error {
	err := r.sink.Apply(&r.batch)
	clear(r.batch.Changes)
	r.batch.Changes, r.batch.Marks = r.batch.Changes[:0], r.batch.Marks[:0]
	if cap(r.batch.Changes) > keepBatch {
		r.batch.Changes = nil
	}
	return err
}

// collect adds events to the batch until one says that the watch has failed.
func (r *Reflector[T]) collect(s *stream[T], events []object.Event[T]) (failure error) {
	for i := range events {
		ev := &events[i]
		item := &ev.Item
		if s.synthetic && ev.Kind != object.Added {
			s.synthetic = false
			s.settled.Store(true)
		}
		if r.at.strict && r.at.contradicts(ev.Bookmark, item.Version) {
			return errHistory
		}
		switch {
		case ev.Kind != 0:
			r.counts.Events++
			if item.Err != nil && errors.Is(item.Err, object.ErrWrongKind) {
				return item.Err
			}
			if s.synthetic {
				if failure := r.collectSynthetic(s, item); failure != nil {
					return failure
				}
			} else {
				r.collectObject(ev.Kind, item)
			}
		case ev.Bookmark:
			r.counts.Bookmarks++
			if r.at.bookmark(item.Version) {
				r.news++
			}
		case ev.Err != nil:
			return ev.Err
		default:
			r.counts.Unknown++
		}
	}
	return nil
}

// mark returns how far events have come.
func (r *Reflector[T]) mark() object.Mark {
	return object.Mark{Scope: r.opts.Scope, Epoch: r.epoch, Version: r.at.Seen}
}

// complete returns up to where the sink has everything.
func (r *Reflector[T]) complete() object.Mark {
	return object.Mark{Scope: r.opts.Scope, Epoch: r.epoch, Version: r.at.Complete}
}

// collectObject adds an Added, Updated or Deleted event to the batch.
func (r *Reflector[T]) collectObject(kind object.Kind, item *object.Item[T]) {
	deleted := kind == object.Deleted
	moved := r.at.move(item.Version, deleted)
	// A late event would revive what has been deleted since. A late deletion may be that of
	// the object as it is now (W15), which the sink decides by its UID. Objects without a UID
	// are not of a Kubernetes API, and their versions need not be of one sequence.
	late := !moved && item.UID != "" && item.Version.Known()
	if !deleted && (late || item.Held) || deleted && r.at.repeated(item.Key, item.UID, item.Version) {
		r.counts.Stale++
		return
	}
	if moved || !item.Version.Known() {
		r.news++
	}
	switch {
	case item.Err == nil && !item.Held:
		r.release(item, late)
		r.batch.Changes = append(r.batch.Changes, object.ChangeOf(kind, item))
	case !deleted:
		r.mu.Lock()
		r.quarantine.add(time.Now(), nil, item.Key, item.UID, item.Version, item.Err, item.Raw)
		r.mu.Unlock()
	case !item.Key.IsZero(): // without a key only the next list can delete it
		// A deletion takes effect even if its last state cannot be read.
		r.release(item, late)
		gone := object.ChangeOf(object.Deleted, item)
		gone.Unknown = true
		r.batch.Changes = append(r.batch.Changes, gone)
	}
}

// held reports whether the sink holds an item, or will when it has the batch.
func (r *Reflector[T]) held(item *object.Item[T]) bool {
	for _, c := range slices.Backward(r.batch.Changes) {
		if c.Key == item.Key {
			return c.Kind != object.Deleted && c.UID == item.UID && c.Version == item.Version
		}
	}
	return r.sink.Held(item.Key, item.UID, item.Version)
}

// release ends the quarantine of an item's key, if there is one. A late deletion does so only
// for the object that is in quarantine.
func (r *Reflector[T]) release(item *object.Item[T], late bool) {
	bad := r.quarantine.byKey[item.Key] // only this goroutine writes to it
	if bad == nil || late && (bad.UID != item.UID || bad.Version.After(item.Version)) {
		return
	}
	r.mu.Lock()
	r.quarantine.remove(item.Key)
	r.mu.Unlock()
}

var errUnordered = errors.New("a watch that began at no version sent objects in no order")

// collectSynthetic adds an Added event of a watch that began at no version, because the
// list had none. Such a watch begins with the state, in no order, so no version is
// reached. The sink takes an object that is older than its mark for stale, so one that is
// neither held nor in order needs another list, after which it is held.
func (r *Reflector[T]) collectSynthetic(s *stream[T], item *object.Item[T]) (failure error) {
	if item.Held || r.held(item) {
		r.counts.Stale++
		return nil
	}
	if item.UID != "" && item.Version.NotAfter(s.high) {
		return errUnordered
	}
	if item.Version.Known() {
		s.high = item.Version
	}
	at := r.at
	r.collectObject(object.Added, item)
	r.at = at
	return nil
}

// maxFailures is how often a watch may fail at the same version, for a reason that lies
// in what the server sends, before everything is listed.
const maxFailures = 3

// watchFailed decides what follows a watch that ended, or could not be opened; s is nil
// then.
func (r *Reflector[T]) watchFailed(ctx context.Context, s *stream[T], err error) error {
	r.drop()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err == io.EOF && s != nil {
		return r.watchEnded(s)
	}
	reason := reasonOf(err)
	switch err {
	case errUnordered:
		reason = Unordered
	case errHistory:
		reason = Rewind
	}
	if reason == Asked {
		return nil // the next step hears it
	}
	e := r.failed("watch", reason, err)
	switch reason {
	case Expired, Unordered, Rewind:
		r.relistAfter(e, listing[T]{})
		return nil
	case TooLarge:
		r.relistAfter(e, listing[T]{latest: true})
		return nil
	case NotFound:
		// Whether it is gone, LIST will tell.
		r.list = listing[T]{epoch: r.epoch, plain: true}
		r.backOff(e, Listing)
		return nil
	case ServerError:
		t := &r.trouble
		if t.serverError.IsZero() {
			t.serverError = time.Now()
		} else if time.Since(t.serverError) >= r.opts.ServerErrorsFor {
			t.serverError = time.Time{}
			r.relistAfter(e, listing[T]{})
			return nil
		}
	case Corrupt, WrongKind, Rejected, Short:
		if r.stuck(e) {
			return nil
		}
	case Network:
		// A connection that breaks soon after each time, at the same version, may do so
		// because of what is sent there.
		if s != nil && time.Since(s.opened) < brief && r.stuck(e) {
			return nil
		}
	}
	if !r.at.Complete.Known() {
		// A watch from no version would not tell what was deleted meanwhile.
		r.relist(listing[T]{})
		r.backOff(e, r.status.State)
		return nil
	}
	r.backOff(e, Watching)
	return nil
}

// brief is the life of a watch that may have broken at its first event.
const brief = 10 * time.Second

// stuck counts a failure at the present version. If there were too many it lists, and
// reports so.
func (r *Reflector[T]) stuck(e *Error) bool {
	t := &r.trouble
	if t.failures++; t.failures < maxFailures {
		return false
	}
	t.failures = 0
	if t.relisted {
		r.update(func(s *Status) { s.Failing = true })
	}
	t.relisted = true
	r.relist(listing[T]{})
	r.backOff(e, r.status.State)
	return true
}

// watchEnded goes on after the server has ended a watch in order.
func (r *Reflector[T]) watchEnded(s *stream[T]) error {
	well := time.Since(s.opened) >= time.Second
	r.update(func(st *Status) {
		st.Counts.Ended[Closed]++
		st.Connected = false
		if well {
			st.Failing = false
		}
	})
	if well {
		r.trouble = trouble{}
	} else if r.trouble.hurried++; r.trouble.hurried > maxFailures {
		r.backOff(&Error{Name: r.opts.Name, Op: "watch", Reason: Closed,
			Err: errors.New("the server closes each watch within a second")}, r.watchState())
		return nil
	}
	if !r.at.Complete.Known() {
		r.relist(listing[T]{})
		return nil
	}
	r.enter(Watching, nil)
	return nil
}

// watchState returns the state in which changes are waited for: without a version
// that takes a list.
func (r *Reflector[T]) watchState() State {
	if r.at.Complete.Known() {
		return Watching
	}
	r.list = listing[T]{epoch: r.epoch}
	return r.listState()
}
