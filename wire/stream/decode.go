package stream

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tarnproject/tarn/internal/intern"
	"github.com/tarnproject/tarn/object"
)

// decoder decodes one object. It keeps no reference to the bytes and is safe for concurrent
// use. internal/protodec and internal/jsondec implement it.
type decoder[T any] interface {
	Decode(raw []byte) (T, error)
	// Trim returns raw without dropped fields; it may use buf. It is not ok if it cannot say
	// whether Decode accepts the result.
	Trim(raw []byte, buf *[]byte) (trimmed []byte, ok bool)
}

// partial compiles decoders of some fields, and keeps the last.
type partial[T any] struct {
	compile func(only []object.FieldPath) (decoder[T], error)

	mu     sync.Mutex // guards the fields below
	fields []object.FieldPath
	last   decoder[T]
}

// partsOfSome returns the table for a decoder of some fields: its own, because equal bytes are decoded to
// less than by the decoder of all fields.
func partsOfSome(opts Options) *intern.Parts {
	if opts.DisableSharing {
		return nil
	}
	return intern.NewParts(intern.DefaultPartsLimit / 8)
}

// identifying are the fields that identify an object.
var identifying = []object.FieldPath{{"metadata", "namespace"}, {"metadata", "name"}, {"metadata", "uid"}, {"metadata", "resourceVersion"}}

// decoder returns a decoder of these fields and of those that identify an object. It is nil if
// there is none; a path may not exist.
func (p *partial[T]) decoder(fields []object.FieldPath) decoder[T] {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fields == nil || !slices.EqualFunc(fields, p.fields, slices.Equal[object.FieldPath]) {
		var err error
		if p.last, err = p.compile(append(slices.Clip(fields), identifying...)); err != nil {
			p.last = nil
		}
		p.fields = fields
	}
	return p.last
}

// reading decodes the objects of one response.
type reading[T any] struct {
	codec   codec[T]
	decoder decoder[T]
	// part decodes what the intake's encoder reads of an object; nil if that is all of it.
	part decoder[T]
	// reuse gives an object that part decoded back, after the intake has encoded it; nil if that does not
	// pay. The intake's encoder keeps nothing of it.
	reuse func(T)
	// buffers has buffers for trimmed objects, which the intake encodes: *[]byte. It is nil if the
	// intake does not encode, or transforms.
	buffers *sync.Pool
	// check is the expected kind of the objects of a watch. It is nil for the items of a
	// list, whose kind the list has.
	check *kindCheck
	// in prepares each object before it leaves the goroutine that decoded it.
	in *object.Intake[T]
}

// read decodes an item from its bytes, or sets its Err. It runs on several goroutines and
// does not panic, whatever the bytes are.
func (r *reading[T]) read(raw []byte, item *object.Item[T]) {
	if r.part != nil {
		part := *item
		if obj, err := r.readWith(r.part, raw, &part); err == nil && (part.Encoded != nil || part.Outside) {
			if part.Encoded != nil && r.reuse != nil {
				r.reuse(obj)
			}
			*item = part
			return
		}
		// Decoding all of the object decides whether it is invalid.
	}
	if _, err := r.readWith(r.decoder, raw, item); err != nil {
		r.quarantine(raw, item, err)
	} else if item.Err != nil {
		item.Raw = bytes.Clone(raw)
	}
}

// readWith decodes and prepares an item, and returns what it decoded. It prepares a part only together
// with its bytes.
func (r *reading[T]) readWith(dec decoder[T], raw []byte, item *object.Item[T]) (obj T, err error) {
	var buf *[]byte
	if r.buffers != nil {
		var ok bool
		if buf, ok = r.buffers.Get().(*[]byte); !ok {
			buf = new([]byte)
		}
		defer r.buffers.Put(buf)
	}
	obj, trimmed, err := r.decode(dec, raw, buf)
	if err == nil {
		err = r.finish(obj)
	}
	switch {
	case err != nil:
		return obj, err
	case trimmed == nil && dec == r.part:
		return obj, errPart
	}
	item.Value, item.Raw = object.Decoded(obj), trimmed
	if m := metaOf(obj); m != nil {
		item.Key = object.Key{Namespace: m.GetNamespace(), Name: m.GetName()}
		item.UID = m.GetUID()
		item.Version = object.Version(m.GetResourceVersion())
	}
	r.in.Prepare(item)
	return obj, nil
}

// errPart is why a part of an object is not used.
var errPart = errors.New("its bytes cannot be held unchanged")

// decode calls the decoder, and trims the bytes if buf is not nil; trimmed is nil if they cannot be
// held. It returns a panic as an error, so that one object with unexpected bytes does not end the
// process.
func (r *reading[T]) decode(dec decoder[T], raw []byte, buf *[]byte) (obj T, trimmed []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the decoder panicked: %v", p)
		}
	}()
	if obj, err = dec.Decode(raw); err != nil || buf == nil {
		return obj, nil, err
	}
	trimmed, _ = r.decoder.Trim(raw, buf)
	return obj, trimmed, nil
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
