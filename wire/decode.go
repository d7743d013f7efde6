package wire

import (
	"bytes"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tarnproject/tarn/object"
)

// decoder reads one object from its bytes, of which it keeps nothing. It may be used
// by several goroutines. The decoders of internal/protodec and internal/jsondec are
// such.
type decoder[T any] interface {
	Decode(raw []byte) (T, error)
}

// reading is how the objects of one answer are read.
type reading[T any] struct {
	codec   codec[T]
	decoder decoder[T]
	// check is what the objects of a watch must say they are; nil for the items of a
	// list, of which the list speaks.
	check *kindCheck
	// in prepares each object before it leaves the goroutine that decoded it.
	in *object.Intake[T]
}

// read makes the object of an item from its bytes, or says why there is none. It is
// what runs on other cores: whatever the bytes, it returns.
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

// decode calls the codec. A decoder that panics has met bytes that nobody thought
// of: the object goes to quarantine with them, and the process lives on.
func (r *reading[T]) decode(raw []byte) (obj T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the decoder panicked: %v", p)
		}
	}()
	return r.decoder.Decode(raw)
}

// finish makes the objects of all encodings, of lists and of watches look the same:
// a typed object does not repeat its kind. An unstructured one has it, by its decoder.
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

// quarantine keeps what is known of an object that cannot be decoded (L11).
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
