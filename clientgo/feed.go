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
	version object.Version  // at the last flush
	synced  bool            // the first list has been applied
	changes []change
}

// Apply implements object.Sink: it applies what has come. The deletion of an unknown object
// is reported as well, as in client-go.
func (f *feed) Apply(b *object.Batch[record]) error {
	for i := range b.Changes {
		c := &b.Changes[i]
		queued := change{record: c.Value.Object, deleted: c.Kind == object.Deleted, list: c.List}
		if c.Unknown {
			queued.record = record{key: c.Key}
		}
		f.changes = append(f.changes, queued)
	}
	for _, m := range b.Marks {
		f.flush(seen(b, m))
	}
	return nil
}

// seen returns a batch's mark as client-go counts: at the version of the last event, even if
// other deletions may share it (object.Reach).
func seen(b *object.Batch[record], m object.Mark) object.Mark {
	if n := len(b.Changes); n > 0 {
		if v := b.Changes[n-1].Version; v.Known() && !v.NotAfter(m.Version) {
			m.Version = v
		}
	}
	return m
}

// Held implements object.Sink.
func (f *feed) Held(key object.Key, uid object.UID, version object.Version) bool {
	obj, ok := f.inf.indexer.getKey(key)
	return ok && sameVersion(obj, uid, version)
}

// flush applies what has come, up to the mark.
func (f *feed) flush(mark object.Mark) {
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
