package storage

import (
	"strings"

	"github.com/tarnproject/tarn/apiserver/internal/apierror"
	"github.com/tarnproject/tarn/apiserver/internal/kinds"
	"github.com/tarnproject/tarn/object"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/sharding"
)

// Selection selects objects of a kind. The zero value selects all.
type Selection struct {
	namespace string
	name      string
	labels    labels.Selector   // nil for any
	fields    fields.Selector   // nil for any
	Shard     sharding.Selector // nil for any
}

// everything reports whether at most the namespace or a shard restricts the selection, so that the
// remaining items can be counted without evaluating selectors. As on the real server, the count then
// includes the objects outside of the shard.
func (s Selection) everything() bool { return s.name == "" && s.labels == nil && s.fields == nil }

func (s Selection) matches(k *kinds.Kind, r *kinds.Record) bool {
	switch {
	case s.namespace != "" && r.Key.Namespace != s.namespace:
		return false
	case s.name != "" && r.Key.Name != s.name:
		return false
	case s.labels != nil && !s.labels.Matches(labels.Set(r.Meta.GetLabels())):
		return false
	}
	if s.Shard != nil {
		if in, err := s.Shard.Matches(r.Obj); err != nil || !in {
			return false
		}
	}
	return s.fields == nil || s.fields.Matches(fieldsOf{k, r})
}

// fieldsOf adapts an object to [fields.Fields].
type fieldsOf struct {
	kind   *kinds.Kind
	record *kinds.Record
}

// Has implements [fields.Fields].
func (f fieldsOf) Has(field string) bool { return f.kind.Selectable(field) }

// Get implements [fields.Fields].
func (f fieldsOf) Get(field string) string {
	switch field {
	case "metadata.name":
		return f.record.Key.Name
	case "metadata.namespace":
		return f.record.Key.Namespace
	}
	return kinds.FieldOf(f.kind.Working(f.record), f.kind.StorageField(field))
}

// ParseShard parses a shard selector. Matching and its text are those of apimachinery. The real server
// answers an invalid one with an internal error.
func ParseShard(text string) (sharding.Selector, error) {
	by, ranges, err := object.ParseRanges(text)
	if err != nil {
		return nil, apierror.Failed("invalid shard selector: " + strings.TrimPrefix(err.Error(), object.ErrShard.Error()+": "))
	}
	requirements := make([]sharding.ShardRangeRequirement, len(ranges))
	for i, r := range ranges {
		start, end := r.Bounds()
		requirements[i] = sharding.ShardRangeRequirement{Key: by.String(), Start: start, End: end}
	}
	return sharding.NewSelector(requirements...), nil
}

// shardInfo returns what a typed list says about the shard; nil without one.
func (s Selection) shardInfo() *metav1.ShardInfo {
	if s.Shard == nil {
		return nil
	}
	return &metav1.ShardInfo{Selector: s.Shard.String()}
}

// NewSelection builds a selection from a request's selectors.
func NewSelection(k *kinds.Kind, namespace, name string, l labels.Selector, f fields.Selector) (Selection, error) {
	sel := Selection{namespace: namespace, name: name}
	if l != nil && !l.Empty() {
		sel.labels = l
	}
	if f == nil || f.Empty() {
		return sel, nil
	}
	for _, req := range f.Requirements() {
		if !k.Selectable(req.Field) {
			return sel, apierrors.NewBadRequest(k.NotSelectable(req.Field))
		}
	}
	sel.fields = f
	return sel, nil
}
