package tarn

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/tarnproject/tarn/object"
)

// Option selects what a mirror covers and how it holds objects. A [Scope], [InShard], [Unsharded] and
// [Compact] select the mirror. [Drop] and [KeepManagedFields] change its contents; all users of a mirror
// must agree on them. [Mask] and [KeepHistory] change what the console shows of it.
//
// What depends on the type of the objects is no Option, so that the compiler checks it:
// see [Mirror.AddIndex] and [MirrorTransformed].
type Option interface {
	declare(d *declaration) error
}

// Scope restricts a mirror, or a read through [Client.List], to some of the objects:
// [InNamespaces], [Matching] and [MatchingFields].
type Scope struct {
	restrict func(d *declaration) error
}

func (s Scope) declare(d *declaration) error {
	if s.restrict == nil {
		return nil
	}
	return s.restrict(d)
}

type optionFunc func(d *declaration) error

func (f optionFunc) declare(d *declaration) error { return f(d) }

// declaration is the sum of the options of one call.
type declaration struct {
	namespaces     []string // nil for all
	labels, fields string
	compact        bool
	dropped        map[string]object.FieldPath
	masked         []object.FieldPath
	history        int       // versions; 0 for none
	shard          *Shard    // nil for none
	whole          bool      // all objects, of a cluster that divides them
	latest         bool      // the first list asks for the most recent state
	transform      transform // nil for none
}

// transform is a *Transform of any type. Transforms are equal if their pointers are.
type transform interface {
	text() string
	version() string
}

func declare(opts []Option) (*declaration, error) {
	d := &declaration{dropped: map[string]object.FieldPath{object.ManagedFields.String(): object.ManagedFields}}
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
func InNamespaces(namespaces ...string) Scope {
	return Scope{func(d *declaration) error {
		if len(namespaces) == 0 || slices.Contains(namespaces, "") {
			return errors.New("InNamespaces needs names; omit it for all namespaces")
		}
		d.namespaces = append(d.namespaces, namespaces...)
		slices.Sort(d.namespaces)
		d.namespaces = slices.Compact(d.namespaces)
		return nil
	}}
}

// Matching restricts the mirror to objects that match a label selector, such as
// "app=web,tier in (front,back)". With several, all must match.
func Matching(selector string) Scope {
	return Scope{func(d *declaration) error {
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
	}}
}

// MatchingFields restricts the mirror to objects that match a field selector, such as
// "spec.nodeName=node-7". The server supports only some fields of each resource. With
// several, all must match.
func MatchingFields(selector string) Scope {
	return Scope{func(d *declaration) error {
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
	}}
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
// slower reads. It selects a different mirror than the decoded form. Objects are held as the server
// sends them, and are decoded for readers, transforms, and indexes that do not say what they read;
// see [store.Index.Reads]. Index functions may be called by several goroutines at once.
// Encoding must preserve what a transform sets. Protobuf loses the TypeMeta and the difference between
// an empty and a nil list or map. JSON loses what the fields' tags omit, and fractions of seconds.
func Compact() Option {
	return optionFunc(func(d *declaration) error {
		d.compact = true
		return nil
	})
}

// Latest makes the first list of a mirror ask for the most recent state, which costs the server more than
// any state that it has in memory. It is for a mirror that is declared after the program has written to the
// resource. It has no effect on a mirror that exists.
func Latest() Option {
	return optionFunc(func(d *declaration) error {
		d.latest = true
		return nil
	})
}

// KeepManagedFields keeps metadata.managedFields, which mirrors drop by default: they are often
// half of an object, and only programs that work with field managers read them.
func KeepManagedFields() Option {
	return optionFunc(func(d *declaration) error {
		delete(d.dropped, object.ManagedFields.String())
		return nil
	})
}

// Drop omits fields: the decoder skips them. Many programs can drop object.LastApplied.
// All users of a mirror must drop the same fields.
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

// Transform changes objects before they are stored. Create it once and share the pointer, as
// with an index: transforms are equal if their pointers are, because Go cannot compare
// functions.
type Transform[T any] struct {
	name  string
	is    string // its version
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

func (t *Transform[T]) text() string { return fmt.Sprintf("%q", t.name) }

// Versioned sets the version of the transform and returns it. Change the version when the function changes: a
// mirror continues the state that [WithJournal] keeps only if the transform that made it had the same one. Defaults to
// none: the mirror is not written.
func (t *Transform[T]) Versioned(version string) *Transform[T] {
	t.is = version
	return t
}

// version returns the name and the version; empty without one.
func (t *Transform[T]) version() string {
	if t.is == "" {
		return ""
	}
	return t.name + " " + t.is
}
