package clientgo

import (
	"context"
	"fmt"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/tarnproject/tarn/object"
)

// change is what a source says of one object, or of all.
type change struct {
	record
	deleted bool
	unknown bool                 // of what is deleted, nothing is known but its key
	list    *object.List[record] // of all; nothing else is set then
}

// feed is the end of an informer that its reflector feeds, in the reflector's goroutine.
// What arrived together is applied together.
type feed struct {
	inf     *informer
	ctx     context.Context // of the run
	at      standing
	moved   bool // since the last Flush
	synced  bool // the first list has been applied
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
	f.moved = f.at.event(c.obj) || f.moved
	return nil
}

// DeleteUnknown implements reflector.Sink.
func (f *feed) DeleteUnknown(t object.Tombstone[record]) error {
	f.changes = append(f.changes, change{record: record{key: t.Key}, deleted: true, unknown: true})
	return nil
}

// Replace implements reflector.Sink.
func (f *feed) Replace(list object.List[record]) error {
	f.changes = append(f.changes, change{list: &list})
	f.at.Mark, f.moved = list.Mark, true
	return nil
}

// Bookmark implements reflector.Sink.
func (f *feed) Bookmark(mark object.Mark) error {
	f.moved = f.at.bookmark(mark) || f.moved
	return nil
}

// Resync implements reflector.Sink; the informer does so by itself.
func (f *feed) Resync() error { return nil }

// Held implements reflector.Sink.
func (f *feed) Held(key object.Key, uid object.UID, version object.Version) bool {
	obj, ok := f.inf.indexer.getKey(key)
	return ok && sameVersion(obj, uid, version)
}

// Flush implements reflector.Flusher: it applies what has come.
func (f *feed) Flush() {
	if len(f.changes) == 0 && !f.moved {
		return
	}
	inf, synced := f.inf, f.synced
	done := inf.metrics.processing(len(f.changes))
	lost, failed := inf.apply(f)
	done()
	if f.synced && !synced {
		close(inf.synced)
	}
	f.changes, f.moved = recycle(f.changes), false
	if failed != nil {
		// A mirror cannot refuse what the server has, nor end the program for it.
		utilruntime.HandleErrorWithContext(f.ctx, failed, "Unable to index an object of the informer", "type", fmt.Sprintf("%T", inf.example))
	}
	if lost != nil {
		inf.reflector.Relist(lost)
	}
}

// standing is up to where a sink has been told everything. It goes back with a list only.
type standing struct{ object.Mark }

// event moves it to the version of an object, and reports whether that is later.
func (s *standing) event(obj any) bool {
	v := object.Version(versionOf(obj))
	if !v.Known() || v.NotAfter(s.Version) {
		return false
	}
	s.Version = v
	return true
}

// bookmark moves it to where a bookmark says, and reports whether that is later.
func (s *standing) bookmark(to object.Mark) bool {
	if !to.Version.Known() || to.Epoch < s.Epoch || to.Epoch == s.Epoch && to.Version.NotAfter(s.Version) {
		return false
	}
	s.Mark = to
	return true
}
