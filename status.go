package tarn

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/object"
)

// State is how a mirror does, in one word.
type State uint8

// The states. Any of them may follow any other, but for Stopped, which is the last.
const (
	// Declared: Run has not been called.
	Declared State = iota
	// Waiting: the server does not serve the resource, yet or any more.
	Waiting
	// Syncing: the state is being fetched for the first time, or cannot be; see Cause.
	Syncing
	// Live: changes arrive as they happen.
	Live
	// Stale: the last state is there to be read, but changes do not arrive; see Cause.
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

// MarshalText returns the state's name, so that JSON has it.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Form is what the objects of a mirror are.
type Form string

// The forms.
const (
	Typed        Form = "typed"
	Unstructured Form = "unstructured"
	Metadata     Form = "metadata"
)

func formOf(obj reflect.Type) Form {
	switch obj {
	case reflect.TypeFor[*unstructured.Unstructured]():
		return Unstructured
	case reflect.TypeFor[*metav1.PartialObjectMetadata]():
		return Metadata
	}
	return Typed
}

// Status is what a cluster shows of itself.
type Status struct {
	// Server is the server's host and port.
	Server string
	// Running tells that Run has been called and has not been ended; Stopped that it has.
	Running, Stopped bool
	// Listing is how many mirrors are fetching their state, and Lists how many may.
	Listing, Lists int
	// Mirrors, in the order in which they were declared.
	Mirrors []MirrorStatus
}

// Live reports whether all mirrors are live.
func (s Status) Live() bool {
	return s.Running && !slices.ContainsFunc(s.Mirrors, func(m MirrorStatus) bool { return m.State != Live })
}

// Synced reports whether all mirrors have, or had, their state.
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

// MirrorStatus is what a mirror shows of itself.
type MirrorStatus struct {
	// Name tells it from the others.
	Name string
	// Resource is what it mirrors.
	Resource object.Resource
	// Form is what its objects are, and Compact tells that they are held as bytes.
	Form    Form
	Compact bool
	// Namespaces are what it covers; nil is all of them.
	Namespaces []string
	// Labels and Fields are its selectors.
	Labels, Fields string
	// Dropped are the fields that are left out.
	Dropped []string
	// Handles are the files and lines that asked for it.
	Handles []string
	// State is how it does, and Cause why it is not live; nil if it is, or if nothing is
	// wrong.
	State State
	Cause error
	// Objects is how many it has.
	Objects int
	// Informer has all the rest: sources, subscribers, quarantine and counts.
	Informer informer.Status
}

// String returns one line for people: name, state, number of objects, cause.
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

// Status returns the present figures. It waits for batches that are being applied.
func (c *Cluster) Status() Status {
	st := Status{Server: c.client.Host(), Listing: c.budget.InUse(), Lists: c.budget.Size()}
	c.mu.Lock()
	st.Running, st.Stopped = c.phase == running, c.phase == stopped
	mirrors := slices.Clone(c.order)
	c.mu.Unlock()
	for _, m := range mirrors {
		st.Mirrors = append(st.Mirrors, c.statusOf(m))
	}
	return st
}

func (c *Cluster) statusOf(m *mirror) MirrorStatus {
	inf := m.inf.Status()
	st := MirrorStatus{
		Name: m.name, Resource: m.id.resource, Form: formOf(m.id.object), Compact: m.id.compact,
		Namespaces: slices.Clone(m.namespaces), Labels: m.id.labels, Fields: m.id.fields,
		Dropped: slices.Clone(m.dropped), Objects: inf.Store.Objects, Informer: inf,
	}
	st.State, st.Cause = stateOf(inf, m.missing.Load())
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, cl := range m.claims {
		st.Handles = append(st.Handles, cl.site)
	}
	if len(m.claims) == 0 {
		st.State = Stopped
	}
	return st
}

// stateOf sums up an informer's status.
func stateOf(inf informer.Status, missing bool) (State, error) {
	var cause error
	for i := range inf.Sources {
		if cause = inf.Sources[i].Err(); cause != nil {
			break
		}
	}
	switch {
	case inf.Stopped:
		return Stopped, nil
	case !inf.Running:
		return Declared, nil
	case missing:
		return Waiting, cause
	case inf.Live():
		return Live, nil
	case inf.Synced:
		return Stale, cause
	}
	return Syncing, cause
}
