package reflector

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/tarnproject/tarn/delta"
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

// consume queues the events of one read.
func (r *Reflector[T]) consume(ctx context.Context, s *stream[T], events []object.Event[T]) error {
	if len(events) == 0 {
		s.left = time.Until(s.deadline)
		r.update(r.publish)
		return nil
	}
	began := time.Now()
	news := r.news
	failure, err := r.queue(s, events)
	if err != nil {
		return err
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
	r.flush(r.mark())
	now := time.Now()
	s.extend(now, false) // from now on: nobody read while the sink was busy
	if took := now.Sub(began); took > r.opts.SlowBatch {
		r.opts.Logger.Warn("slow batch", "took", took, "events", len(events))
	}
	if failure != nil {
		return r.watchFailed(ctx, s, failure)
	}
	return nil
}

// queue queues events until one says that the watch has failed.
func (r *Reflector[T]) queue(s *stream[T], events []object.Event[T]) (failure, err error) {
	for i := range events {
		ev := &events[i]
		item := &ev.Item
		if s.synthetic && ev.Type != object.Added {
			s.synthetic = false
			s.settled.Store(true)
		}
		if r.at.strict && r.at.contradicts(ev.Type, item.Version) {
			return errHistory, nil
		}
		switch ev.Type {
		case object.Added, object.Modified, object.Deleted:
			r.counts.Events++
			if item.Err != nil && errors.Is(item.Err, object.ErrWrongKind) {
				return item.Err, nil
			}
			if s.synthetic {
				failure, err = r.queueSynthetic(s, item)
			} else {
				err = r.queueObject(ev.Type, item)
			}
			if failure != nil || err != nil {
				return failure, err
			}
		case object.Bookmark:
			r.counts.Bookmarks++
			news, changed := r.at.bookmark(item.Version)
			if news {
				r.news++
			}
			if changed {
				err = r.sink.Bookmark(r.complete())
			}
			if err != nil {
				return nil, err
			}
		case object.Failed:
			return failureOf(ev), nil
		default:
			r.counts.Unknown++
		}
	}
	return nil, nil
}

// mark returns how far events have come.
func (r *Reflector[T]) mark() object.Mark {
	return object.Mark{Scope: r.opts.Scope, Epoch: r.epoch, Version: r.at.Seen}
}

// complete returns up to where the sink has been told everything.
func (r *Reflector[T]) complete() object.Mark {
	return object.Mark{Scope: r.opts.Scope, Epoch: r.epoch, Version: r.at.Complete}
}

// queueObject queues an Added, Modified or Deleted event.
func (r *Reflector[T]) queueObject(t object.EventType, item *object.Item[T]) error {
	deleted := t == object.Deleted
	moved := r.at.move(item.Version, deleted)
	// A late event would revive what has been deleted since. Objects without a UID are
	// not of a Kubernetes API, and their versions need not be of one sequence. Deletions
	// may share a version.
	late := !moved && item.UID != "" && item.Version.Known()
	if deleted && late && item.Version != r.at.Seen && !r.current(item) || !deleted && (late || item.Held) ||
		deleted && r.at.repeated(item.Key, item.UID, item.Version) {
		r.counts.Stale++
		return nil
	}
	if moved || !item.Version.Known() {
		r.news++
	}
	obj, err := item.Object, item.Err
	if err == nil && r.opts.Transform != nil && !item.Held {
		obj, err = r.transform(obj)
	}
	if err == nil {
		switch {
		case t == object.Added:
			err = r.sink.Add(obj)
		case t == object.Modified:
			err = r.sink.Update(obj)
		case item.Held:
			err = r.deleteUnknown(item)
		default:
			err = r.sink.Delete(obj)
		}
		if err == nil {
			r.release(item.Key)
			return nil
		}
		if errors.Is(err, delta.ErrClosed) {
			return err
		}
	}
	if deleted {
		// Nobody need read it: it is not late, or of the very object that is held.
		r.release(item.Key)
		return r.deleteUnknown(item)
	}
	r.mu.Lock()
	r.quarantine.add(time.Now(), nil, item.Key, item.UID, item.Version, err, item.Raw)
	r.mu.Unlock()
	return r.sink.Bookmark(r.complete())
}

// current reports whether a late deletion is that of the object as it is now: of the same UID,
// at its version or a later one. An old server sends the object's own version (W15). Any other is
// of something that was deleted before, and must not reach the FIFO, which makes one of two
// deletions in a row.
func (r *Reflector[T]) current(item *object.Item[T]) bool {
	if bad := r.quarantine.byKey[item.Key]; bad != nil && bad.UID == item.UID && bad.Version.NotAfter(item.Version) {
		return true
	}
	return r.sink.HeldBy(item.Key, item.UID, item.Version)
}

// deleteUnknown deletes an object of whose last state nothing can be read. One without
// a key cannot be deleted; the next list will do so.
func (r *Reflector[T]) deleteUnknown(item *object.Item[T]) error {
	if item.Key.IsZero() {
		return nil
	}
	if err := r.sink.DeleteUnknown(object.Tombstone[T]{Key: item.Key}); err != nil {
		return err
	}
	return r.sink.Bookmark(r.complete())
}

// release ends the quarantine of a key, if there is one.
func (r *Reflector[T]) release(key object.Key) {
	if len(r.quarantine.byKey) == 0 {
		return
	}
	r.mu.Lock()
	r.quarantine.remove(key)
	r.mu.Unlock()
}

var errUnordered = errors.New("a watch that began at no version told of objects in no order")

// queueSynthetic queues an Added event of a watch that began at no version, because the
// list had none. Such a watch begins with the state, in no order, so no version is
// reached. The FIFO's mark follows each event, and whoever reads it takes an object that
// is older than the mark for stale: so one that is neither held nor in order needs
// another list, after which it is held.
func (r *Reflector[T]) queueSynthetic(s *stream[T], item *object.Item[T]) (failure, err error) {
	if item.Held || r.sink.Held(item.Key, item.UID, item.Version) {
		r.counts.Stale++
		return nil, nil
	}
	if item.UID != "" && item.Version.NotAfter(s.high) {
		return errUnordered, nil
	}
	if item.Version.Known() {
		s.high = item.Version
	}
	at := r.at
	err = r.queueObject(object.Added, item)
	r.at = at
	return nil, err
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
