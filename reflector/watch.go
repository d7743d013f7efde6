package reflector

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tarnproject/tarn/object"
)

// watching is the state of receiving changes, or of opening a watch for them.
type watching[T any] struct {
	stream  *stream[T]        // nil until the server has accepted the request
	silence time.Duration     // how long the next read may take
	pending []object.Event[T] // received with the end of a streaming list; read before the stream
	batch   object.Batch[T]   // collects the changes of one read; empty between steps
	replay  replay            // what the stream repeats of an earlier one

	// unordered: the stream began at no version, so with the state as Added events in no order.
	// high is the latest version among those that the sink did not hold.
	unordered bool
	high      object.Version
}

func (w *watching[T]) show(s *Status) { s.State, s.Connected = Watching, w.stream != nil }

func (w *watching[T]) leave() {
	if open := w.stream; open != nil {
		w.stream = nil
		open.close()
	}
}

// step opens the watch, or reads one batch of its events.
func (w *watching[T]) step(ctx context.Context, r *Reflector[T]) (state[T], error) {
	if w.stream == nil {
		return w.open(ctx, r)
	}
	events := w.pending
	w.pending = nil
	if len(events) == 0 {
		var err error
		if events, err = w.stream.next(w.silence); err != nil {
			return w.failed(ctx, r, err)
		}
	}
	return w.consume(ctx, r, events)
}

// open opens the watch.
func (w *watching[T]) open(ctx context.Context, r *Reflector[T]) (state[T], error) {
	from := r.at.Complete
	// From a version on nothing comes that is held; asking would cost more than decoding.
	var held object.Held
	if !from.Known() {
		held = r.sink.Held
	}
	open, err := r.open(ctx, object.WatchOptions{Version: from}, held)
	if err != nil {
		return w.failed(ctx, r, err)
	}
	w.stream, w.unordered, w.replay = open, !from.Known(), r.at.replay()
	w.connected(r)
	return w, nil
}

// connected records that the stream is open.
func (w *watching[T]) connected(r *Reflector[T]) {
	w.silence = r.silence(w.stream, time.Now())
	if !r.now.Failing {
		r.now.Cause = nil
	}
}

// consume hands the events of one read to the sink, as one batch.
func (w *watching[T]) consume(ctx context.Context, r *Reflector[T], events []object.Event[T]) (state[T], error) {
	began := time.Now()
	before := r.complete()
	progress, failure := w.collect(r, events)
	if mark := r.complete(); mark != before || len(w.batch.Changes) > 0 {
		w.batch.Marks = append(w.batch.Marks, mark)
		if err := w.flush(r); err != nil {
			return nil, err
		}
	}
	if len(events) > 0 {
		r.now.LastEvent = began
		if failure == nil {
			r.parts, r.current = 0, began
		}
	}
	if progress {
		r.failures = failures{hurried: r.failures.hurried}
		r.now.Failing, r.now.Cause = false, nil
	}
	now := time.Now()
	w.silence = r.silence(w.stream, now)
	if took := now.Sub(began); took > r.opts.SlowBatch {
		r.opts.Logger.Warn("slow batch", "took", took, "events", len(events))
	}
	if failure != nil {
		return w.failed(ctx, r, failure)
	}
	return w, nil
}

// keepBatch is how many changes a batch may have for its memory to be kept for the next.
const keepBatch = 1024

// flush hands the batch to the sink.
func (w *watching[T]) flush(r *Reflector[T]) error {
	err := r.sink.Apply(&w.batch)
	clear(w.batch.Changes)
	w.batch.Changes, w.batch.Marks = w.batch.Changes[:0], w.batch.Marks[:0]
	if cap(w.batch.Changes) > keepBatch {
		w.batch.Changes = nil
	}
	return err
}

// collect adds events to the batch until one says that the watch has failed. It reports whether
// one of them was progress: a version or an object that was not known before.
func (w *watching[T]) collect(r *Reflector[T], events []object.Event[T]) (progress bool, failure error) {
	counts := &r.now.Counts
	for i := range events {
		ev := &events[i]
		item := &ev.Item
		if w.unordered && ev.Kind != object.Added {
			w.unordered = false
			w.stream.live.Store(true)
		}
		// A server that does not shard may send what one that does has left out.
		if (!item.Outside || item.Version.After(r.at.Seen)) && w.replay.contradicts(&r.at, ev.Bookmark, item.Version) {
			return progress, errHistory
		}
		switch {
		case ev.Kind != 0:
			counts.Events++
			if item.Err != nil && errors.Is(item.Err, object.ErrWrongKind) {
				return progress, item.Err
			}
			var news bool
			if item.Outside {
				// It says how far the server has come, as any event does.
				r.outside()
				moved := !w.unordered && r.at.event(item.Version, ev.Kind == object.Deleted)
				if moved && ev.Kind == object.Updated && !item.Key.IsZero() {
					// It may have replaced an object of the shard, in one event (W17).
					w.release(r, item, false)
					w.batch.Changes = append(w.batch.Changes,
						object.Change[T]{Kind: object.Deleted, Unknown: true, Key: item.Key, UID: item.UID, Version: item.Version})
				}
				progress = moved || progress
				continue
			}
			if w.unordered {
				news, failure = w.initial(r, item)
			} else {
				news = w.change(r, ev.Kind, item, r.at.event(item.Version, ev.Kind == object.Deleted))
			}
			if progress = progress || news; failure != nil {
				return progress, failure
			}
		case ev.Bookmark:
			counts.Bookmarks++
			progress = r.at.bookmark(item.Version) || progress
		case ev.Err != nil:
			return progress, ev.Err
		default:
			counts.Unknown++
		}
	}
	return progress, nil
}

// change adds an Added, Updated or Deleted event to the batch. moved says that its version is
// after the last one seen. It reports whether the event was progress.
func (w *watching[T]) change(r *Reflector[T], kind object.Kind, item *object.Item[T], moved bool) bool {
	deleted := kind == object.Deleted
	// Whether a late event is news, the sink decides by what it holds (W14, W15). It is only late for the
	// quarantine. Objects without a UID do not come from a Kubernetes API, and their versions need not be
	// of one sequence.
	late := !moved && item.UID != "" && item.Version.Known()
	repeated := !deleted && item.Held || deleted && w.replay.repeated(&r.at, item.Key, item.UID, item.Version)
	if repeated || late && !deleted {
		r.now.Counts.Stale++
	}
	if repeated {
		return false
	}
	switch {
	case item.Err == nil && !item.Held:
		if deleted || !late {
			w.release(r, item, late)
		}
		w.batch.Changes = append(w.batch.Changes, object.ChangeOf(kind, item))
	case !deleted:
		if !late {
			r.mu.Lock()
			r.quarantine.add(time.Now(), nil, item.Key, item.UID, item.Version, item.Err, item.Raw)
			r.mu.Unlock()
		}
		bad := object.ChangeOf(object.Quarantined, item)
		bad.Value = object.Value[T]{Encoded: object.Unreadable[T]{Err: item.Err}}
		if bad.Key.IsZero() {
			if late { // of an object without a name the sink cannot see that
				break
			}
			bad.Key.Namespace = string(r.opts.Scope)
		}
		w.batch.Changes = append(w.batch.Changes, bad)
	case !item.Key.IsZero(): // without a key only the next list can delete it
		// A deletion takes effect even if its last state cannot be read.
		w.release(r, item, late)
		change := object.ChangeOf(object.Deleted, item)
		change.Unknown = true
		w.batch.Changes = append(w.batch.Changes, change)
	}
	return moved || !item.Version.Known()
}

var errUnordered = errors.New("a watch from no version sent objects out of order")

// initial adds an Added event of a watch that began at no version, because the list had none.
// Such a watch begins with the state, in no order, so it reaches no version. The sink takes an
// object that is older than its mark for stale, so an object that is neither held nor in order
// needs another list, after which it is held.
func (w *watching[T]) initial(r *Reflector[T], item *object.Item[T]) (progress bool, failure error) {
	if item.Held || w.holds(r, item) {
		r.now.Counts.Stale++
		return false, nil
	}
	if item.UID != "" && item.Version.NotAfter(w.high) {
		return false, errUnordered
	}
	if item.Version.Known() {
		w.high = item.Version
	}
	at := r.at.progress
	return w.change(r, object.Added, item, at.event(item.Version, false)), nil
}

// holds reports whether the sink holds an item, or will when it has the batch.
func (w *watching[T]) holds(r *Reflector[T], item *object.Item[T]) bool {
	for _, c := range slices.Backward(w.batch.Changes) {
		if c.Key == item.Key {
			return c.Kind != object.Deleted && c.UID == item.UID && c.Version == item.Version
		}
	}
	return r.sink.Held(item.Key, item.UID, item.Version)
}

// release ends the quarantine of an item's key, if there is one. A late deletion does so only for
// the object that is in quarantine.
func (w *watching[T]) release(r *Reflector[T], item *object.Item[T], late bool) {
	uid, version, ok := r.quarantine.find(item.Key)
	if !ok || late && (uid != item.UID || version.After(item.Version)) {
		return
	}
	r.mu.Lock()
	r.quarantine.remove(item.Key)
	r.mu.Unlock()
	w.batch.Changes = append(w.batch.Changes, object.Change[T]{Kind: object.Quarantined, Key: item.Key, UID: item.UID, Version: item.Version})
}

const (
	// maxFailures is how often a watch may fail at one version because of what the server sends,
	// before a list.
	maxFailures = 3
	// shortWatch is the duration of a watch that may have broken at its first event.
	shortWatch = 10 * time.Second
)

// failed returns what follows a watch that ended or could not be opened.
func (w *watching[T]) failed(ctx context.Context, r *Reflector[T], err error) (state[T], error) {
	open := w.stream
	w.leave()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	var lasted time.Duration
	if open != nil {
		lasted = time.Since(open.opened)
		if err == io.EOF && (open.heard || lasted >= time.Second) {
			return w.ended(r, lasted), nil
		}
		if err == io.EOF {
			err = errShort
		}
	}
	reason := reasonOf(err)
	if err == errConfirm {
		r.ended(Confirming)
	}
	if reason == Requested {
		return w, nil // the next step handles it
	}
	e := r.failed("watch", reason, err)
	switch reason {
	case Expired, Unordered, Rewind:
		return r.relist(e, plan{}), nil
	case TooLarge:
		return r.relist(e, plan{latest: true}), nil
	case NotFound:
		// LIST decides whether the resource was removed.
		return r.backOff(e, r.list(plan{plain: true})), nil
	case ServerError:
		if apierrors.IsStoreReadError(err) {
			// The server deleted an object that it could not read. No event names the
			// object, so only a list finds the deletion.
			return r.relist(e, plan{}), nil
		}
		f := &r.failures.server
		if f.add(); time.Since(f.since) >= r.opts.ServerErrorsFor {
			*f = streak{}
			return r.relist(e, plan{}), nil
		}
	case Corrupt, WrongKind, Rejected, Short:
		return r.stuck(e), nil
	case Network:
		// A connection that breaks again and again at one version, soon after it was opened,
		// may break because of what is sent there.
		if open != nil && lasted < shortWatch {
			return r.stuck(e), nil
		}
	}
	return r.backOff(e, r.watch()), nil
}

// stuck returns what follows a watch that failed because of what the server sends at the present
// version: another watch, or a list after every third failure.
func (r *Reflector[T]) stuck(e *Error) state[T] {
	n := r.failures.version.add()
	if n%maxFailures != 0 {
		return r.backOff(e, r.watch())
	}
	if n > maxFailures { // a list did not help
		r.now.Failing = true
	}
	return r.backOff(e, r.list(plan{}))
}

// ended returns what follows a watch that the server ended normally.
func (w *watching[T]) ended(r *Reflector[T], lasted time.Duration) state[T] {
	r.ended(Closed)
	if lasted >= time.Second {
		r.failures = failures{}
		r.now.Failing = false
	} else if r.failures.hurried.add() > maxFailures {
		e := &Error{Name: r.opts.Name, Op: "watch", Reason: Closed,
			Err: errors.New("the server closes every watch within a second")}
		return r.backOff(e, r.watch())
	}
	return r.watch()
}
