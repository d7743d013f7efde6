package apiserver

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tarnproject/tarn/apiserver/internal/kinds"
	"github.com/tarnproject/tarn/journal"
	"github.com/tarnproject/tarn/object"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// replayStep is an entry of a recording: a change of one object, or an activity.
type replayStep struct {
	at       time.Time
	version  uint64
	kind     *kinds.Kind
	key      object.Key
	data     []byte            // nil if the object was deleted
	activity *journal.Activity // nil for a change
}

// replayedMirror is what was read of a mirror.
type replayedMirror struct {
	kind     *kinds.Kind
	steps    []replayStep
	has      map[object.Key]uint64 // the version of each object
	state    map[object.Key]bool   // the objects of the state that is being read
	from     int                   // its first step
	complete time.Time             // when the first state was; zero before
	// last is the highest version so far, and before the one before the batch received at the time at.
	last, before uint64
	at           time.Time
	rewound      bool // versions went back: the server was restored from a backup
}

// load reads the recording into the storage, up to the moment at which the server begins, and into left.
//
// One server has one order of all versions, but mirrors receive changes independently of each other. So what follows the
// first state of every mirror is sorted by version, and happens when it or the first later version was received, whichever was
// earlier. Rejected: the order of arrival with new versions, because a list would not be what any server had.
func (r *Replayed) load(path string) error {
	mirrors := map[*journal.Recorded]*replayedMirror{}
	var order []*replayedMirror
	var activities []replayStep
	for ev, err := range journal.Events(path) {
		if err != nil {
			return err
		}
		if ev.At.After(r.end) {
			r.end = ev.At
		}
		if ev.Activity != nil {
			activities = append(activities, replayStep{at: ev.At, activity: ev.Activity})
			continue
		}
		m := mirrors[ev.Mirror]
		if m == nil {
			k, err := r.kindOf(ev.Mirror)
			if err != nil {
				return err
			}
			m = &replayedMirror{kind: k, has: map[object.Key]uint64{}}
			mirrors[ev.Mirror], order = m, append(order, m)
		}
		if ev.Kind == object.Synced || r.opts.Only == nil || r.opts.Only(ev.Mirror, ev.Key) {
			m.received(ev)
		}
	}
	for _, m := range order {
		if m.complete.After(r.begin) {
			r.begin = m.complete
		}
	}
	at := r.opts.At
	switch {
	case r.begin.IsZero():
		return errors.New("apiserver: the recording has no whole state")
	case at.IsZero():
		at = r.begin
	case at.Before(r.begin) || at.After(r.end):
		return fmt.Errorf("apiserver: the recording is from %s to %s", r.begin.Format(time.RFC3339), r.end.Format(time.RFC3339))
	}
	first, left := uint64(0), activities
	for _, m := range order {
		if m.complete.IsZero() {
			continue // it ended before
		}
		for _, rec := range r.storage.All(m.kind, "") {
			r.storage.Load(m.kind, rec.Key, nil, 0) // what New created
		}
		if !slices.Contains(r.kinds, m.kind) {
			r.kinds = append(r.kinds, m.kind)
		}
		for _, s := range m.steps {
			if s.at.After(r.begin) {
				left = append(left, s)
				continue
			}
			first = max(first, s.version)
		}
	}
	var base []replayStep
	for _, m := range order {
		for _, s := range m.steps {
			if !m.complete.IsZero() && (!s.at.After(r.begin) || s.version <= first) {
				base = append(base, s)
			}
		}
	}
	left = slices.DeleteFunc(left, func(s replayStep) bool { return s.activity == nil && s.version <= first || s.at.Before(r.begin) })
	r.left = inOrder(left)
	n, _ := slices.BinarySearchFunc(r.left, at, func(s replayStep, at time.Time) int { return cmp.Or(s.at.Compare(at), -1) })
	base, r.left = append(base, r.left[:n]...), r.left[n:]
	r.now = at
	return r.begins(base)
}

// received adds an entry.
func (m *replayedMirror) received(ev *journal.Event) {
	if !ev.At.Equal(m.at) {
		m.at, m.before = ev.At, m.last
	}
	if ev.State && m.state == nil {
		m.state, m.from = map[object.Key]bool{}, len(m.steps)
	}
	if ev.Kind == object.Synced {
		for key := range m.has {
			if !m.state[key] {
				m.steps = append(m.steps, replayStep{version: m.last, kind: m.kind, key: key})
				delete(m.has, key)
			}
		}
		removed := m.steps[m.from:]
		slices.SortStableFunc(removed, func(a, b replayStep) int { return cmp.Or(cmp.Compare(a.version, b.version), a.key.Compare(b.key)) })
		for i := range removed {
			removed[i].at = ev.At
		}
		m.state = nil
		if m.complete.IsZero() {
			m.complete = ev.At
		}
		return
	}
	version, err := strconv.ParseUint(string(ev.Version), 10, 64)
	was, had := m.has[ev.Key]
	removed := ev.Kind == object.Deleted || ev.Kind == object.Left
	switch {
	case ev.State && had && err == nil && version == was:
		m.state[ev.Key] = true
		return
	case err != nil || m.rewound || removed && version <= was:
		version = m.before
	case had && version < was:
		m.rewound, version = true, m.before
	}
	s := replayStep{at: ev.At, version: version, kind: m.kind, key: ev.Key}
	m.last = max(m.last, version)
	if removed {
		delete(m.has, ev.Key)
	} else {
		s.data, m.has[ev.Key] = bytes.Clone(ev.Data), version
	}
	if ev.State {
		m.state[ev.Key] = true
	}
	m.steps = append(m.steps, s)
}

// inOrder sorts changes by version and gives each the time at which it or a later one was received. Activities keep their times.
func inOrder(steps []replayStep) []replayStep {
	changes := slices.DeleteFunc(slices.Clone(steps), func(s replayStep) bool { return s.activity != nil })
	slices.SortStableFunc(changes, func(a, b replayStep) int { return cmp.Compare(a.version, b.version) })
	for i := len(changes) - 2; i >= 0; i-- {
		if changes[i].at.After(changes[i+1].at) {
			changes[i].at = changes[i+1].at
		}
	}
	all := append(changes, slices.DeleteFunc(steps, func(s replayStep) bool { return s.activity == nil })...)
	slices.SortStableFunc(all, func(a, b replayStep) int { return a.at.Compare(b.at) })
	return all
}

// begins stores the objects that the server begins with.
func (r *Replayed) begins(base []replayStep) error {
	last := map[*kinds.Kind]map[object.Key]replayStep{}
	var version uint64
	for _, s := range base {
		if s.activity != nil {
			continue
		}
		if last[s.kind] == nil {
			last[s.kind] = map[object.Key]replayStep{}
		}
		last[s.kind][s.key] = s
		version = max(version, s.version)
	}
	for _, objects := range last {
		for key, s := range objects {
			k, obj, err := s.decode(r.Server)
			if err != nil {
				return err
			}
			if obj != nil {
				r.storage.Load(k, key, obj, s.version)
			}
		}
	}
	r.storage.Begin(version)
	r.firstChange = r.storage.Now()
	return nil
}

// kindOf returns what the server serves for a recorded mirror. Kinds that are not built in are defined.
func (r *Replayed) kindOf(of *journal.Recorded) (*kinds.Kind, error) {
	parts := strings.Split(of.Resource, "/")
	if len(parts) == 2 {
		parts = slices.Insert(parts, 0, "")
	}
	if len(parts) != 3 {
		return nil, fmt.Errorf("apiserver: the recording has a resource %q", of.Resource)
	}
	gvr := schema.GroupVersionResource{Group: parts[0], Version: parts[1], Resource: parts[2]}
	if k, err := r.catalog.Get(gvr); err == nil {
		return k, nil
	}
	d := Definition{Resource: object.Resource{Group: gvr.Group, Version: gvr.Version, Resource: gvr.Resource, Kind: of.Kind, Namespaced: of.Namespaced}, Status: true}
	if len(of.Names) > 0 {
		d.Singular, d.ShortNames = of.Names[0], of.Names[1:]
	}
	if err := r.Define(d); err != nil {
		return nil, err
	}
	return r.catalog.Get(gvr)
}

// decode returns the object in the form that it is stored in; nil if it was deleted.
func (s *replayStep) decode(server *Server) (k *kinds.Kind, obj runtime.Object, err error) {
	if len(s.data) == 0 {
		return s.kind, nil, nil
	}
	if s.data[0] == '{' {
		u := &unstructured.Unstructured{}
		err, obj = utiljson.Unmarshal(s.data, &u.Object), u
	} else if message, ok := s.kind.Empty().(interface {
		runtime.Object
		Unmarshal([]byte) error
	}); ok {
		err, obj = message.Unmarshal(s.data), message
	} else {
		err = errors.New("an encoding of another program")
	}
	if err == nil {
		obj.GetObjectKind().SetGroupVersionKind(s.kind.GVK())
		k, obj, err = server.registry.Own(obj)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("apiserver: recorded %s %s: %w", s.kind, s.key, err)
	}
	return k, obj, nil
}
