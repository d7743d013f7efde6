package sim

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"

	"github.com/tarnproject/tarn/object"
)

// View is what a subscriber knows from its events alone. It notes the first event that
// makes no sense: an addition of what it has, an update or a deletion of what it has not
// or has otherwise, a version that goes back within one history. It may be used from any
// goroutine.
type View struct {
	name   string
	server *Server
	trace  *Trace

	mu     sync.Mutex // guards everything below
	has    map[object.Key]*Thing
	floors map[object.Key]floor
	events int
	err    error
}

// floor is the newest state of a key that was seen: nothing older may come, unless from
// a later history.
type floor struct {
	version uint64
	history int
}

// NewView makes the view of a subscriber that knows nothing.
func NewView(name string, server *Server, trace *Trace) *View {
	return &View{name: name, server: server, trace: trace,
		has: map[object.Key]*Thing{}, floors: map[object.Key]floor{}}
}

// Add takes in that an object came to be.
func (v *View) Add(t *Thing) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.note("add %v", t)
	if held := v.has[t.key()]; held != nil {
		v.wrong("add of %v, which it knows as %v", t, held)
	}
	// What is listed again after a deletion that was a mistake (404 for a while) has the
	// version it had.
	v.raise(t, true)
	v.has[t.key()] = t
}

// Update takes in that an object changed, or, if resync, that it did not.
func (v *View) Update(old, t *Thing, resync bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.note("update %v to %v, resync %v", old, t, resync)
	held := v.has[t.key()]
	switch {
	case held == nil:
		v.wrong("update of %v, which it does not know", t)
	case old == nil || !held.same(old):
		v.wrong("update from %v, but it knows %v", old, held)
	case held.UID != t.UID:
		v.wrong("update from %v to another object %v", held, t)
	case resync && !held.same(t):
		v.wrong("resync of %v, but it knows %v", t, held)
	case !resync:
		// One that was caught up may receive an update without a change, if the object was deleted and
		// came back in between.
		v.raise(t, held.same(t))
	}
	v.has[t.key()] = t
}

// Delete records a deletion; unknown means that last is not the final state.
func (v *View) Delete(last *Thing, unknown bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.note("delete %v, unknown %v", last, unknown)
	held := v.has[last.key()]
	switch {
	case held == nil:
		v.wrong("delete of %v, which it does not know", last)
	case held.UID != last.UID:
		v.wrong("delete of %v, but it knows %v", last, held)
	case unknown && !held.same(last):
		v.wrong("delete of unknown final state %v, but it last saw %v", last, held)
	case !unknown && numberOf(last) < numberOf(held) &&
		v.server.Existed(numberOf(held), held.History, v.server.Rewinds()):
		v.wrong("delete at %v, older than %v", last, held)
	}
	delete(v.has, last.key())
}

// Leave takes in that an object is no longer in the shard; last is its last known state.
func (v *View) Leave(last *Thing) { v.Delete(last, true) }

// raise holds a state against the newest one seen of its key.
func (v *View) raise(t *Thing, again bool) {
	at := v.floors[t.key()]
	version := numberOf(t)
	if version < at.version || version == at.version && !again {
		at.history++ // no longer the same history, then
	}
	for !v.server.Existed(version, t.History, at.history) {
		if at.history >= v.server.Rewinds() {
			v.wrong("%v goes back from version %d", t, v.floors[t.key()].version)
			return
		}
		at.history++
	}
	at.version = version
	v.floors[t.key()] = at
}

func numberOf(t *Thing) uint64 {
	n, err := parse(t.version())
	if err != nil {
		return 0
	}
	return n
}

func (v *View) note(format string, args ...any) {
	v.events++
	v.trace.Add(v.name, format, args...)
}

func (v *View) wrong(format string, args ...any) {
	if v.err == nil {
		v.err = fmt.Errorf("%s: %s", v.name, fmt.Sprintf(format, args...))
		v.trace.Add(v.name, "WRONG: %v", v.err)
	}
}

// Fail records an error in the changes that the view received.
func (v *View) Fail(format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.wrong(format, args...)
}

// Events counts the events that came.
func (v *View) Events() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.events
}

// Err returns the first thing that was wrong.
func (v *View) Err() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.err
}

// Compare returns what was wrong, or how the view differs from a state.
func (v *View) Compare(want map[object.Key]*Thing) error {
	if err := v.Err(); err != nil {
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if err := Compare(v.has, want); err != nil {
		return fmt.Errorf("%s: %w", v.name, err)
	}
	return nil
}

// Compare returns how two states differ.
func Compare(got, want map[object.Key]*Thing) error {
	if maps.EqualFunc(got, want, (*Thing).same) {
		return nil
	}
	keys := maps.Clone(want)
	maps.Copy(keys, got)
	var diffs []string
	for _, k := range sortedKeys(keys) {
		if g, w := got[k], want[k]; g == nil || w == nil || !g.same(w) {
			diffs = append(diffs, fmt.Sprintf("has %v, want %v", g, w))
		}
	}
	return errors.New(strings.Join(diffs, "; "))
}
