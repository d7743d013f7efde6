package reflector

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/tarnproject/tarn/object"
)

// Status describes a reflector at one moment. The goroutine in Run or Step publishes it after each
// step; callers own their copy.
type Status struct {
	Name  string
	State State
	// Since is when the state began.
	Since time.Time
	// Page is the number of the page being read, from 1 on, while Listing.
	Page int
	// Until is when the wait ends, while BackingOff.
	Until time.Time
	// Cause is why changes do not arrive: the failure that the reflector backs off for, or that
	// made it list again. It stays until a watch is open again. After the end of Run it is the
	// panic, if there was one, otherwise the failure being retried, otherwise why Run ended.
	Cause error
	// Connected says that a watch or a streaming list is open.
	Connected bool
	// Failing says that watches from the same version failed again after a list. Only a change
	// on the server or of the client's rights can help. The reflector keeps retrying.
	Failing bool

	// LastError is the last failure, however long ago, and LastErrorAt its time.
	LastError   error
	LastErrorAt time.Time

	// Synced says that at least one list is complete.
	Synced bool
	// Mark is how far events have come. Some deletions that share its version may still be
	// missing.
	Mark object.Mark
	// Resume is the version up to which the sink has received everything, and from which the
	// next watch would begin: Mark's version, or the one before it while that may lack a
	// deletion ([object.Mark]). It is empty while no version is complete; a list then comes
	// before the next watch.
	Resume object.Version
	// Confirming is the version that the server has been asked to confirm with a bookmark, because a
	// reader waits for it; empty if there is none. See Reflector.Confirm.
	Confirming object.Version
	// LastEvent is when the last event or bookmark arrived, LastList when the last list was
	// complete.
	LastEvent time.Time
	LastList  time.Time

	Streaming StreamingStatus
	// Shard is the part of the objects that is listed and watched, and Sharding whether the server
	// sends only these.
	Shard    object.Shard
	Sharding Sharding
	// Paged says that the first LIST came in pages, so that later ones are requested in pages.
	Paged bool
	// Unpaged is why the last list gave up on pages; empty if it did not.
	Unpaged string
	// Removed says that the resource is no longer served and its objects have been deleted from
	// the sink.
	Removed bool
	// Quarantined is the number of objects that cannot be read; see Reflector.Quarantine.
	Quarantined int

	Counts Counts
}

// StreamingStatus says whether streaming lists are in use.
type StreamingStatus struct {
	// InUse says that the next list will be a streaming list.
	InUse bool
	// Cause is why they are not in use; empty if they are.
	Cause string
}

// Counts are totals since the reflector was made.
type Counts struct {
	Lists     int64 // complete lists, streaming lists included
	Streamed  int64 // complete streaming lists
	Pages     int64 // pages read
	Items     int64 // items of complete lists
	Watches   int64 // streams opened
	Events    int64 // events other than bookmarks, initial ones included
	Bookmarks int64
	Unknown   int64 // events of an unknown type
	Stale     int64 // events that repeat what the sink has, or are not after the last version seen
	Outside   int64 // objects of lists and events that are not in the shard, which the server sent anyway
	Rewinds   int64 // times that the server's history was restored
	Waits     int64 // back-offs
	// Ended is how many requests ended for each reason. Closed is the normal one.
	Ended map[Reason]int64
}

// Live reports whether changes arrive as they happen. If not, the sink has the state of Mark.
func (s Status) Live() bool { return s.State == Watching && s.Connected }

// String returns the name, the state and its cause in one line.
func (s Status) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", s.Name, s.State)
	switch s.State {
	case Listing:
		fmt.Fprintf(&b, " page %d", s.Page)
	case BackingOff:
		fmt.Fprintf(&b, " %v", s.Until.Sub(s.Since).Round(100*time.Millisecond))
	}
	if s.Confirming != "" {
		fmt.Fprintf(&b, ", waiting for a bookmark at %s", s.Confirming)
	}
	if s.Cause != nil {
		fmt.Fprintf(&b, ": %v", s.Cause)
	}
	return b.String()
}

// Status returns the status as of the last step. It may be called from any goroutine.
func (r *Reflector[T]) Status() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.status
	s.Counts.Ended = maps.Clone(s.Counts.Ended)
	s.Quarantined = r.quarantine.len()
	return s
}

// Quarantine returns the objects in quarantine, ordered by key, up to 1,000 of them. It may be called from
// any goroutine.
func (r *Reflector[T]) Quarantine() []Quarantined {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.quarantine.list()
}

// publish shows what the current step has done so far. entered says that the state is a new one.
func (r *Reflector[T]) publish(entered bool) {
	s := &r.now
	page := s.Page
	s.Page, s.Until, s.Connected = 0, time.Time{}, false
	r.state.show(s)
	if (entered || s.Page != page) && s.State != BackingOff {
		s.Since = time.Now()
	}
	s.Mark, s.Resume, s.Shard = r.mark(), r.at.Complete, r.target
	r.mu.Lock()
	defer r.mu.Unlock()
	r.confirm.reached(s.Resume)
	s.Confirming = r.confirm.version
	r.status = *s
}

// ended counts a request that ended. The map is shared with the published status.
func (r *Reflector[T]) ended(reason Reason) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now.Counts.Ended[reason]++
}
