package stream

import (
	"bytes"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tarnproject/tarn/object"
)

// decoder decodes one object. It keeps no reference to the bytes and is safe for concurrent
// use. internal/protodec and internal/jsondec implement it.
type decoder[T any] interface {
	Decode(raw []byte) (T, error)
}

// reading decodes the objects of one response.
type reading[T any] struct {
	codec   codec[T]
	decoder decoder[T]
	// check is the expected kind of the objects of a watch. It is nil for the items of a
	// list, whose kind the list has.
	check *kindCheck
	// in prepares each object before it leaves the goroutine that decoded it.
	in *object.Intake[T]
}

// read decodes an item from its bytes, or sets its Err. It runs on several goroutines and
// does not panic, whatever the bytes are.
func (r *reading[T]) read(raw []byte, item *object.Item[T]) {
	obj, err := r.decode(raw)
	if err == nil {
		err = r.finish(obj)
	}
	if err != nil {
		r.quarantine(raw, item, err)
		return
	}
	item.Value = object.Decoded(obj)
	if m := metaOf(obj); m != nil {
		item.Key = object.Key{Namespace: m.GetNamespace(), Name: m.GetName()}
		item.UID = m.GetUID()
		item.Version = object.Version(m.GetResourceVersion())
	}
	r.in.Prepare(item)
	if item.Err != nil {
		item.Raw = bytes.Clone(raw)
	}
}

// decode calls the decoder and returns a panic as an error, so that one object with
// unexpected bytes does not end the process.
func (r *reading[T]) decode(raw []byte) (obj T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the decoder panicked: %v", p)
		}
	}()
	return r.decoder.Decode(raw)
}

// finish checks the kind of an object and removes it from a typed one, so that objects look
// the same in all encodings, from lists and from watches. An unstructured object keeps its
// kind; its decoder sets it.
func (r *reading[T]) finish(obj T) error {
	o, ok := any(obj).(runtime.Object)
	if !ok {
		return nil
	}
	kind := o.GetObjectKind()
	if r.check != nil {
		got := kind.GroupVersionKind()
		if !r.check.names(got) {
			return r.check.wrong(kindText{got.GroupVersion().String(), got.Kind}.String())
		}
	}
	if _, dynamic := o.(*unstructured.Unstructured); !dynamic {
		kind.SetGroupVersionKind(schema.GroupVersionKind{})
	}
	return nil
}

// quarantine sets what is known of an object that cannot be decoded (L11).
func (r *reading[T]) quarantine(raw []byte, item *object.Item[T], err error) {
	item.Err, item.Raw = err, bytes.Clone(raw)
	if id, err := r.codec.peek(raw); err == nil {
		if r.check != nil && len(id.kind.kind) > 0 && !r.check.right(id.kind) {
			item.Err = r.check.wrong(id.kind.String())
		}
		name(&texts{}, item, id)
	}
}

func metaOf(obj any) metav1.Object {
	switch o := obj.(type) {
	case metav1.Object:
		return o
	case metav1.ObjectMetaAccessor:
		return o.GetObjectMeta()
	}
	return nil
}
