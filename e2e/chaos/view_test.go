package chaos

import (
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/object"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// view is the state that one subscriber derives from its changes, and what is invalid about
// them.
type view[T metav1.Object] struct {
	name string
	// clientGo allows what client-go's handlers receive beyond Tarn's: an update to the
	// very same version, and one to another object of the same name.
	clientGo bool
	// flagged: an update across a rewind says that it is one.
	flagged bool
	// rewinds is how often the server's history was restored: the versions of a key
	// may go back at most as often.
	rewinds *atomic.Int64

	mu     sync.Mutex // guards what follows
	held   map[object.Key]T
	last   map[object.Key]uint64 // the newest version of a key in its epoch, deleted or not
	backs  map[object.Key]int64  // how often that went back
	events int
	wrong  []string
}

func newView[T metav1.Object](name string, rewinds *atomic.Int64) *view[T] {
	return &view[T]{name: name, rewinds: rewinds, held: map[object.Key]T{}, last: map[object.Key]uint64{}, backs: map[object.Key]int64{}}
}

// change is what a subscriber receives.
type change[T any] struct {
	kind             object.Kind
	unknown, rewound bool
	old, now         T
}

func changeOf[T any](e informer.Event[T]) change[T] {
	return change[T]{e.Kind, e.Unknown, e.Rewound, e.Old(), e.New()}
}

// take takes a change in.
func (v *view[T]) take(c change[T]) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.events++
	kind, unknown, old, now := c.kind, c.unknown, c.old, c.now
	key := object.Key{Namespace: now.GetNamespace(), Name: now.GetName()}
	before, known := v.held[key]
	version, err := strconv.ParseUint(now.GetResourceVersion(), 10, 64)
	if err != nil {
		v.report(key, "%s: %v", kind, err)
		return
	}
	same := known && before.GetResourceVersion() == now.GetResourceVersion()
	// An unobserved deletion repeats the last state; everything else is new.
	if news := version > v.last[key]; !news && !(kind == object.Deleted && unknown) && !(v.clientGo && same) {
		v.back(key, c, version)
	}
	if c.rewound && v.rewinds.Load() == 0 {
		v.report(key, "%s at %d across a rewind that was none", kind, version)
	}
	switch kind {
	case object.Added:
		if known {
			v.report(key, "added at %d, but it is there at %s", version, before.GetResourceVersion())
		}
		v.held[key] = now
	case object.Updated:
		switch {
		case !known:
			v.report(key, "updated to %d, but it is not there", version)
		case old.GetResourceVersion() != before.GetResourceVersion():
			v.report(key, "updated from %s, but it is there at %s", old.GetResourceVersion(), before.GetResourceVersion())
		case old.GetUID() != now.GetUID() && !v.clientGo:
			v.report(key, "updated to another UID at %d", version)
		}
		v.held[key] = now
	case object.Deleted:
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
		v.report(key, "received a %s that was not requested", kind)
	}
	v.last[key] = max(v.last[key], version)
}

// back notes a version that is not after the last. That may be once for each time that the
// server's history was restored, and an update must say so. v.mu is held.
func (v *view[T]) back(key object.Key, c change[T], version uint64) {
	allowed := c.kind == object.Added || c.kind == object.Updated && (c.rewound || !v.flagged)
	if !allowed || v.backs[key] == v.rewinds.Load() {
		v.report(key, "%s at %d after %d", c.kind, version, v.last[key])
		return
	}
	v.backs[key]++
	v.last[key] = version
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

func TestAViewReportsInvalidHistories(t *testing.T) {
	type thing = *metav1.PartialObjectMetadata
	at := func(uid, version string) thing {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: types.UID(uid), ResourceVersion: version}}
	}
	add := func(uid, version string) change[thing] {
		return change[thing]{kind: object.Added, now: at(uid, version)}
	}
	update := func(old, now string) change[thing] {
		return change[thing]{kind: object.Updated, old: at("u", old), now: at("u", now)}
	}
	rewound := func(old, now string) change[thing] {
		return change[thing]{kind: object.Updated, rewound: true, old: at("u", old), now: at("u", now)}
	}
	remove := func(uid, version string, unknown bool) change[thing] {
		return change[thing]{kind: object.Deleted, unknown: unknown, old: at(uid, version), now: at(uid, version)}
	}
	for name, c := range map[string]struct {
		steps     []change[thing]
		clientGo  bool
		unflagged bool
		rewinds   int64
		wrong     int
	}{
		"a life":                  {steps: []change[thing]{add("u", "1"), update("1", "3"), remove("u", "4", false), add("w", "5")}},
		"a deletion unseen":       {steps: []change[thing]{add("u", "1"), remove("u", "1", true), add("w", "5")}},
		"added twice":             {steps: []change[thing]{add("u", "1"), add("u", "2")}, wrong: 1},
		"unknown update":          {steps: []change[thing]{update("1", "2")}, wrong: 1},
		"unknown deletion":        {steps: []change[thing]{remove("u", "1", false)}, wrong: 1},
		"a gap":                   {steps: []change[thing]{add("u", "1"), update("2", "3")}, wrong: 1},
		"back in time":            {steps: []change[thing]{add("u", "5"), update("5", "4")}, wrong: 1},
		"the same again":          {steps: []change[thing]{add("u", "5"), update("5", "5")}, wrong: 1},
		"the same for client-go":  {steps: []change[thing]{add("u", "5"), update("5", "5")}, clientGo: true},
		"revived":                 {steps: []change[thing]{add("u", "1"), remove("u", "4", false), add("u", "3")}, wrong: 1},
		"deleted at its version":  {steps: []change[thing]{add("u", "1"), remove("u", "1", false)}, wrong: 1},
		"another one deleted":     {steps: []change[thing]{add("u", "1"), remove("w", "2", false)}, wrong: 1},
		"another last state":      {steps: []change[thing]{add("u", "1"), remove("u", "2", true)}, wrong: 1},
		"an unrequested resync":   {steps: []change[thing]{add("u", "1"), {kind: object.Synced, old: at("u", "1"), now: at("u", "2")}}, wrong: 1},
		"no version":              {steps: []change[thing]{add("u", "")}, wrong: 1},
		"another UID as update":   {steps: []change[thing]{add("u", "1"), {kind: object.Updated, old: at("u", "1"), now: at("w", "2")}}, wrong: 1},
		"another UID, client-go":  {steps: []change[thing]{add("u", "1"), {kind: object.Updated, old: at("u", "1"), now: at("w", "2")}}, clientGo: true},
		"back in time, client-go": {steps: []change[thing]{add("u", "5"), update("5", "4")}, clientGo: true, wrong: 1},

		"rewound":                  {steps: []change[thing]{add("u", "5"), rewound("5", "2"), update("2", "3")}, rewinds: 1},
		"revived by a rewind":      {steps: []change[thing]{add("u", "1"), remove("u", "4", false), add("u", "3")}, rewinds: 1},
		"rewound without the flag": {steps: []change[thing]{add("u", "5"), update("5", "2")}, rewinds: 1, wrong: 1},
		"rewound for a handler":    {steps: []change[thing]{add("u", "5"), update("5", "2")}, rewinds: 1, unflagged: true},
		"rewound without cause":    {steps: []change[thing]{add("u", "1"), rewound("1", "2")}, wrong: 1},
		"back once too often":      {steps: []change[thing]{add("u", "5"), rewound("5", "2"), rewound("2", "1")}, rewinds: 1, wrong: 1},
		"back in the new epoch":    {steps: []change[thing]{add("u", "5"), rewound("5", "2"), update("2", "1")}, rewinds: 2, wrong: 1},
		"deleted in the past":      {steps: []change[thing]{add("u", "5"), remove("u", "4", false)}, rewinds: 1, wrong: 1},
		"rewound twice":            {steps: []change[thing]{add("u", "5"), rewound("5", "2"), update("2", "6"), rewound("6", "3")}, rewinds: 2},
	} {
		var rewinds atomic.Int64
		rewinds.Store(c.rewinds)
		v := newView[thing](name, &rewinds)
		v.clientGo, v.flagged = c.clientGo, !c.unflagged
		for _, s := range c.steps {
			v.take(s)
		}
		if _, wrong := v.found(); len(wrong) != c.wrong {
			t.Errorf("%s: found %q; want %d", name, wrong, c.wrong)
		}
	}
}
