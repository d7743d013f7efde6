package wire

import (
	"fmt"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tarnproject/tarn/object"
)

// Encoding names the form in which objects travel.
type Encoding string

// The encodings. The API server offers protobuf for its built-in kinds only.
const (
	JSON     Encoding = "json"
	Protobuf Encoding = "protobuf"
)

// Resource describes a resource and the Go type of its objects: where it is served,
// what it is called, and how it is encoded. T is a pointer: to an API type such as
// corev1.Pod, to unstructured.Unstructured or to metav1.PartialObjectMetadata.
//
// A Resource is made by [Of], [Custom], [Unstructured], [Metadata] or [Discovery]
// and does not change. The zero Resource is invalid.
type Resource[T any] struct {
	object.Resource

	encoding Encoding
	form     form
	make     func() T // a new, empty object; nil in the zero Resource
}

// form says what kind of Go value the objects of a resource become.
type form uint8

const (
	typed    form = iota // a Go struct with its own fields
	dynamic              // map[string]any
	metadata             // metadata only; the server is asked for nothing else
)

// Of returns the resource of a built-in kind, known by its Go type:
//
//	pods, err := wire.Of[*corev1.Pod]()
//
// It travels as protobuf. The error says what to use for a type that is not one of
// k8s.io/api; see [MustOf] for a type that is.
func Of[T any]() (Resource[T], error) {
	t := reflect.TypeFor[T]()
	if t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct {
		return Resource[T]{}, errNotPointer(t)
	}
	res, ok := builtin(t.Elem())
	if !ok {
		return Resource[T]{}, fmt.Errorf("wire: %v is not a built-in kind; describe it with wire.Custom, or with wire.Unstructured or wire.Metadata", t)
	}
	r := Resource[T]{Resource: res, form: typed, encoding: JSON, make: maker[T](t)}
	if _, ok := any(r.make()).(interface{ Unmarshal([]byte) error }); ok {
		r.encoding = Protobuf
	}
	return r, nil
}

// MustOf is [Of] for package-level variables and other places where the type is
// known to be a built-in kind; it panics when it is not.
func MustOf[T any]() Resource[T] {
	r, err := Of[T]()
	if err != nil {
		panic(err)
	}
	return r
}

// Custom describes a resource with a Go type of its own, usually a custom resource.
// It travels as JSON. The type must be a pointer to a struct with metadata; [For]
// and all that build on it say so when it is not.
func Custom[T any](res object.Resource) Resource[T] {
	return Resource[T]{Resource: res, form: typed, encoding: JSON, make: maker[T](reflect.TypeFor[T]())}
}

// Unstructured describes a resource whose objects become maps. It travels as JSON.
func Unstructured(res object.Resource) Resource[*unstructured.Unstructured] {
	return Resource[*unstructured.Unstructured]{
		Resource: res, form: dynamic, encoding: JSON,
		make: func() *unstructured.Unstructured { return &unstructured.Unstructured{} },
	}
}

// Metadata describes a resource of which only the metadata is asked for: the server
// leaves spec and status out. Every server can send metadata as protobuf, so it does.
func Metadata(res object.Resource) Resource[*metav1.PartialObjectMetadata] {
	return Resource[*metav1.PartialObjectMetadata]{
		Resource: res, form: metadata, encoding: Protobuf,
		make: func() *metav1.PartialObjectMetadata { return &metav1.PartialObjectMetadata{} },
	}
}

// Encoded returns the resource with another encoding: [JSON] for a built-in kind
// behind a proxy that reads bodies, [Protobuf] for a custom type that has it.
func (r Resource[T]) Encoded(e Encoding) Resource[T] {
	r.encoding = e
	return r
}

// Encoding returns how the resource's objects travel.
func (r Resource[T]) Encoding() Encoding { return r.encoding }

// Valid returns an error when the resource cannot be used, and says why.
func (r Resource[T]) Valid() error {
	t := reflect.TypeFor[T]()
	switch {
	case r.make == nil && r.Resource == object.Resource{}:
		return fmt.Errorf("wire: the resource of %v is empty; make it with wire.Of, wire.Custom, wire.Unstructured or wire.Metadata", t)
	case r.make == nil:
		return fmt.Errorf("wire: the objects of %s cannot be of type %v; they are pointers to structs", r.Resource, t)
	case r.Version == "" || r.Resource.Resource == "" || r.Kind == "":
		return fmt.Errorf("wire: the resource of %v needs a version, a plural and a kind; it has version %q, plural %q, kind %q", t, r.Version, r.Resource.Resource, r.Kind)
	}
	obj := any(r.make())
	_, isKinded := obj.(kinded)
	if _, err := object.KeyOf(obj); err != nil || !isKinded {
		return fmt.Errorf("wire: %v is not an API object; it has to embed metav1.TypeMeta and metav1.ObjectMeta", t)
	}
	switch r.encoding {
	case JSON:
		return nil
	case Protobuf:
		if _, ok := obj.(interface{ Unmarshal([]byte) error }); !ok {
			return fmt.Errorf("wire: %v has no protobuf form; use wire.JSON for %s", t, r.Resource)
		}
		return nil
	default:
		return fmt.Errorf("wire: unknown encoding %q for %s; use wire.JSON or wire.Protobuf", r.encoding, r.Resource)
	}
}

// New returns a new, empty object of the resource.
func (r Resource[T]) New() T { return r.make() }

func errNotPointer(t reflect.Type) error {
	return fmt.Errorf("wire: %v is not a pointer to an API type; write it as in wire.Of[*corev1.Pod]", t)
}

// maker returns a function that makes a new value of a pointer type, nil for a type
// that is no pointer to a struct.
func maker[T any](t reflect.Type) func() T {
	if t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct {
		return nil
	}
	elem := t.Elem()
	return func() T { return reflect.New(elem).Interface().(T) }
}
