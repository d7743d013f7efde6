package clientgo

import (
	"context"
	"fmt"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/tarnproject/tarn/object"
)

// change is what a source says of one object, or of all.
type change struct {
	record  // without an object where nothing is known of what is deleted but its key
	deleted bool
	list    *object.List[record] // of all; nothing else is set then
}

// feed is the end of an informer that its reflector feeds, in the reflector's goroutine.
// What arrived together is applied together.
type feed struct {
	inf     *informer
	ctx     context.Context // of the run
	version object.Version  // at the last Flush
	synced  bool            // the first list has been applied
	changes []change
}

// Add implements reflector.Sink.
func (f *feed) Add(r record) error { return f.queue(change{record: r}) }

// Update implements reflector.Sink.
func (f *feed) Update(r record) error { return f.queue(change{record: r}) }

// Delete implements reflector.Sink. The deletion of something unknown is told as well, as
// in client-go.
func (f *feed) Delete(r record) error { return f.queue(change{record: r, deleted: true}) }

func (f *feed) queue(c change) error {
	f.changes = append(f.changes, c)
	return nil
}

// DeleteUnknown implements reflector.Sink.
func (f *feed) DeleteUnknown(t object.Tombstone[record]) error {
	return f.queue(change{record: record{key: t.Key}, deleted: true})
}

// Replace implements reflector.Sink.
func (f *feed) Replace(list object.List[record]) error {
	return f.queue(change{list: &list})
}

// Bookmark implements reflector.Sink; Flush is told the same.
func (f *feed) Bookmark(object.Mark) error { return nil }

// Resync implements reflector.Sink; the informer does so by itself.
func (f *feed) Resync() error { return nil }

// Held implements reflector.Sink.
func (f *feed) Held(key object.Key, uid object.UID, version object.Version) bool {
	obj, ok := f.inf.indexer.getKey(key)
	return ok && sameVersion(obj, uid, version)
}

// HeldBy implements reflector.Sink. What has come and is not applied yet decides before the
// indexer does.
func (f *feed) HeldBy(key object.Key, uid object.UID, version object.Version) bool {
	for i := len(f.changes) - 1; i >= 0; i-- {
		switch c := &f.changes[i]; {
		case c.list != nil:
			return false
		case c.key == key:
			return !c.deleted && sameLifeUpTo(c.obj, uid, version)
		}
	}
	obj, ok := f.inf.indexer.getKey(key)
	return ok && sameLifeUpTo(obj, uid, version)
}

// Flush implements reflector.Flusher: it applies what has come.
func (f *feed) Flush(mark object.Mark) {
	if len(f.changes) == 0 && mark.Version == f.version {
		return
	}
	f.version = mark.Version
	inf, synced := f.inf, f.synced
	done := inf.metrics.processing(len(f.changes))
	lost, failed := inf.apply(f)
	done()
	if f.synced && !synced {
		close(inf.synced)
	}
	f.changes = recycle(f.changes)
	if failed != nil {
		// A mirror cannot refuse what the server has, nor end the program for it.
		utilruntime.HandleErrorWithContext(f.ctx, failed, "Unable to index an object of the informer", "type", fmt.Sprintf("%T", inf.example))
	}
	if lost != nil {
		inf.reflector.Relist(lost)
	}
}
