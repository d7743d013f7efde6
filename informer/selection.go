package informer

import (
	"errors"
	"maps"

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

// refusedObject is an object that the store refused.
type refusedObject struct {
	uid     object.UID
	version object.Version
	cause   error
}

// noteRefusals records which objects of a batch the store refused, and forgets those that the batch
// replaced or deleted.
func (inf *Informer[T]) noteRefusals(b *object.Batch[T], err error) {
	inf.mu.Lock()
	defer inf.mu.Unlock()
	if err == nil && len(inf.refusals) == 0 {
		return
	}
	refused := map[object.Key]error{}
	for _, e := range parts(err) {
		if one := (*store.ObjectError)(nil); errors.As(e, &one) && !errors.Is(e, store.ErrNotHeld) {
			refused[one.Key] = one.Cause
		}
	}
	if inf.refusals == nil {
		inf.refusals = map[object.Key]refusedObject{}
	}
	note := func(key object.Key, uid object.UID, version object.Version) {
		if cause := refused[key]; cause != nil {
			inf.refusals[key] = refusedObject{uid, version, cause}
		}
	}
	for i := range b.Changes {
		c := &b.Changes[i]
		if c.List == nil {
			delete(inf.refusals, c.Key)
			if c.Kind != object.Deleted {
				note(c.Key, c.UID, c.Version)
			}
			continue
		}
		maps.DeleteFunc(inf.refusals, func(key object.Key, r refusedObject) bool {
			return c.List.Scope.Covers(key) && (c.List.Part.IsZero() || c.List.Part.Contains(r.uid, key.Namespace))
		})
		for j := range c.List.Items {
			item := &c.List.Items[j]
			note(item.Key, item.UID, item.Version)
		}
	}
}

// parts returns the errors that are joined in err.
func parts(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	return nil
}

// lacks reports whether there are objects that the mirror cannot have.
func (inf *Informer[T]) lacks() bool {
	inf.mu.Lock()
	defer inf.mu.Unlock()
	for _, src := range inf.sources {
		if src.refl != nil && src.refl.Status().Quarantined > 0 {
			return true
		}
	}
	return len(inf.refusals) > 0
}

// Unreadable returns a [*QuarantinedError] if the server has an object with the given key, or a later
// version of it, that the mirror cannot have: it could not be decoded, transformed or stored. Otherwise
// Unreadable returns nil.
func (inf *Informer[T]) Unreadable(key object.Key) error {
	if is, ok := inf.unreadable(key); ok {
		return &QuarantinedError{Informer: inf.opts.Name, Key: key, Version: is.version, Cause: is.cause}
	}
	return nil
}

// unreadable returns why the mirror cannot have the newest version of an object.
func (inf *Informer[T]) unreadable(key object.Key) (is refusedObject, ok bool) {
	inf.mu.Lock()
	defer inf.mu.Unlock()
	if is, ok = inf.refusals[key]; ok {
		return is, true
	}
	src := inf.sources[inf.scopeOf(key)]
	if src == nil || src.refl == nil {
		return is, false
	}
	q, ok := src.refl.InQuarantine(key)
	return refusedObject{q.UID, q.Version, q.Cause}, ok
}
