package wire

import (
	"fmt"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tarnproject/tarn/object"
)

// Encoding is the encoding of objects in requests and responses.
type Encoding string

// The encodings. The API server supports protobuf for its built-in kinds only.
const (
	JSON     Encoding = "json"
	Protobuf Encoding = "protobuf"
)

// Resource describes a resource: its group, version, plural and kind, the Go type of its
// objects, and their encoding. T is a pointer to an API type such as corev1.Pod, to
// unstructured.Unstructured, or to metav1.PartialObjectMetadata; with the latter, the server is
// asked for metadata only.
//
// [Of], [Custom], [Unstructured] and [Metadata] return one. It is immutable. The zero Resource
// is invalid.
type Resource[T any] struct {
	object.Resource

	encoding Encoding
	make     func() T // nil in the zero Resource
	typ      reflect.Type
}

// Of returns the resource of a Go type, a built-in kind or a type that names its own resource:
//
//	pods, err := wire.Of[*corev1.Pod]()
//
//	func (*Lamp) APIResource() object.Resource { return lampResource }
//	lamps, err := wire.Of[*Lamp]() // the same as wire.Custom[*Lamp](lampResource)
//
// The encoding of a built-in kind is protobuf. The error says what to use for any other type.
func Of[T any]() (Resource[T], error) {
	t := reflect.TypeFor[T]()
	if t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct {
		return Resource[T]{}, errNotPointer(t)
	}
	obj := reflect.New(t.Elem()).Interface()
	res, ok := ResourceOf(obj)
	if !ok {
		return Resource[T]{}, fmt.Errorf("wire: %v is not a built-in kind and has no method APIResource; use wire.Custom, wire.Unstructured or wire.Metadata", t)
	}
	r := Custom[T](res)
	if _, ok := obj.(describer); ok {
		return r, nil
	}
	if _, ok := obj.(unmarshaler); ok {
		r.encoding = Protobuf
	}
	return r, nil
}

// describer is implemented by custom types that name their resource. The result must not depend
// on the object.
type describer interface{ APIResource() object.Resource }

// ResourceOf returns the resource that [Of] returns for the type of an object, which is not nil. It
// returns false if Of returns an error.
func ResourceOf(obj any) (object.Resource, bool) {
	if d, ok := obj.(describer); ok {
		return d.APIResource(), true
	}
	t := reflect.TypeOf(obj)
	if t == nil || t.Kind() != reflect.Pointer {
		return object.Resource{}, false
	}
	return builtin(t.Elem())
}

// MustOf is [Of] for a type that is known to have a resource. It panics if it has none.
func MustOf[T any]() Resource[T] {
	r, err := Of[T]()
	if err != nil {
		panic(err)
	}
	return r
}

// Custom returns a resource with its own Go type, usually a custom resource. Its encoding is
// JSON. The type must be a pointer to a struct with metadata; see [Resource.Valid].
func Custom[T any](res object.Resource) Resource[T] {
	t := reflect.TypeFor[T]()
	return Resource[T]{Resource: res, encoding: JSON, make: maker[T](t), typ: t}
}

// Like returns a resource whose objects have the Go type of an object, for programs that know it only
// when they run. T is an interface that this type implements, such as controller.Object. Its encoding is
// that of [Of] or [Metadata] for such a type, and JSON for any other.
func Like[T any](res object.Resource, obj T) Resource[T] {
	t := reflect.TypeOf(obj)
	if t == nil {
		return Resource[T]{Resource: res}
	}
	r := Resource[T]{Resource: res, encoding: JSON, make: maker[T](t), typ: t}
	builtin, ok := ResourceOf(obj)
	_, protobuf := any(obj).(unmarshaler)
	_, named := any(obj).(describer)
	if protobuf && (ok && !named && builtin.GVK() == res.GVK() || r.metadataOnly()) {
		r.encoding = Protobuf
	}
	return r
}

// Unstructured returns a resource whose objects are decoded as maps. Its encoding is JSON.
func Unstructured(res object.Resource) Resource[*unstructured.Unstructured] {
	return Custom[*unstructured.Unstructured](res)
}

// Metadata returns a resource of which only the metadata is requested: the server omits spec and
// status. Its encoding is protobuf, which every server supports for metadata.
func Metadata(res object.Resource) Resource[*metav1.PartialObjectMetadata] {
	return Custom[*metav1.PartialObjectMetadata](res).Encoded(Protobuf)
}

// Encoded returns the resource with another encoding: [JSON] for a built-in kind behind a proxy
// that inspects bodies, or [Protobuf] for a custom type that supports it.
func (r Resource[T]) Encoded(e Encoding) Resource[T] {
	r.encoding = e
	return r
}

// Encoding returns the encoding of the resource's objects.
func (r Resource[T]) Encoding() Encoding { return r.encoding }

// Accept returns the Accept header of a request for the resource's objects.
func (r Resource[T]) Accept(verb Verb) string {
	if !r.metadataOnly() {
		return accept(r.encoding, "")
	}
	if verb == VerbList {
		return accept(r.encoding, "PartialObjectMetadataList")
	}
	return accept(r.encoding, "PartialObjectMetadata")
}

// metadataOnly reports whether the server is asked for metadata only.
func (r Resource[T]) metadataOnly() bool {
	return r.typ == reflect.TypeFor[*metav1.PartialObjectMetadata]()
}

// Type returns the Go type of the objects.
func (r Resource[T]) Type() reflect.Type { return r.typ }

// Valid returns an error that says why the resource cannot be used.
func (r Resource[T]) Valid() error {
	t := r.typ
	if t == nil {
		t = reflect.TypeFor[T]()
	}
	switch {
	case r.make == nil && r.Resource == object.Resource{}:
		return fmt.Errorf("wire: the resource of %v is empty; use wire.Of, wire.Custom, wire.Unstructured or wire.Metadata", t)
	case r.make == nil:
		return fmt.Errorf("wire: the Go type of %s is %v; it must be a pointer to a struct", r.Resource, t)
	case r.Version == "" || r.Resource.Resource == "" || r.Kind == "":
		return fmt.Errorf("wire: the resource of %v needs version, plural and kind; it has version %q, plural %q, kind %q", t, r.Version, r.Resource.Resource, r.Kind)
	}
	obj := any(r.make())
	_, isKinded := obj.(kinded)
	if _, err := object.KeyOf(obj); err != nil || !isKinded {
		return fmt.Errorf("wire: %v is not an API object; it must embed metav1.TypeMeta and metav1.ObjectMeta", t)
	}
	switch r.encoding {
	case JSON:
		return nil
	case Protobuf:
		if _, ok := obj.(unmarshaler); !ok {
			return fmt.Errorf("wire: %v does not support protobuf; use wire.JSON for %s", t, r.Resource)
		}
		return nil
	default:
		return fmt.Errorf("wire: unknown encoding %q for %s; use wire.JSON or wire.Protobuf", r.encoding, r.Resource)
	}
}

// New returns a new, empty object of the resource. The resource must be valid.
func (r Resource[T]) New() T { return r.make() }

// unmarshaler is implemented by types with generated protobuf code.
type unmarshaler interface{ Unmarshal([]byte) error }

func errNotPointer(t reflect.Type) error {
	return fmt.Errorf("wire: %v is not a pointer to an API type; use a type such as *corev1.Pod", t)
}

// maker returns a function that returns a new value of a pointer type, or nil if the type is not
// a pointer to a struct.
func maker[T any](t reflect.Type) func() T {
	if t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct {
		return nil
	}
	elem := t.Elem()
	return func() T { return reflect.New(elem).Interface().(T) }
}
