package tarn

import (
	"reflect"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/status"
)

// The report on a cluster; see package status.
type (
	// Status is a report on a cluster, its mirrors and its controllers.
	Status = status.Status
	// MirrorStatus is a report on a mirror.
	MirrorStatus = status.MirrorStatus
	// State is the state of a mirror.
	State = status.State
	// Form is the Go representation of the objects of a mirror.
	Form = status.Form
)

// The states of a mirror; see [status.State].
const (
	Declared = status.Declared
	Waiting  = status.Waiting
	Syncing  = status.Syncing
	Live     = status.Live
	Stale    = status.Stale
	Stopped  = status.Stopped
)

// The forms; see [status.Form].
const (
	Typed        = status.Typed
	Unstructured = status.Unstructured
	Metadata     = status.Metadata
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

// Status returns the current status. It waits for batches that are being applied.
func (c *Cluster) Status() Status {
	st := Status{Time: time.Now(), Server: c.client.Host(), Listing: c.budget.InUse(), Lists: c.budget.Size()}
	c.mu.Lock()
	st.Running, st.Stopped, st.Started = c.phase == running, c.phase == stopped, c.started
	mirrors := slices.Clone(c.order)
	c.mu.Unlock()
	for _, m := range mirrors {
		st.Mirrors = append(st.Mirrors, c.statusOf(m))
	}
	st.Controllers = c.work.statuses()
	if c.elector != nil {
		leader := c.elector.Status()
		st.Leader = &leader
	}
	if c.group != nil {
		shards := c.group.Status()
		st.Shards = &shards
	}
	return st
}

func (c *Cluster) statusOf(m *shared) MirrorStatus {
	inf := m.inf.Status()
	st := MirrorStatus{
		Name: m.name, Resource: m.id.resource, Form: formOf(m.id.object), Compact: m.id.compact,
		Namespaces: slices.Clone(m.namespaces), Labels: m.id.labels, Fields: m.id.fields,
		Dropped: slices.Clone(m.dropped), Objects: inf.Store.Objects, Bytes: int64(inf.Store.Objects) * m.view.averageSize(), Informer: inf,
	}
	for _, p := range m.view.Masked() {
		st.Masked = append(st.Masked, p.String())
	}
	if h := m.history.Load(); h != nil {
		st.History = h.versions()
	}
	if m.log != nil {
		st.Journal = m.log.report()
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

// stateOf derives a mirror's state from its informer's status.
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
