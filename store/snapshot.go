package store

import (
	"iter"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/tarnproject/tarn/internal/mvcc"
	"github.com/tarnproject/tarn/object"
)

// Snapshot is the state of a store at one revision. It is a small value: copies are the same
// snapshot. The zero Snapshot is empty.
//
// A snapshot keeps the versions that it can see alive. Release it when done; a snapshot of
// [Store.Snapshot] that is not released is released by the garbage collector. Reading objects
// through a released snapshot panics.
type Snapshot[T any] struct {
	store *Store[T]
	state *state
	lease *lease

	reading *Reading[T] // nil for that of the store
}

// lease is shared by all copies of a snapshot. The garbage collector releases the snapshot when
// the lease is unreachable, which may be in the middle of a method: each method that reads
// versions keeps the lease alive until it returns.
type lease struct {
	released atomic.Bool
	cleanup  runtime.Cleanup
}

// Snapshot returns the current state, in constant time.
func (s *Store[T]) Snapshot() Snapshot[T] {
	st := s.history.Pin()
	l := &lease{}
	// The cleanup runs on a goroutine of the runtime, so it only changes an atomic; the next
	// write, or Stats, reclaims.
	l.cleanup = runtime.AddCleanup(l, func(st *state) { st.Unpin() }, st)
	return Snapshot[T]{store: s, state: st, lease: l}
}

// View calls f with a snapshot that is released when f returns or panics. It costs a few
// nanoseconds and no allocation. f must not keep the snapshot: reads through it after f has
// returned are not detected and may find anything.
func (s *Store[T]) View(f func(Snapshot[T])) {
	snap := Snapshot[T]{store: s, state: s.history.Pin()}
	defer snap.unpin()
	f(snap)
}

// Release ends the snapshot, so that the store can free what only this snapshot could see.
// Releasing it again does nothing, and neither does releasing the zero Snapshot or one of
// [Store.View].
func (n Snapshot[T]) Release() {
	if n.lease == nil || !n.lease.released.CompareAndSwap(false, true) {
		return
	}
	n.lease.cleanup.Stop()
	// The lease must not be collected before its cleanup was stopped.
	defer runtime.KeepAlive(n.lease)
	n.unpin()
}

// unpin releases the state.
func (n Snapshot[T]) unpin() {
	if last := n.state.Unpin(); last && n.store.history.Current() != n.state {
		n.store.trySweep()
	}
}

// check panics if the snapshot was released.
func (n Snapshot[T]) check() {
	if n.lease != nil && n.lease.released.Load() {
		panic("store: use of a snapshot after its release")
	}
}

// Len returns the number of objects.
func (n Snapshot[T]) Len() int {
	if n.store == nil {
		return 0
	}
	return n.state.Payload.objects
}

// Revision is the number of the transaction that made this state. Of two snapshots of one store
// the later has the higher revision, and equal revisions have equal contents.
func (n Snapshot[T]) Revision() uint64 {
	if n.store == nil {
		return 0
	}
	return n.state.Revision
}

// Version returns the resource version up to which the snapshot has every change, empty when none
// is known. The snapshot is the server's state at that version, except that objects deleted at
// the next version may already be missing: deletions may share a version, so it counts only when
// it is complete ([object.Mark]), while each deletion is applied immediately. For a store of
// several scopes use [Snapshot.Mark].
func (n Snapshot[T]) Version() object.Version { return n.Mark(object.Everything).Version }

// Mark returns the mark of a scope: its epoch and the version up to which it is complete. It has
// neither when the store has not listed the scope.
func (n Snapshot[T]) Mark(scope object.Scope) object.Mark {
	if n.store == nil {
		return object.Mark{Scope: scope}
	}
	if r := &n.state.Payload; r.isMarkOf(scope) {
		return *r.mark
	}
	n.check()
	p, _ := n.store.marks.Find(object.Key{Name: string(scope)}, n.state.Revision)
	runtime.KeepAlive(n.lease)
	if p == nil {
		return object.Mark{Scope: scope}
	}
	return *markAt(p)
}

// shardOf returns the shard of the scope that covers a key.
func (n Snapshot[T]) shardOf(k object.Key) object.Shard {
	if s := n.Mark(object.Scope(k.Namespace)).Shard; !s.IsZero() {
		return s
	}
	return n.Mark(object.Everything).Shard
}

// Marks yields the mark of every scope, in no particular order.
func (n Snapshot[T]) Marks() iter.Seq[object.Mark] {
	return func(yield func(object.Mark) bool) {
		if n.store == nil {
			return
		}
		n.check()
		n.store.marksAt(n.state)(yield)
		runtime.KeepAlive(n.lease)
	}
}

// Get returns the object with the given key.
func (n Snapshot[T]) Get(k object.Key) (obj T, ok bool) {
	if n.store == nil {
		return obj, false
	}
	n.check()
	p, _ := n.store.objects.Find(k, n.state.Revision)
	runtime.KeepAlive(n.lease)
	if p == nil {
		return obj, false
	}
	return n.load(p), true
}

// Identity returns the UID and the version of the object with the given key. It does not decode the
// object.
func (n Snapshot[T]) Identity(k object.Key) (uid object.UID, version object.Version, ok bool) {
	if n.store == nil {
		return "", "", false
	}
	n.check()
	p, _ := n.store.objects.Find(k, n.state.Revision)
	defer runtime.KeepAlive(n.lease)
	if p == nil {
		return "", "", false
	}
	id := n.store.identity(p)
	return id.uid, id.version, true
}

// All yields every object, without order. [Snapshot.Sorted] yields them in order.
func (n Snapshot[T]) All() iter.Seq[T] {
	return func(yield func(T) bool) { n.walk(yield) }
}

func (n Snapshot[T]) walk(yield func(T) bool) {
	if n.store == nil {
		return
	}
	n.check()
	objects := n.store.objects
	var some [mvcc.SpanSize]mvcc.Value
	for span := range objects.Spans() {
		if found := objects.Span(span, n.state.Revision, &some); !n.yieldAll(some[:found], yield) {
			break
		}
	}
	runtime.KeepAlive(n.lease)
}

// Chunks returns the number of chunks in which the objects are held. All chunks together are all
// objects, and an object stays in its chunk for as long as it is held. They are for readers that
// keep a list of everything and bring it up to date, chunk by chunk; see [Snapshot.Changed].
func (n Snapshot[T]) Chunks() int {
	if n.store == nil {
		return 0
	}
	n.check()
	defer runtime.KeepAlive(n.lease)
	return n.store.objects.Spans()
}

// Chunk appends the objects of a chunk to dst, without order. Reading all chunks is the fastest way
// to make a list of everything.
func (n Snapshot[T]) Chunk(chunk int, dst []T) []T {
	n.check()
	var some [mvcc.SpanSize]mvcc.Value
	found := n.store.objects.Span(chunk, n.state.Revision, &some)
	dst = slices.Grow(dst, found)
	if n.store.direct {
		for _, p := range some[:found] {
			dst = append(dst, fromPointer[T](p))
		}
	} else {
		for _, p := range some[:found] {
			dst = append(dst, n.load(p))
		}
	}
	runtime.KeepAlive(n.lease)
	return dst
}

// Changed reports whether a chunk may differ from what it was at an earlier revision of the store.
func (n Snapshot[T]) Changed(chunk int, since uint64) bool {
	n.check()
	defer runtime.KeepAlive(n.lease)
	return n.store.objects.SpanChanged(chunk, since)
}

// yieldAll calls yield with what is held at some pointers.
func (n Snapshot[T]) yieldAll(some []mvcc.Value, yield func(T) bool) bool {
	if n.store.direct {
		for _, p := range some {
			if !yield(fromPointer[T](p)) {
				return false
			}
		}
		return true
	}
	for _, p := range some {
		if !yield(n.load(p)) {
			return false
		}
	}
	return true
}

// fetch collects ids, to read their objects some at a time: [mvcc.Map.Gather] is much faster than
// one read after the other.
type fetch[T any] struct {
	n   int
	ids [64]uint32
}

// add adds an id and reports whether there is room for more.
func (f *fetch[T]) add(id uint32) (room bool) {
	f.ids[f.n] = id
	f.n++
	return f.n < len(f.ids)
}

// flush yields the objects of the ids that were added.
func (f *fetch[T]) flush(n Snapshot[T], yield func(T) bool) bool {
	var pointers [len(f.ids)]mvcc.Value
	found := n.store.objects.Gather(f.ids[:f.n], n.state.Revision, pointers[:])
	f.n = 0
	return n.yieldAll(pointers[:found], yield)
}

// each yields every key and what is held there, without order. The key must not be kept.
func (n Snapshot[T]) each(yield func(object.Key, mvcc.Value) bool) {
	if n.store == nil {
		return
	}
	n.check()
	objects := n.store.objects
	objects.IDs(n.state.Revision, func(id uint32, p mvcc.Value) bool { return yield(objects.Key(id), p) })
	runtime.KeepAlive(n.lease)
}

// Keys yields every key, without order. It decodes no object.
func (n Snapshot[T]) Keys() iter.Seq[object.Key] {
	return func(yield func(object.Key) bool) {
		n.each(func(k object.Key, p mvcc.Value) bool { return yield(n.store.keep(k, p)) })
	}
}

// ChunkKeys returns the keys of a chunk as text, "namespace/name", without order; see
// [Snapshot.Chunks].
func (n Snapshot[T]) ChunkKeys(chunk int) []string {
	n.check()
	objects, keys := n.store.objects, newKeyTexts(mvcc.SpanSize)
	for id := uint32(chunk * mvcc.SpanSize); id < uint32((chunk+1)*mvcc.SpanSize); id++ {
		if objects.At(id, n.state.Revision) != nil {
			keys.add(objects.Key(id))
		}
	}
	runtime.KeepAlive(n.lease)
	return keys.keys
}

// keyTexts collects keys as text. The texts share one allocation, unless they outgrow it.
type keyTexts struct {
	text strings.Builder
	keys []string
}

func newKeyTexts(n int) *keyTexts {
	t := &keyTexts{keys: make([]string, 0, n)}
	t.text.Grow(32 * n)
	return t
}

func (t *keyTexts) add(k object.Key) {
	from := t.text.Len()
	if k.Namespace != "" {
		t.text.WriteString(k.Namespace)
		t.text.WriteByte('/')
	}
	t.text.WriteString(k.Name)
	t.keys = append(t.keys, t.text.String()[from:])
}

// Namespace yields the objects of one namespace, without order. Its cost follows the number of
// objects in the namespace.
func (n Snapshot[T]) Namespace(namespace string) iter.Seq[T] {
	return func(yield func(T) bool) {
		if n.store == nil {
			return
		}
		n.check()
		var few fetch[T]
		more := true
		n.store.objects.Namespace(namespace, func(id uint32) bool {
			more = few.add(id) || few.flush(n, yield)
			return more
		})
		if more {
			few.flush(n, yield)
		}
		runtime.KeepAlive(n.lease)
	}
}

// Sorted yields every object in the order of their keys: by namespace, then by name.
//
// The store does not keep its objects in order. The first call of Sorted or [Snapshot.After] on a
// revision sorts the keys, in O(n log n): about 0.1 s for 100,000 objects. All snapshots of that
// revision share the result, four bytes for each object, for as long as one of them is held or
// the revision is the current one.
func (n Snapshot[T]) Sorted() iter.Seq[T] { return n.After(object.Key{}, 0) }

// After yields, in order, up to limit objects whose keys come after k, all of them for a
// limit of 0 or less. Since a snapshot never changes, pages taken this way have no gaps
// and no repeats. The first page starts after the zero Key. See [Snapshot.Sorted] for the cost.
func (n Snapshot[T]) After(k object.Key, limit int) iter.Seq[T] {
	return func(yield func(T) bool) {
		if n.store == nil {
			return
		}
		n.check()
		objects := n.store.objects
		ids := n.state.Sorted(objects)
		at, found := slices.BinarySearchFunc(ids, k, func(id uint32, k object.Key) int { return objects.Key(id).Compare(k) })
		if found {
			at++
		}
		if ids = ids[at:]; limit > 0 && limit < len(ids) {
			ids = ids[:limit]
		}
		for _, id := range ids {
			if !yield(n.load(objects.At(id, n.state.Revision))) {
				break
			}
		}
		runtime.KeepAlive(n.lease)
	}
}
