package tarn

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/store"
)

// Option selects what a mirror covers and how it holds objects. [InNamespaces], [Matching],
// [MatchingFields] and [Compact] select the mirror. [Drop] and [WithTransform] change its
// contents; all users of a mirror must agree on them. [WithIndex] adds an index.
type Option interface {
	declare(d *declaration) error
}

type optionFunc func(d *declaration) error

func (f optionFunc) declare(d *declaration) error { return f(d) }

// declaration is the sum of the options of one call.
type declaration struct {
	namespaces     []string // nil for all
	labels, fields string
	compact        bool
	dropped        map[string]object.FieldPath
	transform      transform // nil for none
	indexes        []index
}

// index is a store.AnyIndex whose type is checked later.
type index struct {
	name  string
	of    reflect.Type
	value any
}

// transform is a *Transform whose type is checked later. Transforms are equal if their
// pointers are.
type transform interface {
	text() string
	of() reflect.Type
}

func declare(opts []Option) (*declaration, error) {
	d := &declaration{dropped: map[string]object.FieldPath{}}
	for _, o := range opts {
		if o == nil {
			continue
		}
		if err := o.declare(d); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// InNamespaces restricts the mirror to some namespaces. Each has its own list and watch, so
// permissions in these namespaces suffice. Repeated options add up. Without it a mirror
// covers all namespaces.
func InNamespaces(namespaces ...string) Option {
	return optionFunc(func(d *declaration) error {
		if len(namespaces) == 0 || slices.Contains(namespaces, "") {
			return errors.New("InNamespaces needs names; omit it for all namespaces")
		}
		d.namespaces = append(d.namespaces, namespaces...)
		slices.Sort(d.namespaces)
		d.namespaces = slices.Compact(d.namespaces)
		return nil
	})
}

// Matching restricts the mirror to objects that match a label selector, such as
// "app=web,tier in (front,back)". With several, all must match.
func Matching(selector string) Option {
	return optionFunc(func(d *declaration) error {
		s, err := labels.Parse(join(d.labels, selector))
		if err != nil {
			return fmt.Errorf("label selector %q: %w", selector, err)
		}
		requirements, _ := s.Requirements()
		var terms []string
		for _, r := range requirements {
			terms = append(terms, r.String())
		}
		d.labels = inOneOrder(terms)
		return nil
	})
}

// MatchingFields restricts the mirror to objects that match a field selector, such as
// "spec.nodeName=node-7". The server supports only some fields of each resource. With
// several, all must match.
func MatchingFields(selector string) Option {
	return optionFunc(func(d *declaration) error {
		s, err := fields.ParseSelector(join(d.fields, selector))
		if err != nil {
			return fmt.Errorf("field selector %q: %w", selector, err)
		}
		var terms []string
		for _, r := range s.Requirements() {
			terms = append(terms, r.Field+string(r.Operator)+fields.EscapeValue(r.Value))
		}
		d.fields = inOneOrder(terms)
		return nil
	})
}

// inOneOrder joins the terms of a selector in sorted order, so that equal selectors have
// equal text.
func inOneOrder(terms []string) string {
	slices.Sort(terms)
	return strings.Join(slices.Compact(terms), ",")
}

func join(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "," + b
}

// Compact holds objects encoded and decodes them on read: a fraction of the memory, for
// slower reads. It selects a different mirror than the decoded form.
// Encoding must preserve what a transform sets: for typed objects in protobuf it loses the
// TypeMeta, and the difference between an empty and a nil list or map.
func Compact() Option {
	return optionFunc(func(d *declaration) error {
		d.compact = true
		return nil
	})
}

// Drop omits fields: the decoder skips them. Most programs can drop object.ManagedFields and
// object.LastApplied. All users of a mirror must drop the same fields.
func Drop(paths ...object.FieldPath) Option {
	return optionFunc(func(d *declaration) error {
		for _, p := range paths {
			if len(p) == 0 {
				return errors.New("Drop: empty field path")
			}
			d.dropped[p.String()] = p
		}
		return nil
	})
}

// WithIndex adds an index to the mirror. A mirror has the indexes of all its users. An index
// added later covers existing objects too. Indexes live as long as the mirror.
func WithIndex[T any](x store.AnyIndex[T]) Option {
	return optionFunc(func(d *declaration) error {
		if x == nil {
			return errors.New("WithIndex: nil index")
		}
		d.indexes = append(d.indexes, index{name: x.Name(), of: reflect.TypeFor[T](), value: x})
		return nil
	})
}

// Transform changes objects before they are stored. Create it once and share the pointer, as
// with an index: transforms are equal if their pointers are, because Go cannot compare
// functions.
type Transform[T any] struct {
	name  string
	apply func(T) (T, error)
}

// NewTransform returns a transform. The name appears in errors. The function runs once per
// decoded object, before any other code reads it. It owns the object until it returns: it may
// write to any part of it, maps and slices included, and no other object shares one. It must
// not change key, UID or version. If it does, or returns an error or nil, or panics, the
// object is quarantined and listed by Status.
//
// Objects of a mirror with a transform do not share equal parts, which takes more memory.
// [Drop] omits fields without that cost.
func NewTransform[T any](name string, apply func(T) (T, error)) *Transform[T] {
	return &Transform[T]{name: name, apply: apply}
}

func (t *Transform[T]) text() string   { return fmt.Sprintf("%q", t.name) }
func (*Transform[T]) of() reflect.Type { return reflect.TypeFor[T]() }

// WithTransform applies a transform to the objects of the mirror. All users of a mirror must
// use the same one.
func WithTransform[T any](t *Transform[T]) Option {
	return optionFunc(func(d *declaration) error {
		switch {
		case t == nil || t.apply == nil:
			return errors.New("WithTransform: nil transform")
		case d.transform != nil && d.transform != transform(t):
			return fmt.Errorf("WithTransform: both %s and %s given; combine them", d.transform.text(), t.text())
		}
		d.transform = t
		return nil
	})
}
