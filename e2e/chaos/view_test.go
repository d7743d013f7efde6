package chaos

import (
	"fmt"
	"strconv"
	"sync"
	"testing"

	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/store"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// view is what one subscriber makes of the changes that it is told, and what about them
// cannot be.
type view[T metav1.Object] struct {
	name string
	// clientGo allows what client-go's handlers are told beyond Tarn's: an update to the
	// very same version, and one to another object of the same name.
	clientGo bool

	mu     sync.Mutex // guards what follows
	held   map[object.Key]T
	last   map[object.Key]uint64 // the newest version that was told of a key, deleted or not
	events int
	wrong  []string
}

func newView[T metav1.Object](name string) *view[T] {
	return &view[T]{name: name, held: map[object.Key]T{}, last: map[object.Key]uint64{}}
}

// event takes a change in.
func (v *view[T]) event(e informer.Event[T]) {
	v.take(e.Kind, e.Unknown, e.Old(), e.New())
}

func (v *view[T]) take(kind store.Kind, unknown bool, old, now T) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.events++
	key := object.Key{Namespace: now.GetNamespace(), Name: now.GetName()}
	before, known := v.held[key]
	version, err := strconv.ParseUint(now.GetResourceVersion(), 10, 64)
	if err != nil {
		v.report(key, "%s: %v", kind, err)
		return
	}
	same := known && before.GetResourceVersion() == now.GetResourceVersion()
	// A deletion that nobody saw tells the last state again; all else is news.
	if news := version > v.last[key]; !news && !(kind == store.Deleted && unknown) && !(v.clientGo && same) {
		v.report(key, "%s at %d after %d", kind, version, v.last[key])
	}
	switch kind {
	case store.Added:
		if known {
			v.report(key, "added at %d, but it is there at %s", version, before.GetResourceVersion())
		}
		v.held[key] = now
	case store.Updated:
		switch {
		case !known:
			v.report(key, "updated to %d, but it is not there", version)
		case old.GetResourceVersion() != before.GetResourceVersion():
			v.report(key, "updated from %s, but it is there at %s", old.GetResourceVersion(), before.GetResourceVersion())
		case old.GetUID() != now.GetUID() && !v.clientGo:
			v.report(key, "updated to another UID at %d", version)
		}
		v.held[key] = now
	case store.Deleted:
		switch {
		case !known:
			v.report(key, "deleted at %d, but it is not there", version)
		case before.GetUID() != now.GetUID():
			v.report(key, "deleted at %d with another UID", version)
		case unknown && !same:
			v.report(key, "its last known state is said to be %d, but it is there at %s", version, before.GetResourceVersion())
		}
		delete(v.held, key)
	default:
		v.report(key, "told of a %s that nobody asked for", kind)
	}
	v.last[key] = max(v.last[key], version)
}

// report notes what cannot be; the first few are enough. v.mu is held.
func (v *view[T]) report(key object.Key, format string, args ...any) {
	if len(v.wrong) < 10 {
		v.wrong = append(v.wrong, fmt.Sprintf("%s: event %d: %s: %s", v.name, v.events, key, fmt.Sprintf(format, args...)))
	}
}

// state returns the objects as the subscriber knows them.
func (v *view[T]) state() []T {
	v.mu.Lock()
	defer v.mu.Unlock()
	all := make([]T, 0, len(v.held))
	for _, obj := range v.held {
		all = append(all, obj)
	}
	return all
}

// found returns how many changes there were, and what was wrong with them.
func (v *view[T]) found() (events int, wrong []string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.events, v.wrong
}

func TestAViewNoticesWhatCannotBe(t *testing.T) {
	thing := func(uid, version string) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: types.UID(uid), ResourceVersion: version}}
	}
	type step struct {
		kind     store.Kind
		unknown  bool
		old, now *metav1.PartialObjectMetadata
	}
	add := func(uid, version string) step { return step{kind: store.Added, now: thing(uid, version)} }
	update := func(old, now string) step {
		return step{kind: store.Updated, old: thing("u", old), now: thing("u", now)}
	}
	remove := func(uid, version string, unknown bool) step {
		return step{kind: store.Deleted, unknown: unknown, old: thing(uid, version), now: thing(uid, version)}
	}
	for name, c := range map[string]struct {
		steps    []step
		clientGo bool
		wrong    int
	}{
		"a life":                  {steps: []step{add("u", "1"), update("1", "3"), remove("u", "4", false), add("w", "5")}},
		"a deletion unseen":       {steps: []step{add("u", "1"), remove("u", "1", true), add("w", "5")}},
		"added twice":             {steps: []step{add("u", "1"), add("u", "2")}, wrong: 1},
		"unknown update":          {steps: []step{update("1", "2")}, wrong: 1},
		"unknown deletion":        {steps: []step{remove("u", "1", false)}, wrong: 1},
		"a gap":                   {steps: []step{add("u", "1"), update("2", "3")}, wrong: 1},
		"back in time":            {steps: []step{add("u", "5"), update("5", "4")}, wrong: 1},
		"the same again":          {steps: []step{add("u", "5"), update("5", "5")}, wrong: 1},
		"the same for client-go":  {steps: []step{add("u", "5"), update("5", "5")}, clientGo: true},
		"revived":                 {steps: []step{add("u", "1"), remove("u", "4", false), add("u", "3")}, wrong: 1},
		"deleted at its version":  {steps: []step{add("u", "1"), remove("u", "1", false)}, wrong: 1},
		"another one deleted":     {steps: []step{add("u", "1"), remove("w", "2", false)}, wrong: 1},
		"another last state":      {steps: []step{add("u", "1"), remove("u", "2", true)}, wrong: 1},
		"a resync nobody wants":   {steps: []step{add("u", "1"), {kind: store.Resynced, old: thing("u", "1"), now: thing("u", "2")}}, wrong: 1},
		"no version":              {steps: []step{add("u", "")}, wrong: 1},
		"another UID as update":   {steps: []step{add("u", "1"), {kind: store.Updated, old: thing("u", "1"), now: thing("w", "2")}}, wrong: 1},
		"another UID, client-go":  {steps: []step{add("u", "1"), {kind: store.Updated, old: thing("u", "1"), now: thing("w", "2")}}, clientGo: true},
		"back in time, client-go": {steps: []step{add("u", "5"), update("5", "4")}, clientGo: true, wrong: 1},
	} {
		v := newView[*metav1.PartialObjectMetadata](name)
		v.clientGo = c.clientGo
		for _, s := range c.steps {
			v.take(s.kind, s.unknown, s.old, s.now)
		}
		if _, wrong := v.found(); len(wrong) != c.wrong {
			t.Errorf("%s: found %q; want %d", name, wrong, c.wrong)
		}
	}
}
