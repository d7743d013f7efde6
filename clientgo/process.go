package clientgo

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/store"
)

// batch is what the batch at hand says, in memory that is used again.
type batch struct {
	notes  []note
	syncs  bool  // one of the notes is a sync
	quiet  bool  // there is a handler that is not told of syncs
	failed error // of an index function
}

// apply applies a batch to the store and tells the handlers. It returns an error of an
// index function; and one that says that the list must be made again, because something
// that it took for held is gone.
func (inf *informer) apply(f *feed) (lost, failed error) {
	inf.deltas.Lock()
	defer inf.deltas.Unlock()
	t := &inf.batch
	t.quiet = slices.ContainsFunc(inf.listeners, func(l *listener) bool { return !l.syncing })
	lost = inf.write(f)
	inf.tell()
	failed = t.failed
	t.notes, t.syncs, t.failed = recycle(t.notes), false, nil
	return lost, failed
}

// write applies a batch to the store and notes what it says.
func (inf *informer) write(f *feed) (lost error) {
	s := inf.indexer.threadSafe
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(f.changes) > 1 {
		s.batches.Add(1)
		defer s.batches.Add(1)
	}
	for i := range f.changes {
		switch c := &f.changes[i]; {
		case c.list != nil:
			if err := inf.replace(c.list, !f.synced); err != nil {
				lost = err
			}
			f.synced = true
		case c.deleted:
			inf.remove(c)
		default:
			inf.put(c.record)
		}
	}
	if f.version.Known() {
		s.moved(string(f.version))
	}
	return lost
}

// recycle empties a slice for use again, unless that would hold much memory.
func recycle[E any](s []E) []E {
	if cap(s) > 1<<14 {
		return nil
	}
	clear(s)
	return s[:0]
}

// put stores an object. The caller has the store's lock, here and below.
func (inf *informer) put(r record) {
	c, key, obj := inf.indexer.contents.Load(), inf.indexer.textOf(r.key), r.obj
	at := c.objects.find(key)
	if at == nil {
		inf.complain(c.put(strings.Clone(key), obj))
		inf.note(note{kind: added, new: obj})
		return
	}
	key = at.key // which may be kept
	old := at.load()
	inf.complain(c.update(at, obj, true))
	inf.noteUpdate(key, old, obj)
}

// remove takes out what is deleted. The deletion of something that is not there is told as
// well, unless all that is known of it is its key.
func (inf *informer) remove(gone *change) {
	c := inf.indexer.contents.Load()
	at := c.objects.find(inf.indexer.textOf(gone.key))
	switch {
	case gone.obj != nil:
		inf.note(note{kind: deleted, old: gone.obj})
	case at != nil:
		inf.noteGone(at.key, at.load())
	}
	if at != nil {
		c.remove(at)
	}
}

// complain notes that an index function failed.
func (inf *informer) complain(err error) {
	if err != nil {
		inf.batch.failed = err
	}
}

// replace has the store hold what a list has, and notes what that says: first what is
// gone, then what there is.
//
// An item that was not decoded, because it is held, stands for the object that is; of one
// that could not be, what is held stays. The error is about an item that was to be held and
// is not: the program has written to the store.
func (inf *informer) replace(list *object.List[record], initial bool) (lost error) {
	s, from := inf.indexer.threadSafe, len(inf.batch.notes)
	was := s.contents.Load()
	is := was.empty(len(list.Items))
	for i := range list.Items {
		item := &list.Items[i]
		key := item.Key
		if item.Object.obj != nil {
			key = item.Object.key // a transform may have renamed it
		}
		text := s.textOf(key)
		at := was.objects.find(text)
		switch {
		case item.Err == nil && !item.Held:
			if at != nil {
				text = at.key
			} else {
				text = strings.Clone(text)
			}
			inf.replaceOne(was, is, text, item.Object.obj, initial)
			continue
		case item.Err == nil && at != nil && sameVersion(at.load(), item.UID, item.Version):
			inf.replaceOne(was, is, at.key, at.load(), initial)
			continue
		case item.Err == nil:
			lost = fmt.Errorf("%v: %w", key, store.ErrNotHeld)
		}
		if at != nil && is.objects.find(at.key) == nil {
			inf.complain(is.put(at.key, at.load()))
		}
	}
	s.contents.Store(is)

	items := slices.Clone(inf.batch.notes[from:])
	inf.batch.notes = inf.batch.notes[:from]
	for _, e := range was.all.who {
		if at := e.slot; is.objects.find(at.key) == nil {
			inf.noteGone(at.key, at.load())
		}
	}
	inf.batch.notes = append(inf.batch.notes, items...)
	return lost
}

// replaceOne stores an object of a list, which may have a key twice.
func (inf *informer) replaceOne(was, is *contents, key string, obj any, initial bool) {
	old := is.objects.find(key)
	if old == nil {
		old = was.objects.find(key)
	}
	if old == nil {
		inf.note(note{kind: added, new: obj, initial: initial})
	} else {
		inf.noteUpdate(key, old.load(), obj)
	}
	inf.complain(is.put(key, obj))
}

// sameVersion reports whether an object is certainly of this UID and version.
func sameVersion(obj any, uid object.UID, version object.Version) bool {
	m, err := meta.Accessor(obj)
	return err == nil && uid != "" && m.GetUID() == uid && version.Known() && m.GetResourceVersion() == string(version)
}

func (inf *informer) noteGone(key string, last any) {
	inf.note(note{kind: deleted, old: cache.DeletedFinalStateUnknown{Key: key, Obj: last}})
}

func (inf *informer) noteUpdate(key string, old, new any) {
	b := &inf.behaviour
	if b.OnlyChanges || b.SplitLives {
		was, err1 := meta.Accessor(old)
		is, err2 := meta.Accessor(new)
		if err1 == nil && err2 == nil && was.GetUID() != "" && is.GetUID() != "" {
			if same := was.GetUID() == is.GetUID(); b.SplitLives && !same {
				inf.noteGone(key, old)
				inf.note(note{kind: added, new: new})
				return
			} else if b.OnlyChanges && same && is.GetResourceVersion() == was.GetResourceVersion() {
				return
			}
		}
	}
	inf.note(note{kind: updated, old: old, new: new, sync: inf.batch.quiet && sameText(old, new)})
}

// sameText reports whether two objects have the same version, which makes an update one
// that only handlers hear of that are due for a resync.
func sameText(old, new any) bool {
	was, ok1 := old.(metav1.Object)
	is, ok2 := new.(metav1.Object)
	return ok1 && ok2 && was.GetResourceVersion() == is.GetResourceVersion()
}

func (inf *informer) note(n note) {
	t := &inf.batch
	t.notes = append(t.notes, n)
	t.syncs = t.syncs || n.sync
	if n.kind != deleted {
		inf.detector.AddObject(n.new)
	}
}

// tell appends the notes to the queue of every handler.
func (inf *informer) tell() {
	t := &inf.batch
	if len(t.notes) == 0 {
		return
	}
	for _, l := range inf.listeners {
		l.add(t.notes, t.syncs)
	}
}

// resync tells handlers that are due the whole state again.
func (inf *informer) resync() {
	inf.deltas.Lock()
	defer inf.deltas.Unlock()
	t := &inf.batch
	for _, c := range inf.indexer.everythingOnce() {
		for _, obj := range c.objs {
			_, isObject := obj.(metav1.Object)
			inf.note(note{kind: updated, old: obj, new: obj, sync: isObject})
		}
	}
	inf.tell()
	t.notes, t.syncs = recycle(t.notes), false
}
