package sim

import (
	"fmt"
	"maps"
	"slices"
	"sort"
	"strconv"
	"sync"
	"time"

	"github.com/tarnproject/tarn/object"
	"k8s.io/apimachinery/pkg/types"
)

// Server is a model of an API server for one namespaced resource: a map of objects, one
// version that only goes up, and every change since the beginning of the history. It is
// as plain as it can be; a state of the past is found by doing all changes again.
//
// All methods may be called from any goroutine. Objects that it returns are not to be
// written to.
type Server struct {
	quirks Quirks
	trace  *Trace

	// Idle, if set, is called without the lock when a watch has nothing to send or a
	// list is between two items, instead of waiting: the rest of a world with a single
	// goroutine. It must be set before the server is used. A watch passes its closing
	// channel, a list nil.
	Idle func(closed <-chan struct{})

	mu      sync.Mutex // guards everything below
	version uint64
	// compacted is the oldest version at which a watch may begin.
	compacted uint64
	objects   map[object.Key]*Thing
	base      map[object.Key]*Thing // the state before the first change of the log
	log       []change
	restores  []uint64 // the version that each restore went back to
	writes    int      // in all histories
	removed   bool
	streams   map[*stream]struct{}
	// changed is closed and replaced whenever there is something new to look at.
	changed chan struct{}
}

// change is one write: old is nil for a creation, current for a deletion.
type change struct {
	version      uint64
	old, current *Thing
}

// NewServer makes a server without objects.
func NewServer(q Quirks, trace *Trace) *Server {
	const first = 10 // so that versions change their length early on
	return &Server{
		quirks: q, trace: trace, version: first, compacted: first,
		objects: map[object.Key]*Thing{}, base: map[object.Key]*Thing{},
		streams: map[*stream]struct{}{}, changed: make(chan struct{}),
	}
}

// Create makes an object with a new UID. It reports whether there was none of that key.
func (s *Server) Create(k object.Key, labels map[string]string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.objects[k] != nil || s.removed {
		return false
	}
	s.writes++
	t := &Thing{Spec: s.writes, Status: s.writes}
	t.Namespace, t.Name, t.Labels, t.Generation = k.Namespace, k.Name, labels, 1
	t.UID = types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", s.writes))
	if s.quirks.PlainUIDs {
		t.UID = types.UID("u" + strconv.Itoa(s.writes))
	}
	s.write(nil, t)
	return true
}

// Update lets edit write to a copy of an object, which becomes the next version. It
// reports whether there is one of that key.
func (s *Server) Update(k object.Key, edit func(t *Thing, unique int)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.objects[k]
	if old == nil {
		return false
	}
	s.writes++
	t := old.clone()
	edit(t, s.writes)
	s.write(old, t)
	return true
}

// Delete removes an object and reports whether there was one.
func (s *Server) Delete(k object.Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.objects[k]
	if old == nil {
		return false
	}
	s.write(old, nil)
	return true
}

// DeleteTogether removes objects in one transaction, as the end of an etcd lease does, which
// is how Events expire: all the deletions have one version. It returns how many there were.
func (s *Server) DeleteTogether(keys ...object.Key) (deleted int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range keys {
		old := s.objects[k]
		if old == nil {
			continue
		}
		if deleted == 0 {
			s.next()
		}
		s.note(old, nil)
		deleted++
	}
	return deleted
}

// next makes the next version. Versions are not dense: other resources share them.
func (s *Server) next() { s.version += 1 + uint64(s.writes%3) }

// write makes the next version, which is that of one change.
func (s *Server) write(old, current *Thing) {
	s.next()
	s.note(old, current)
}

// note makes a change part of the present version.
func (s *Server) note(old, current *Thing) {
	if current == nil {
		delete(s.objects, old.key())
	} else {
		current.ResourceVersion = strconv.FormatUint(s.version, 10)
		current.History = len(s.restores)
		s.objects[current.key()] = current
	}
	s.log = append(s.log, change{version: s.version, old: old, current: current})
	s.trace.Add("server", "%v", s.log[len(s.log)-1])
	s.touch()
}

// String describes the change in a few words.
func (c change) String() string {
	switch {
	case c.old == nil:
		return fmt.Sprintf("v%d create %s %s %v", c.version, c.current.key(), short(c.current.UID), c.current.Labels)
	case c.current == nil:
		return fmt.Sprintf("v%d delete %s %s", c.version, c.old.key(), short(c.old.UID))
	}
	return fmt.Sprintf("v%d update %s %s %v", c.version, c.current.key(), short(c.current.UID), c.current.Labels)
}

// touch wakes all watches.
func (s *Server) touch() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// Compact discards the history up to a number of changes before the present: requests for
// older versions get 410, exact lists too.
func (s *Server) Compact(keep int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.version
	if keep > 0 && keep <= len(s.log) {
		at = s.log[len(s.log)-keep].version - 1
	}
	s.compacted = max(s.compacted, at)
	s.trace.Add("server", "compacted to %d", s.compacted)
}

// Cut ends all watches, as a restart does.
func (s *Server) Cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.streams {
		w.broken = true
	}
	s.trace.Add("server", "restart: %d watches cut", len(s.streams))
	s.touch()
}

// Rewind restores the state before the last changes, as etcd from a backup, and returns
// its version: versions that were given out once will be given out again, for other
// states. Lists and watches that are going on are cut.
func (s *Server) Rewind(changes int) (to uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.log) - min(changes, len(s.log))
	to = s.compacted
	if n > 0 {
		to = max(to, s.log[n-1].version)
	}
	s.objects = s.stateAt(to)
	s.log = slices.DeleteFunc(s.log, func(c change) bool { return c.version > to })
	s.trace.Add("server", "restored from v%d to v%d", s.version, to)
	s.version = to
	s.restores = append(s.restores, to)
	for w := range s.streams {
		w.broken = true
	}
	s.touch()
	return to
}

// Remove takes the resource away, as the deletion of its definition does: first the
// objects are deleted, then requests get 404. Restore brings it back, empty.
func (s *Server) Remove() {
	for _, k := range s.Keys() {
		s.Delete(k)
	}
	s.setRemoved(true)
}

// Restore ends Remove.
func (s *Server) Restore() { s.setRemoved(false) }

func (s *Server) setRemoved(removed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.removed == removed {
		return
	}
	s.removed = removed
	s.trace.Add("server", "resource removed: %v", removed)
	s.touch()
}

// Version returns the newest version.
func (s *Server) Version() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version
}

// Bookmarks reports whether watches that ask for bookmarks get them.
func (s *Server) Bookmarks() bool { return !s.quirks.NoBookmarks }

// Rewinds counts the restores.
func (s *Server) Rewinds() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.restores)
}

// Existed reports whether a state that was written at a version of one history was part
// of another: of its own, or of a later one that was restored after it.
func (s *Server) Existed(version uint64, written, history int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if written > history || history > len(s.restores) {
		return false
	}
	for _, to := range s.restores[written:history] {
		if version > to {
			return false
		}
	}
	return true
}

// Keys returns the keys of all objects, in order.
func (s *Server) Keys() []object.Key {
	s.mu.Lock()
	defer s.mu.Unlock()
	return sortedKeys(s.objects)
}

// State returns what a selection has now.
func (s *Server) State(sel object.Selection) map[object.Key]*Thing {
	s.mu.Lock()
	defer s.mu.Unlock()
	return selected(s.objects, sel)
}

// StateAt returns what a selection had at a version of the present history.
func (s *Server) StateAt(v uint64, sel object.Selection) map[object.Key]*Thing {
	s.mu.Lock()
	defer s.mu.Unlock()
	return selected(s.stateAt(v), sel)
}

// DeletedTogether returns what was deleted at a version of the present history by
// DeleteTogether, unless it was just one object.
func (s *Server) DeletedTogether(v uint64) map[object.Key]*Thing {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[object.Key]*Thing{}
	for _, c := range s.log {
		if c.version == v && c.current == nil {
			out[c.old.key()] = c.old
		}
	}
	if len(out) < 2 {
		return nil
	}
	return out
}

// Current reports whether a watch of the selection is open and has received
// everything.
func (s *Server) Current(sel object.Selection) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.streams {
		if w.opts.Selection == sel && w.idle() {
			return true
		}
	}
	return false
}

// Streams counts the watches that are open.
func (s *Server) Streams() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.streams)
}

// stateAt does all changes up to a version again.
func (s *Server) stateAt(v uint64) map[object.Key]*Thing {
	if v >= s.version {
		return maps.Clone(s.objects)
	}
	state := maps.Clone(s.base)
	for _, c := range s.log {
		switch {
		case c.version > v:
			return state
		case c.current == nil:
			delete(state, c.old.key())
		default:
			state[c.current.key()] = c.current
		}
	}
	return state
}

// now is the time inside the bubble.
func now() time.Time { return time.Now() }

func selected(state map[object.Key]*Thing, sel object.Selection) map[object.Key]*Thing {
	m := newMatcher(sel)
	out := map[object.Key]*Thing{}
	for k, t := range state {
		if m.matches(t) {
			out[k] = t
		}
	}
	return out
}

func sortedKeys(state map[object.Key]*Thing) []object.Key {
	keys := make([]object.Key, 0, len(state))
	for k := range state {
		keys = append(keys, k)
	}
	sort.Slice(keys, func(i, j int) bool { return keys[i].Compare(keys[j]) < 0 })
	return keys
}
