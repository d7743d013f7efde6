package apiserver

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/tarnproject/tarn/object"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
)

// firstVersion is that of an empty server: versions change their length early on.
const firstVersion = 9

// storage holds the objects of all kinds, one version for all of them, and the last
// changes. Writers read a record, make its successor without a lock, and commit it if the
// record is still the newest; everything else happens under one lock, shortly.
//
// The history is a single ring for all kinds, as etcd's is: a quiet resource is
// compacted away under its watchers by the noise of another, unless they take bookmarks.
type storage struct {
	limit int  // changes kept
	room  int  // bytes of their objects kept
	old   bool // answers as an old server

	mu      sync.Mutex // guards everything below
	version uint64
	// compacted is the oldest version at which a watch or an exact list may begin.
	compacted uint64
	log       []change
	held      int   // bytes of the objects of log
	dropped   int64 // changes before the first of log, ever
	buckets   map[*kind]*bucket
	rewinds   int
	// advanced is closed when the version moves, if somebody waits for it.
	advanced chan struct{}
}

// bucket holds the objects of one kind.
type bucket struct {
	records  []*record // by key
	watchers map[*watcher]struct{}
	removed  bool // the kind is no longer served
	// lost is the version of the newest change of this kind that the history dropped.
	lost uint64
}

func newStorage(limit, room int, old bool) *storage {
	return &storage{limit: limit, room: room, old: old, version: firstVersion, compacted: firstVersion, buckets: map[*kind]*bucket{}}
}

func (s *storage) bucket(k *kind) *bucket {
	b := s.buckets[k.home]
	if b == nil {
		b = &bucket{watchers: map[*watcher]struct{}{}}
		s.buckets[k.home] = b
	}
	return b
}

func (b *bucket) find(key object.Key) (int, bool) {
	return slices.BinarySearchFunc(b.records, key, func(r *record, key object.Key) int { return r.key.Compare(key) })
}

// put sets or removes the record of a key.
func (b *bucket) put(key object.Key, r *record) {
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

// get returns the newest record of a key, nil if there is none.
func (s *storage) get(k *kind, key object.Key) *record {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.find(k, key)
}

// find is get with the lock held.
func (s *storage) find(k *kind, key object.Key) *record {
	b := s.bucket(k)
	if i, found := b.find(key); found {
		return b.records[i]
	}
	return nil
}

// all returns the newest records of a kind, in one namespace or everywhere.
func (s *storage) all(k *kind, namespace string) []*record {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*record
	for _, r := range s.bucket(k).records {
		if namespace == "" || r.key.Namespace == namespace {
			out = append(out, r)
		}
	}
	return out
}

// commit makes next the successor of old, if old is still the newest record of the key:
// nil for a creation. A nil next removes the object. A next that says the same as old
// changes nothing and takes no version. The returned record of a removal is the last
// state with the version of the removal.
func (s *storage) commit(k *kind, key object.Key, old *record, next runtime.Object) (r *record, ok bool) {
	r, ok, _ = s.commitIf(k, key, old, next, func() error { return nil })
	return r, ok
}

// commitIf is commit on a condition, which is checked with the lock held.
func (s *storage) commitIf(k *kind, key object.Key, old *record, next runtime.Object, may func() error) (r *record, ok bool, err error) {
	if old != nil && next != nil && equality.Semantic.DeepEqual(old.obj, next) {
		return old, s.get(k, key) == old, nil
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

// write makes next the successor of old, or removes the object for a nil next. The lock
// must be held.
func (s *storage) write(b *bucket, k *kind, key object.Key, old *record, next runtime.Object) (r *record) {
	s.version++
	c := change{kind: k.home, version: s.version, old: old, last: new(atomic.Pointer[record])}
	if next != nil {
		r = newRecord(next, s.version)
		c.current = r
	} else {
		r = c.gone()
	}
	b.put(key, c.current)
	s.log = append(s.log, c)
	s.held += c.size()
	s.trim()
	s.wake(b)
	return r
}

// wake tells those who wait for a change.
func (s *storage) wake(b *bucket) {
	for w := range b.watchers {
		w.poke()
	}
	if s.advanced != nil {
		close(s.advanced)
		s.advanced = nil
	}
}

// trim drops what the history may no longer hold, by count or by bytes, except the
// newest change. The slice is moved only now and then.
func (s *storage) trim() {
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

func (s *storage) drop(n int) {
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
	clear(s.log[:n]) // let go of the objects
	s.log = s.log[n:]
}

// compact forgets all changes but the last few.
func (s *storage) compact(keep int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(len(s.log) - max(keep, 0))
	if keep <= 0 {
		s.compacted = s.version
	}
}

// rewind undoes the last changes and takes their versions back, as a restore of etcd from
// a backup does, and cuts all watches.
func (s *storage) rewind(changes int) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.log) - min(max(changes, 0), len(s.log))
	for i := len(s.log) - 1; i >= n; i-- {
		c := &s.log[i]
		s.held -= c.size()
		key := c.key()
		s.bucket(c.kind).put(key, c.old)
	}
	clear(s.log[n:])
	s.log = s.log[:n]
	s.version = s.compacted
	if n > 0 {
		s.version = max(s.version, s.log[n-1].version)
	}
	s.rewinds++
	for _, b := range s.buckets {
		for w := range b.watchers {
			w.cut = true
			w.poke()
		}
	}
	return s.version
}

func (c *change) key() object.Key {
	if c.current != nil {
		return c.current.key
	}
	return c.old.key
}

// remove deletes the objects of a kind, whatever their finalizers say, and stops serving
// it: its watches end after the events of these deletions. It returns the last states.
func (s *storage) remove(k *kind) (gone []*record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.bucket(k)
	for _, r := range slices.Clone(b.records) {
		gone = append(gone, s.write(b, k, r.key, r, nil))
	}
	b.removed = true
	s.wake(b)
	return gone
}

// now returns the newest version.
func (s *storage) now() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version
}

// awaits returns nil once the version has been reached, or a channel that is closed when
// to ask again.
func (s *storage) awaits(version uint64) <-chan struct{} {
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

// history counts the rewinds.
func (s *storage) history() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rewinds
}
