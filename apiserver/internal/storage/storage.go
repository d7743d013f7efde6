package storage

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tarnproject/tarn/apiserver/internal/kinds"
	"github.com/tarnproject/tarn/object"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
)

// firstVersion is the version of an empty server. From 9 on, the number of digits soon
// changes, which exposes clients that compare versions as strings.
const firstVersion = 9

// Storage holds the objects of all kinds, a single resource version counter and the history
// of changes. A writer reads a record, builds its successor without the lock, and commits
// it if the record is still the latest. One lock guards everything else and is held
// briefly.
//
// All kinds share one history, as in etcd: changes to a busy resource can compact away the
// position of a quiet resource's watchers unless they use bookmarks.
type Storage struct {
	limit int  // number of changes kept
	room  int  // encoded bytes kept
	old   bool // Options.OldServer

	mu      sync.Mutex // guards everything below
	version uint64
	// compacted is the oldest version from which a watch or exact list can start.
	compacted uint64
	log       []change
	held      int   // encoded bytes in log
	dropped   int64 // number of changes ever dropped from log
	buckets   map[*kinds.Kind]*bucket
	rewinds   int
	changed   time.Time // of the last change, except of Leases
	// advanced is closed when the version advances. nil if there are no waiters.
	advanced chan struct{}
}

// bucket holds the objects of one kind.
type bucket struct {
	records  []*kinds.Record // sorted by key
	watchers map[*Watcher]struct{}
	removed  bool // no longer served
	// lost is the version of this kind's latest change that was dropped from the history.
	lost uint64
	// edits counts the changes of records.
	edits uint64
}

// New returns an empty storage that keeps limit changes and room encoded bytes of history. old emulates an
// early server; see Options.OldServer.
func New(limit, room int, old bool) *Storage {
	return &Storage{limit: limit, room: room, old: old, version: firstVersion, compacted: firstVersion, buckets: map[*kinds.Kind]*bucket{}}
}

func (s *Storage) bucket(k *kinds.Kind) *bucket {
	b := s.buckets[k.Storage]
	if b == nil {
		b = &bucket{watchers: map[*Watcher]struct{}{}}
		s.buckets[k.Storage] = b
	}
	return b
}

func (b *bucket) find(key object.Key) (int, bool) {
	return slices.BinarySearchFunc(b.records, key, func(r *kinds.Record, key object.Key) int { return r.Key.Compare(key) })
}

// put sets the record of a key, or removes it if r is nil.
func (b *bucket) put(key object.Key, r *kinds.Record) {
	b.edits++
	i, found := b.find(key)
	switch {
	case found && r != nil:
		b.records[i] = r
	case found:
		b.records = slices.Delete(b.records, i, i+1)
	case r != nil:
		b.records = slices.Insert(b.records, i, r)
	}
}

// Locked runs f while nothing else reads or writes. f may call only those methods whose comment says
// that the caller must hold the lock.
func (s *Storage) Locked(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// Records returns the latest records of a kind, sorted by key, which the caller must not modify. The caller
// must hold the lock.
func (s *Storage) Records(k *kinds.Kind) []*kinds.Record { return s.bucket(k).records }

// Edits returns how often records of the kinds changed. The caller must hold the lock.
func (s *Storage) Edits(of ...*kinds.Kind) (n uint64) {
	for _, k := range of {
		n += s.bucket(k).edits
	}
	return n
}

// Get returns the latest record of a key, or nil.
func (s *Storage) Get(k *kinds.Kind, key object.Key) *kinds.Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Find(k, key)
}

// Find is Get without the lock, which the caller must hold.
func (s *Storage) Find(k *kinds.Kind, key object.Key) *kinds.Record {
	b := s.bucket(k)
	if i, found := b.find(key); found {
		return b.records[i]
	}
	return nil
}

// Deleted returns the last records of the deleted objects in the history.
func (s *Storage) Deleted() (found []*kinds.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.log {
		if s.log[i].current == nil {
			found = append(found, s.log[i].old)
		}
	}
	return found
}

// All returns the latest records of a kind in one namespace, or in all.
func (s *Storage) All(k *kinds.Kind, namespace string) []*kinds.Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*kinds.Record
	for _, r := range s.bucket(k).records {
		if namespace == "" || r.Key.Namespace == namespace {
			out = append(out, r)
		}
	}
	return out
}

// Commit replaces old with next if old is still the latest record of the key. A nil old
// creates the object, a nil next deletes it. If next equals old, nothing changes and no
// version is used. For a deletion, the result is the last state at the version of the
// deletion.
func (s *Storage) Commit(k *kinds.Kind, key object.Key, old *kinds.Record, next runtime.Object) (r *kinds.Record, ok bool) {
	r, ok, _ = s.CommitIf(k, key, old, next, func() error { return nil })
	return r, ok
}

// CommitIf is commit with a condition that is checked while the lock is held.
func (s *Storage) CommitIf(k *kinds.Kind, key object.Key, old *kinds.Record, next runtime.Object, may func() error) (r *kinds.Record, ok bool, err error) {
	if old != nil && next != nil && equality.Semantic.DeepEqual(old.Obj, next) {
		return old, s.Get(k, key) == old, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.bucket(k)
	i, found := b.find(key)
	if found != (old != nil) || found && b.records[i] != old || b.removed {
		return nil, false, nil
	}
	if err := may(); err != nil {
		return nil, false, err
	}
	return s.write(b, k, key, old, next), true, nil
}

// write stores next as the successor of old, or deletes the object if next is nil. The
// caller must hold the lock.
func (s *Storage) write(b *bucket, k *kinds.Kind, key object.Key, old *kinds.Record, next runtime.Object) (r *kinds.Record) {
	s.version++
	c := change{kind: k.Storage, version: s.version, at: time.Now(), old: old, last: new(atomic.Pointer[kinds.Record])}
	if !k.IsLease() {
		s.changed = c.at
	}
	if next != nil {
		r = kinds.NewRecord(next, s.version)
		// A write that only changes metadata copies the rest from old.
		if k.Schema == k.StorageSchema && (old == nil || old.Schema == k.Schema) {
			r.Schema = k.Schema
		}
		c.current = r
	} else {
		r = c.deleted()
	}
	b.put(key, c.current)
	s.log = append(s.log, c)
	s.held += c.size()
	s.trim()
	s.wake(b)
	return r
}

// Put stores an object at a version or, if that has passed, at the next one; it deletes the object if next is nil. It returns
// what there was before.
func (s *Storage) Put(k *kinds.Kind, key object.Key, next runtime.Object, version uint64) (was runtime.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, old := s.bucket(k), s.Find(k, key)
	if old == nil && next == nil {
		return nil
	}
	before := func(n uint64) {
		if version > s.version+n {
			s.version = version - n
		}
	}
	if old != nil {
		was = old.Obj
		if next != nil && old.Meta.GetUID() != kinds.MetaOf(next).GetUID() {
			before(2)
			s.write(b, k, key, old, nil)
			old = nil
		}
	}
	before(1)
	s.write(b, k, key, old, next)
	return was
}

// Load stores an object at a version without adding a change, or removes it if it is nil. [Storage.Begin] must follow.
func (s *Storage) Load(k *kinds.Kind, key object.Key, obj runtime.Object, version uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var r *kinds.Record
	if obj != nil {
		r = kinds.NewRecord(obj, version)
	}
	s.bucket(k).put(key, r)
}

// Begin sets the version of what was loaded. There is no history before.
func (s *Storage) Begin(version uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(len(s.log))
	for _, b := range s.buckets {
		b.lost = 0
	}
	s.version, s.compacted = version, version
}

// wake notifies the bucket's watchers and everything that waits for a version.
func (s *Storage) wake(b *bucket) {
	for w := range b.watchers {
		w.poke()
	}
	if s.advanced != nil {
		close(s.advanced)
		s.advanced = nil
	}
}

// trim drops changes that exceed the limits of the history, but never the latest one. It
// moves the slice only occasionally, to amortize the cost.
func (s *Storage) trim() {
	over := max(len(s.log)-s.limit, 0)
	held := s.held
	for i := range s.log[:over] {
		held -= s.log[i].size()
	}
	for ; held > s.room && over < len(s.log)-1; over++ {
		held -= s.log[over].size()
	}
	s.drop(over)
}

func (s *Storage) drop(n int) {
	if n <= 0 {
		return
	}
	s.compacted = max(s.compacted, s.log[n-1].version)
	s.dropped += int64(n)
	for i := range s.log[:n] {
		c := &s.log[i]
		b := s.bucket(c.kind)
		b.lost = max(b.lost, c.version)
		s.held -= c.size()
	}
	clear(s.log[:n]) // release the objects
	s.log = s.log[n:]
}

// Compact drops all changes except the last keep.
func (s *Storage) Compact(keep int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(len(s.log) - max(keep, 0))
	if keep <= 0 {
		s.compacted = s.version
	}
}

// Rewind undoes the last changes, reuses their versions and cuts all watches, like a
// restore of etcd from a backup.
func (s *Storage) Rewind(changes int) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.log) - min(max(changes, 0), len(s.log))
	s.undo(n)
	s.version = s.compacted
	if n > 0 {
		s.version = max(s.version, s.log[n-1].version)
	}
	return s.version
}

// undo undoes all changes but the first n, and ends all watches and continue tokens, because versions will
// be used again. The caller must hold the lock.
func (s *Storage) undo(n int) {
	for i := len(s.log) - 1; i >= n; i-- {
		c := &s.log[i]
		s.held -= c.size()
		key := c.key()
		s.bucket(c.kind).put(key, c.old)
	}
	clear(s.log[n:])
	s.log = s.log[:n]
	s.rewinds++
	for _, b := range s.buckets {
		for w := range b.watchers {
			w.cut = true
			w.poke()
		}
	}
}

// Remove deletes all objects of a kind regardless of finalizers and stops serving it. Its
// watches end after these deletions. It returns the last states.
func (s *Storage) Remove(k *kinds.Kind) (removed []*kinds.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.bucket(k)
	for _, r := range slices.Clone(b.records) {
		removed = append(removed, s.write(b, k, r.Key, r, nil))
	}
	b.removed = true
	s.wake(b)
	return removed
}

// Import makes changes as they are at one version, or at the next one for 0: it stores objects of a kind and
// removes keys. Without changes it only advances the version.
func (s *Storage) Import(version uint64, k *kinds.Kind, put []runtime.Object, removed []object.Key) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	version = max(version, s.version+1)
	b := s.bucket(k)
	for _, obj := range put {
		s.version = version - 1
		m := kinds.MetaOf(obj)
		key := object.Key{Namespace: m.GetNamespace(), Name: m.GetName()}
		s.write(b, k, key, s.Find(k, key), obj)
	}
	for _, key := range removed {
		s.version = version - 1
		if old := s.Find(k, key); old != nil {
			s.write(b, k, key, old, nil)
		}
	}
	s.version = version
	s.wake(b)
	return version
}

// Restore makes objects of a kind, with their versions, the only ones of the kind at a version. It undoes the
// later changes of all kinds and cuts all watches, like a restore of etcd from a backup.
func (s *Storage) Restore(version uint64, k *kinds.Kind, objs []runtime.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.log)
	for n > 0 && s.log[n-1].version > version {
		n--
	}
	s.undo(n)
	s.version, s.compacted = version, min(s.compacted, version)
	b := s.bucket(k)
	b.records, b.lost = nil, min(b.lost, version)
	for _, obj := range objs {
		at, err := ParseVersion(kinds.MetaOf(obj).GetResourceVersion())
		if err != nil || at == 0 {
			at = version
		}
		r := kinds.NewRecord(obj, at)
		b.put(r.Key, r)
	}
}

// Now returns the current version.
func (s *Storage) Now() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version
}

// LastChange returns the time of the last change, except of Leases.
func (s *Storage) LastChange() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// Ago returns the version that was the latest some time ago, as far as the history reaches.
func (s *Storage) Ago(d time.Duration) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.findAgo(d)
}

// findAgo is Ago for callers that hold the lock.
func (s *Storage) findAgo(d time.Duration) uint64 {
	then := time.Now().Add(-d)
	for i := len(s.log) - 1; i >= 0; i-- {
		if !s.log[i].at.After(then) {
			return s.log[i].version
		}
	}
	return s.compacted
}

// awaits returns nil if the version has been reached, or a channel that is closed when to
// check again.
func (s *Storage) awaits(version uint64) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if version <= s.version {
		return nil
	}
	if s.advanced == nil {
		s.advanced = make(chan struct{})
	}
	return s.advanced
}

// History returns the number of rewinds.
func (s *Storage) History() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rewinds
}
