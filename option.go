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

// Option says what a mirror is to cover and hold. [InNamespaces], [Matching],
// [MatchingFields] and [Compact] choose the mirror; [Drop] and [WithTransform] say what
// is in it, on which all that share it must agree; [WithIndex] adds to it.
type Option interface {
	declare(d *declaration) error
}

type optionFunc func(d *declaration) error

func (f optionFunc) declare(d *declaration) error { return f(d) }

// declaration is what the options of one call add up to.
type declaration struct {
	namespaces     []string // nil for all
	labels, fields string
	compact        bool
	dropped        map[string]object.FieldPath
	transform      transform // nil for none
	indexes        []index
}

// index is a store.AnyIndex of a type that is not known yet.
type index struct {
	name  string
	of    reflect.Type
	value any
}

// transform is a *Transform of a type that is not known yet. Two are the same if they are
// the same pointer.
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

// InNamespaces narrows the mirror to some namespaces, each with a list and a watch of its
// own, for which the rights in these namespaces are enough. Given twice, it is all of
// them together. Without it a mirror covers all namespaces.
func InNamespaces(namespaces ...string) Option {
	return optionFunc(func(d *declaration) error {
		if len(namespaces) == 0 || slices.Contains(namespaces, "") {
			return errors.New("InNamespaces wants names; leave it out for all namespaces")
		}
		d.namespaces = append(d.namespaces, namespaces...)
		slices.Sort(d.namespaces)
		d.namespaces = slices.Compact(d.namespaces)
		return nil
	})
}

// Matching narrows the mirror to objects whose labels match a selector in its text form,
// such as "app=web,tier in (front,back)". Given twice, both must match.
func Matching(selector string) Option {
	return optionFunc(func(d *declaration) error {
		s, err := labels.Parse(join(d.labels, selector))
		if err != nil {
			return fmt.Errorf("the label selector %q: %w", selector, err)
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

// MatchingFields narrows the mirror to objects whose fields match a selector in its text
// form, such as "spec.nodeName=node-7". The server knows only some fields of each
// resource. Given twice, both must match.
func MatchingFields(selector string) Option {
	return optionFunc(func(d *declaration) error {
		s, err := fields.ParseSelector(join(d.fields, selector))
		if err != nil {
			return fmt.Errorf("the field selector %q: %w", selector, err)
		}
		var terms []string
		for _, r := range s.Requirements() {
			terms = append(terms, r.Field+string(r.Operator)+fields.EscapeValue(r.Value))
		}
		d.fields = inOneOrder(terms)
		return nil
	})
}

// inOneOrder joins the terms of a selector so that equal ones become the same text.
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

// Compact has the mirror hold objects as bytes, which are decoded when they are read: a
// fraction of the memory, for slower reads. It is a mirror apart from the decoded one.
// What a transform sets must survive encoding: the TypeMeta of a typed object that travels
// as protobuf does not, nor does an empty list or map in place of none.
func Compact() Option {
	return optionFunc(func(d *declaration) error {
		d.compact = true
		return nil
	})
}

// Drop leaves fields out: they are skipped in the bytes that arrive and never become part
// of an object. object.ManagedFields and object.LastApplied are what most programs can do
// without. All that share a mirror must drop the same.
func Drop(paths ...object.FieldPath) Option {
	return optionFunc(func(d *declaration) error {
		for _, p := range paths {
			if len(p) == 0 {
				return errors.New("Drop was given a field path without a field")
			}
			d.dropped[p.String()] = p
		}
		return nil
	})
}

// WithIndex gives the mirror an index. The indexes of all that share a mirror are merged;
// one that comes late sees what is there already. They stay for as long as the mirror.
func WithIndex[T any](x store.AnyIndex[T]) Option {
	return optionFunc(func(d *declaration) error {
		if x == nil {
			return errors.New("WithIndex was given no index")
		}
		d.indexes = append(d.indexes, index{name: x.Name(), of: reflect.TypeFor[T](), value: x})
		return nil
	})
}

// Transform changes objects before they are held. Like an index it is a value, made once:
// two mirrors have the same transform if they have the same value. (Functions cannot be
// compared.)
type Transform[T any] struct {
	name  string
	apply func(T) (T, error)
}

// NewTransform makes a transform. The name appears in errors. The function is called once
// for each object that arrives, before any other code sees it. It owns the object: it may
// write to any part of it, maps and slices included, until it returns, and no other object
// shares one. It must not change key, UID or version. If it does, or returns an error or
// nil, or panics, the object goes to quarantine, where Status shows it.
//
// Objects of a mirror with a transform are decoded without sharing equal parts, which
// takes more memory. [Drop] leaves fields out without that cost.
func NewTransform[T any](name string, apply func(T) (T, error)) *Transform[T] {
	return &Transform[T]{name: name, apply: apply}
}

func (t *Transform[T]) text() string   { return fmt.Sprintf("%q", t.name) }
func (*Transform[T]) of() reflect.Type { return reflect.TypeFor[T]() }

// WithTransform has a transform applied to the objects of the mirror. All that share a
// mirror must have the same.
func WithTransform[T any](t *Transform[T]) Option {
	return optionFunc(func(d *declaration) error {
		switch {
		case t == nil || t.apply == nil:
			return errors.New("WithTransform was given no transform")
		case d.transform != nil && d.transform != transform(t):
			return fmt.Errorf("WithTransform was given both %s and %s; make them one", d.transform.text(), t.text())
		}
		d.transform = t
		return nil
	})
}
