package informer

import (
	"errors"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
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

var errUnnamed = errors.New("more objects are in quarantine than are listed")

// unreadable returns why an object is in quarantine; nil if it is not. older says that the mirror
// has an older state of the object although it has reached a later version, so the object must
// have been quarantined or refused.
func (inf *Informer[T]) unreadable(scope object.Scope, key object.Key, uid object.UID, older bool) error {
	inf.mu.Lock()
	var refl *reflector.Reflector[T]
	if src := inf.sources[scope]; src != nil {
		refl = src.refl
	}
	inf.mu.Unlock()
	if refl == nil {
		return nil
	}
	named := refl.Quarantine()
	for _, q := range named {
		if q.Key == key && q.UID == uid {
			return q.Cause
		}
	}
	switch refused := inf.refusal.Load(); {
	case older && refl.Status().Quarantined > len(named):
		return errUnnamed
	case older && refused != nil:
		return *refused
	}
	return nil
}
