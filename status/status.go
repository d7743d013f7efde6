// Package status has the report on a cluster: its mirrors with their states and causes, its controllers, and its leases. Package
// tarn makes it, and package console shows it.
package status

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/controller/leader"
	"github.com/tarnproject/tarn/controller/shard"
	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/journal"
	"github.com/tarnproject/tarn/object"
)

// State is the state of a mirror.
type State uint8

// The states. Stopped is final; any other state may follow any other.
const (
	// Declared: Run has not been called.
	Declared State = iota
	// Waiting: the server does not serve the resource.
	Waiting
	// Syncing: the first list is not complete. Cause is set if it failed.
	Syncing
	// Live: the mirror is synced and watching.
	Live
	// Stale: the last state is readable, but no changes arrive; see Cause.
	Stale
	// Stopped: the last handle was closed, or Run has ended.
	Stopped
)

var stateNames = [...]string{"declared", "waiting", "syncing", "live", "stale", "stopped"}

// String returns the state's name in lower case.
func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return "invalid"
}

// MarshalText returns the state's name, for JSON.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Form is the Go representation of the objects of a mirror.
type Form string

// The forms.
const (
	Typed        Form = "typed"
	Unstructured Form = "unstructured"
	Metadata     Form = "metadata"
)

// Status is a report on a cluster, its mirrors and its controllers.
type Status struct {
	// Time is when the report was made.
	Time time.Time
	// Server is the server's host and port.
	Server string
	// Started is when Run was called; zero before that.
	Started time.Time
	// Running is true while Run runs, Stopped after it has been stopped.
	Running, Stopped bool
	// Listing is how many mirrors are listing, and Lists the limit.
	Listing, Lists int
	// Mirrors, in the order in which they were declared.
	Mirrors []MirrorStatus
	// Controllers, in the order in which they were created.
	Controllers []controller.Status
	// Leader is the state of leader election; nil without it.
	Leader *leader.Status
	// Shards is this process's membership in a group that shares the keys; nil without one.
	Shards *shard.Status
}

// Live reports whether all mirrors are live.
func (s Status) Live() bool {
	return s.Running && !slices.ContainsFunc(s.Mirrors, func(m MirrorStatus) bool { return m.State != Live })
}

// Synced reports whether all mirrors have synced at some time.
func (s Status) Synced() bool {
	return !slices.ContainsFunc(s.Mirrors, func(m MirrorStatus) bool { return !m.Informer.Synced })
}

// String returns a line for each mirror.
func (s Status) String() string {
	lines := make([]string, len(s.Mirrors))
	for i := range s.Mirrors {
		lines[i] = s.Mirrors[i].String()
	}
	return strings.Join(lines, "\n")
}

// MirrorStatus is a report on a mirror.
type MirrorStatus struct {
	// Name is unique among the mirrors of a cluster.
	Name string
	// Resource is the mirrored resource.
	Resource object.Resource
	// Form is the representation of its objects. Compact is true if they are held encoded.
	Form    Form
	Compact bool
	// Namespaces are the namespaces it covers; nil means all.
	Namespaces []string
	// Labels and Fields are its selectors.
	Labels, Fields string
	// Dropped are the omitted fields, and Masked those that the console hides in addition to the
	// data of Secrets.
	Dropped, Masked []string
	// History is how many versions of each object are kept for the console; 0 for none.
	History int
	// Handles are the files and lines that requested it and have not closed it.
	Handles []string
	// State is its state. Cause is why it is not live, or nil if nothing failed.
	State State
	Cause error
	// Objects is the number of objects. Bytes is about how much they are as JSON, estimated from
	// a sample; 0 if it is not known.
	Objects int
	Bytes   int64
	// Journal is what its journal does, and how the mirror began; nil without one.
	Journal *journal.Report
	// Informer has the details: sources, subscribers, quarantine and counters.
	Informer informer.Status
}

// String returns one line: name, state, number of objects, cause.
func (m MirrorStatus) String() string {
	objects := "objects"
	if m.Objects == 1 {
		objects = "object"
	}
	text := fmt.Sprintf("%s: %s, %d %s", m.Name, m.State, m.Objects, objects)
	if m.Cause != nil {
		text += fmt.Sprintf(": %v", m.Cause)
	}
	return text
}
