package reflector

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/tarnproject/tarn/object"
)

// Status is what a reflector shows of itself, all of it at one moment.
type Status struct {
	Name  string
	State State
	// Since is when the state began.
	Since time.Time
	// Page is the page being listed, from 1 on, while Listing.
	Page int
	// Until is when the wait ends, while BackingOff.
	Until time.Time
	// Cause is why the mirror is not live: what the reflector backs off for, or what made it
	// list again. It stays until a watch is open again, also when the reflector is stopped
	// meanwhile. One that was not failing has what stopped it; one that panicked, the panic.
	Cause error
	// Connected tells that a stream is open.
	Connected bool
	// Failing tells that the same version failed again after a list: only a change on
	// the server, or of the rights to it, can help. The reflector goes on trying.
	Failing bool

	// LastError is the last failure, however long ago, and LastErrorAt when it was.
	LastError   error
	LastErrorAt time.Time

	// Synced tells that a list has been complete, once.
	Synced bool
	// Mark is how far events have come. Of deletions that share its version some may be still
	// to come.
	Mark object.Mark
	// Resume is the version up to which the sink has been told everything, and where the next
	// watch would begin: Mark's version, or the one before it while that may lack a deletion
	// ([object.Reach]). It is empty while no version is complete; the next watch then needs a
	// list.
	Resume object.Version
	// LastEvent is when something last came from a watch, LastList when a list was
	// last complete.
	LastEvent time.Time
	LastList  time.Time

	Streaming StreamingStatus
	// Paged tells that the first LIST came in pages, so that others are asked for in pages.
	Paged bool
	// Unpaged says why the last list was made without pages after all; empty if it was not.
	Unpaged string
	// Removed tells that the resource is not served any more and its objects have been
	// deleted.
	Removed bool
	// Quarantined is the number of objects that cannot be read; see Reflector.Quarantine.
	Quarantined int

	Counts Counts
}

// StreamingStatus tells about streaming lists.
type StreamingStatus struct {
	// InUse tells that the next list will be a streaming one.
	InUse bool
	// WhyNot says why they are not in use.
	WhyNot string
}

// Counts are what happened since the reflector was made.
type Counts struct {
	Lists     int64 // complete ones, streaming lists included
	Streamed  int64 // complete streaming lists
	Pages     int64 // pages read
	Items     int64 // items of complete lists
	Watches   int64 // streams opened
	Events    int64 // events other than bookmarks, initial ones included
	Bookmarks int64
	Unknown   int64 // events of a type that nobody knows
	Stale     int64 // events dropped because they were no news
	Rewinds   int64 // times that the server's history began anew
	Waits     int64 // back-offs
	// Ended tells how often a request ended for each reason. Closed is the normal one.
	Ended map[Reason]int64
}

// Live reports whether changes arrive as they happen: if not, what is mirrored is
// the state of Mark.
func (s Status) Live() bool { return s.State == Watching && s.Connected }

// String returns one line for people: the state and its cause.
func (s Status) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", s.Name, s.State)
	switch s.State {
	case Listing:
		fmt.Fprintf(&b, " page %d", s.Page)
	case BackingOff:
		fmt.Fprintf(&b, " %v", s.Until.Sub(s.Since).Round(100*time.Millisecond))
	}
	if s.Cause != nil {
		fmt.Fprintf(&b, ": %v", s.Cause)
	}
	return b.String()
}

// Status returns a consistent copy. It may be called from any goroutine.
func (r *Reflector[T]) Status() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.status
	s.Counts.Ended = maps.Clone(s.Counts.Ended)
	s.Quarantined = r.quarantine.len()
	return s
}

// Changed returns a channel that is closed at the next change of the state, also of
// one Listing or Watching to another, and when a watch is opened or ends. It may be
// called from any goroutine.
func (r *Reflector[T]) Changed() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.changed == nil {
		r.changed = make(chan struct{})
		if r.status.State == Stopped {
			close(r.changed)
		}
	}
	return r.changed
}

// Quarantine returns what is in quarantine, in the order of keys. It may be called
// from any goroutine.
func (r *Reflector[T]) Quarantine() []Quarantined {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.quarantine.list()
}

// publish shows what the current step has done so far. entered says that the state is a new one.
func (r *Reflector[T]) publish(entered bool) {
	s := &r.now
	page, connected := s.Page, s.Connected
	s.Page, s.Until, s.Connected = 0, time.Time{}, false
	r.state.show(s)
	if (entered || s.Page != page) && s.State != BackingOff {
		s.Since = time.Now()
	}
	s.Mark, s.Resume = r.mark(), r.at.Complete
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status = *s
	if (entered || s.Page != page || s.Connected != connected) && r.changed != nil {
		close(r.changed)
		r.changed = nil
	}
}

// ended counts a request that ended. The map is shared with the published status.
func (r *Reflector[T]) ended(reason Reason) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now.Counts.Ended[reason]++
}
