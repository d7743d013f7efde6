package journal

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/tarnproject/tarn/internal/packing"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/store"
)

// MirrorOptions are what a [Recorder] and a [Source] need of their mirror. All but Identities are required.
type MirrorOptions[T any] struct {
	// Cut calls its argument with the current state, while no batch is applied.
	Cut func(func(store.Snapshot[T]))
	// Encode encodes an object that the mirror holds decoded; only the recorder's goroutine calls it. Decode decodes
	// what Encode and the form of the mirror encode. Neither keeps its argument.
	Encode func(T) ([]byte, error)
	Decode func([]byte) (T, error)
	// Identity returns what is mirrored. It is asked before the log is read and before each segment, and may take a
	// request.
	Identity func(context.Context) (Identity, error)
	// Allowed returns why the mirror must not be written, or nil. It is asked before each group of changes. If it
	// returns an error, the log is deleted.
	Allowed func() error
	// Identities lists a page of the identities of what is mirrored, to compare them with the state where the server
	// sends no bookmarks. Defaults to none: the objects are listed then.
	Identities func(ctx context.Context, opts object.ListOptions, each func(object.Key, object.UID, object.Version) error) (object.Page, error)
}

// Recorder writes the log of a mirror. [Recorder.Applied] receives the changes and never blocks; [Recorder.Run]
// writes them.
//
// Between the two is a queue of at most Options.Pending changes. If it is full, all of it is dropped, and the log
// begins again with a whole state as soon as the disk allows. Rejected: a subscriber of the mirror. It sees changes
// and not batches, so that what it writes would not always be a state that the mirror had.
type Recorder[T any] struct {
	log  *Log
	opts MirrorOptions[T]
	wake chan struct{} // has room for one token

	// Of the goroutine in Run only.
	packer packing.Packer // for objects that the mirror holds decoded

	mu      sync.Mutex // guards all below; never held while anything is written
	on      bool       // changes are queued; the state before them is in the log, or being written
	queue   []queued[T]
	changes int // in queue, and one for each batch
	epoch   object.Epoch
	status  Status
}

// queued is a batch that is to be written.
type queued[T any] struct {
	moment
	changes []object.Change[T]
}

// Status is what a recorder does.
type Status struct {
	// Writing is true while every change is written. Cause is why it is not, Since the time of the last change of
	// either.
	Writing bool
	Cause   error
	Since   time.Time
	// States, Batches, Changes and Bytes were written by this process. Stops counts how often writing ended because
	// of an error.
	States, Batches, Changes, Stops uint64
	Bytes                           int64
}

// errStarting is the cause before the first state is written.
var errStarting = errors.New("journal: the first state is not written yet")

// errEnded is the cause after the mirror has ended.
var errEnded = errors.New("journal: the mirror has ended")

// errBehind ends a segment whose writer could not keep up.
var errBehind = errors.New("journal: the disk is slower than the changes")

// NewRecorder returns the recorder of a log.
func NewRecorder[T any](log *Log, opts MirrorOptions[T]) *Recorder[T] {
	return &Recorder[T]{log: log, opts: opts, wake: make(chan struct{}, 1), status: Status{Cause: errStarting, Since: time.Now()}}
}

// Status returns what the recorder does. It does not wait for the disk.
func (r *Recorder[T]) Status() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status
}

// Applied receives what a batch changed; now is the state with it. It must be called for every batch, in order, and
// not while Cut calls its argument. It keeps the values of the changes for a short time.
func (r *Recorder[T]) Applied(b *object.Batch[T], changes []object.Change[T], now store.Snapshot[T]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.on {
		return
	}
	if r.changes += 1 + len(changes); r.changes > r.log.journal.opts.Pending {
		r.stop(errBehind)
		r.ring()
		return
	}
	q := queued[T]{moment: moment{at: time.Now(), unreadable: now.Unreadables()}, changes: make([]object.Change[T], 0, len(changes))}
	for _, c := range changes {
		if c.Kind != object.Synced {
			c.Prior = object.Value[T]{}
			q.changes = append(q.changes, c)
		}
	}
	for _, m := range b.Marks {
		is := now.Mark(m.Scope)
		if is.Epoch > r.epoch { // what is written is of another history, whose versions may come again
			r.stop(errRewound)
			r.ring()
			return
		}
		q.marks = append(q.marks, markOf(is))
	}
	r.queue = append(r.queue, q)
	r.ring()
}

func markOf(m object.Mark) Mark { return Mark{m.Scope, m.Version, m.Shard.Selector()} }

func (r *Recorder[T]) ring() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// stop drops the queue. r.mu must be held.
func (r *Recorder[T]) stop(cause error) {
	if r.status.Writing {
		r.status.Stops++
	}
	r.on, r.queue, r.changes = false, nil, 0
	r.status.Writing, r.status.Cause, r.status.Since = false, cause, time.Now()
}

// How long a recorder waits before it begins again after an error, with doubling delays.
const (
	minWait = time.Second
	maxWait = time.Minute
)

// Run writes until the context is done, and then what is queued. Call it when the mirror has its initial state.
func (r *Recorder[T]) Run(ctx context.Context) {
	select {
	case r.log.turn <- struct{}{}:
		defer func() { <-r.log.turn }()
	case <-ctx.Done():
		return
	}
	wait := minWait
	for {
		began := time.Now()
		err := r.record(ctx)
		r.log.abandon()
		r.mu.Lock()
		if err == nil {
			r.status.Writing, err = false, errEnded
		}
		r.stop(err)
		r.mu.Unlock()
		if errors.Is(err, ErrFull) || errors.Is(err, errRewound) {
			r.log.discard() // so that the next state fits, if any does, and the old ones are not continued
		}
		if time.Since(began) > maxWait {
			wait = minWait
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
			wait = min(2*wait, maxWait)
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// record writes segments until the context is done or something fails.
func (r *Recorder[T]) record(ctx context.Context) error {
	if err := r.log.journal.acquire(); err != nil {
		return err
	}
	if err := r.allowed(); err != nil {
		return err
	}
	for ctx.Err() == nil {
		id, err := r.opts.Identity(ctx)
		if err == nil {
			err = r.segment(ctx, id)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// segment writes a segment until it is time for the next one.
func (r *Recorder[T]) segment(ctx context.Context, id Identity) (err error) {
	w, err := r.log.begin(id)
	if err != nil {
		return err
	}
	defer func() {
		if closed := w.f.Close(); err == nil {
			err = closed
		}
	}()
	if err := r.state(w); err != nil {
		return err
	}
	r.log.completed()
	began, opts := time.Now(), r.log.journal.opts
	timer := time.NewTimer(opts.MaxAge / 4)
	defer timer.Stop()
	synced := time.Now()
	for {
		ended := ctx.Err() != nil
		if err := r.drain(w); err != nil {
			return err
		}
		switch due := time.Since(synced) >= opts.SyncEvery; {
		case ended, w.dirty && due:
			if err := w.sync(); err != nil {
				return err
			}
			synced = time.Now()
		}
		if ended || w.size-w.state > min(max(w.state, minChanges), opts.MaxBytes/8) || time.Since(began) >= opts.MaxAge/4 {
			return nil
		}
		next := opts.MaxAge/4 - time.Since(began)
		if w.dirty {
			next = min(next, opts.SyncEvery-time.Since(synced))
		}
		timer.Reset(next)
		select {
		case <-r.wake:
		case <-timer.C:
		case <-ctx.Done():
		}
	}
}

// minChanges is how many bytes of changes follow a state at least before the next one, unless that would be more than
// an eighth of the folder.
const minChanges = 4 << 20

// allowed deletes the log of a mirror that must not be written.
func (r *Recorder[T]) allowed() error {
	err := r.opts.Allowed()
	if err != nil {
		r.log.discard()
	}
	return err
}

// state writes the whole state, and has the changes after it queued.
func (r *Recorder[T]) state(w *writer) error {
	var snap store.Snapshot[T]
	var at moment
	var epoch object.Epoch
	r.opts.Cut(func(now store.Snapshot[T]) {
		snap = now
		at = moment{at: time.Now(), unreadable: now.Unreadables()}
		for m := range now.Marks() {
			at.marks = append(at.marks, markOf(m))
			epoch = max(epoch, m.Epoch)
		}
		r.mu.Lock()
		r.on, r.queue, r.changes, r.epoch = true, nil, 0, epoch
		r.mu.Unlock()
	})
	defer snap.Release()
	for c := range store.Diff(store.Snapshot[T]{}, snap) {
		packed, err := r.packed(c.Value)
		if err == nil {
			err = w.object(entryOf(&c), packed)
		}
		if err != nil {
			return err
		}
	}
	if err := w.complete(at); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status.States++
	r.status.Bytes += w.size
	if !r.on {
		return r.status.Cause // meanwhile
	}
	r.status.Writing, r.status.Cause, r.status.Since = true, nil, time.Now()
	return nil
}

// drain writes what is queued.
func (r *Recorder[T]) drain(w *writer) error {
	r.mu.Lock()
	queue, on, cause := r.queue, r.on, r.status.Cause
	r.queue, r.changes = nil, 0
	r.mu.Unlock()
	if !on {
		return cause
	}
	if len(queue) == 0 {
		return nil
	}
	if err := r.allowed(); err != nil {
		return err
	}
	before, changes := w.size, 0
	for i := range queue {
		q := &queue[i]
		changes += len(q.changes)
		err := w.batch(q.moment, len(q.changes), func() (err error) {
			for i := range q.changes {
				c := &q.changes[i]
				e, packed := entryOf(c), packing.Packed{}
				if !e.removes() {
					if packed, err = r.packed(c.Value); err != nil {
						return err
					}
				}
				w.entry(e, packed)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	if err := w.flush(); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status.Batches += uint64(len(queue))
	r.status.Changes += uint64(changes)
	r.status.Bytes += w.size - before
	return nil
}

func entryOf[T any](c *object.Change[T]) *Entry {
	return &Entry{Kind: c.Kind, Key: c.Key, UID: c.UID, Version: c.Version}
}

// packed returns how an object is written: as the mirror holds it, or encoded and packed in the same way.
func (r *Recorder[T]) packed(v object.Value[T]) (packing.Packed, error) {
	if p, ok := store.PackedOf(v); ok {
		return p, nil
	}
	data, err := r.opts.Encode(v.Get())
	if err != nil {
		return packing.Packed{}, err
	}
	return r.packer.Pack(data), nil
}
