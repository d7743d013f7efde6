package informer

import (
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/store"
)

// selects is the part of a Selection that can be evaluated without the server.
type selects struct {
	namespace string
	labels    labels.Selector     // nil: cannot be evaluated
	fields    fields.Requirements // those that can be evaluated
}

func newSelects(sel object.Selection, hasLabels bool) selects {
	s := selects{namespace: sel.Namespace}
	if l, err := labels.Parse(sel.Labels); err == nil && hasLabels {
		s.labels = l
	}
	if f, err := fields.ParseSelector(sel.Fields); err == nil {
		for _, r := range f.Requirements() {
			if r.Field == "metadata.name" || r.Field == "metadata.namespace" {
				s.fields = append(s.fields, r)
			}
		}
	}
	return s
}

// outside reports whether an object is certainly not selected.
func (s selects) outside(key object.Key, set map[string]string) bool {
	if s.namespace != "" && key.Namespace != s.namespace || s.labels != nil && !s.labels.Matches(labels.Set(set)) {
		return true
	}
	is := fields.Set{"metadata.name": key.Name, "metadata.namespace": key.Namespace}
	for _, r := range s.fields {
		if one, err := fields.ParseSelector(r.Field + string(r.Operator) + fields.EscapeValue(r.Value)); err == nil && !one.Matches(is) {
			return true
		}
	}
	return false
}

// outsideShard reports whether an object is not in the shard that is to be mirrored.
func (inf *Informer[T]) outsideShard(key object.Key, uid object.UID) bool {
	inf.mu.Lock()
	defer inf.mu.Unlock()
	return !inf.shard.Contains(uid, key.Namespace)
}

// Covers reports whether an object can be in the mirror: its namespace is mirrored, and it matches
// the selection. The shard does not count: it may change. Of field selectors only those of metadata.name and metadata.namespace are
// evaluated.
func (inf *Informer[T]) Covers(obj T) bool {
	key, err := inf.acc.Key(obj)
	return err == nil && inf.covers(inf.scopeOf(key)) && !inf.selects.outside(key, inf.acc.LabelsOf(obj))
}

// Unreadable returns a [*QuarantinedError] if the server has an object with the given key, or a later
// version of it, that the mirror cannot have: it could not be decoded, transformed or stored. Otherwise
// Unreadable returns nil.
func (inf *Informer[T]) Unreadable(key object.Key) (err error) {
	inf.View(func(snap store.Snapshot[T]) { err = inf.unreadableIn(snap, key) })
	return err
}

func (inf *Informer[T]) unreadableIn(snap store.Snapshot[T], key object.Key) error {
	if is, ok := snap.Unreadable(key); ok {
		return &QuarantinedError{Informer: inf.opts.Name, Key: key, Version: is.Version, Cause: is.Cause}
	}
	return nil
}

// peek returns the object with the given key or, if there is none, the error of Unreadable.
func (inf *Informer[T]) peek(key object.Key) (obj T, ok bool, err error) {
	if obj, ok = inf.Get(key); !ok {
		inf.View(func(snap store.Snapshot[T]) {
			if obj, ok = snap.Get(key); !ok {
				err = inf.unreadableIn(snap, key)
			}
		})
	}
	return obj, ok, err
}
