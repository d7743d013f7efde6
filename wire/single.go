package wire

import (
	"bytes"
	stdjson "encoding/json"
	"fmt"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/json"

	"github.com/tarnproject/tarn/object"
)

// Content types of single objects.
const (
	typeJSON     = "application/json"
	typeProtobuf = "application/vnd.kubernetes.protobuf"
)

// single is an encoding in which single objects travel; [codec] is the same for lists and
// watches. A third needs a value of this type and a line in singles.
type single interface {
	mediaType() string
	// begins reports whether data looks like it.
	begins(data []byte) bool
	// decode reads one object of one of the kinds, or of any when there are none.
	decode(data []byte, into any, want []schema.GroupVersionKind) error
	// encode writes an object, whose own kind, if any, this is, as one of another kind.
	encode(obj any, own, gvk schema.GroupVersionKind) ([]byte, error)
}

// singles are the encodings; the last one takes whatever no other begins with.
var singles = []struct {
	Encoding
	single
}{{Protobuf, singleProtobuf{}}, {JSON, singleJSON{}}}

// singleOf returns that of an encoding. That it is a known one has been checked.
func singleOf(e Encoding) single {
	for _, b := range singles {
		if b.Encoding == e {
			return b.single
		}
	}
	return singleJSON{}
}

// decodeObject reads one object of one of the kinds, or of any when there are none, in
// whatever encoding it is.
func decodeObject(data []byte, into any, want ...schema.GroupVersionKind) error {
	for _, b := range singles {
		if b.begins(data) {
			return b.decode(data, into, want)
		}
	}
	return fmt.Errorf("%w: the answer is in no known encoding", object.ErrCorrupt)
}

type singleJSON struct{}

func (singleJSON) mediaType() string  { return typeJSON }
func (singleJSON) begins([]byte) bool { return true }

func (singleJSON) decode(data []byte, into any, want []schema.GroupVersionKind) error {
	var got metav1.TypeMeta
	if err := json.UnmarshalCaseSensitivePreserveInts(data, &got); err != nil {
		if text := bytes.TrimSpace(data); len(text) > 0 && (text[0] == '{' || text[0] == '[') {
			// It may be half a Secret.
			return fmt.Errorf("%w: %d bytes of JSON that is cut off or broken", object.ErrCorrupt, len(data))
		}
		return fmt.Errorf("%w: the answer is not JSON: %q", object.ErrCorrupt, oneLine(data))
	}
	if err := checkKind(got, want); err != nil {
		return err
	}
	empty(into)
	if u, ok := into.(*unstructured.Unstructured); ok {
		into = &u.Object
	}
	if err := json.UnmarshalCaseSensitivePreserveInts(data, into); err != nil {
		return fmt.Errorf("decoding %T: %w", into, err)
	}
	return nil
}

func (singleJSON) encode(obj any, own, gvk schema.GroupVersionKind) ([]byte, error) {
	if own != gvk {
		if u, ok := obj.(*unstructured.Unstructured); ok {
			shallow := make(map[string]any, len(u.Object)+2)
			for k, v := range u.Object {
				shallow[k] = v
			}
			obj = &unstructured.Unstructured{Object: shallow}
		} else {
			shallow := reflect.New(reflect.TypeOf(obj).Elem())
			shallow.Elem().Set(reflect.ValueOf(obj).Elem())
			obj = shallow.Interface()
		}
		obj.(kinded).GetObjectKind().SetGroupVersionKind(gvk)
	}
	if u, ok := obj.(*unstructured.Unstructured); ok {
		obj = u.Object // its own MarshalJSON adds a line feed and a copy
	}
	data, err := stdjson.Marshal(obj)
	if err != nil {
		return nil, fmt.Errorf("encoding %T: %w", obj, err)
	}
	return data, nil
}

type singleProtobuf struct{}

func (singleProtobuf) mediaType() string       { return typeProtobuf }
func (singleProtobuf) begins(data []byte) bool { return bytes.HasPrefix(data, magic) }

func (singleProtobuf) decode(data []byte, into any, want []schema.GroupVersionKind) error {
	var unknown runtime.Unknown
	if err := unknown.Unmarshal(data[len(magic):]); err != nil {
		return fmt.Errorf("%w: the protobuf envelope: %w", object.ErrCorrupt, err)
	}
	if err := checkKind(metav1.TypeMeta{Kind: unknown.Kind, APIVersion: unknown.APIVersion}, want); err != nil {
		return err
	}
	m, ok := into.(interface{ Unmarshal([]byte) error })
	if !ok {
		return fmt.Errorf("the server sent protobuf, which %T cannot be read from", into)
	}
	empty(into)
	if err := m.Unmarshal(unknown.Raw); err != nil {
		return fmt.Errorf("%w: %T: %w", object.ErrCorrupt, into, err)
	}
	return nil
}

func (singleProtobuf) encode(obj any, _, gvk schema.GroupVersionKind) ([]byte, error) {
	m, ok := obj.(interface{ Marshal() ([]byte, error) })
	if !ok {
		return nil, fmt.Errorf("%T has no protobuf form", obj)
	}
	raw, err := m.Marshal()
	if err != nil {
		return nil, fmt.Errorf("encoding %T: %w", obj, err)
	}
	unknown := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind}, Raw: raw}
	data := make([]byte, len(magic)+unknown.Size())
	copy(data, magic)
	if _, err := unknown.MarshalTo(data[len(magic):]); err != nil {
		return nil, fmt.Errorf("encoding %T: %w", obj, err)
	}
	return data, nil
}

// empty makes an object what it was when it was new: decoders add to what there is.
func empty(into any) {
	if v := reflect.ValueOf(into); v.Kind() == reflect.Pointer && !v.IsNil() {
		v.Elem().SetZero()
	}
}

func checkKind(got metav1.TypeMeta, want []schema.GroupVersionKind) error {
	if len(want) == 0 {
		return nil
	}
	for _, w := range want {
		if got.Kind == w.Kind && got.APIVersion == w.GroupVersion().String() {
			return nil
		}
	}
	return &object.WrongKindError{
		Want: fmt.Sprintf("%s, Kind=%s", want[0].GroupVersion(), want[0].Kind),
		Got:  fmt.Sprintf("%.64s, Kind=%.64s", got.APIVersion, got.Kind),
	}
}

// encodeObject writes one object with its kind, which the object itself need not
// have. The object is not changed.
func encodeObject(obj any, gvk schema.GroupVersionKind, e Encoding) (contentType string, data []byte, err error) {
	v := reflect.ValueOf(obj)
	if v.Kind() != reflect.Pointer || v.IsNil() {
		return "", nil, fmt.Errorf("no object to send: %T is nil", obj)
	}
	k, ok := obj.(kinded)
	if !ok {
		return "", nil, fmt.Errorf("%T has no kind; embed metav1.TypeMeta", obj)
	}
	own := k.GetObjectKind().GroupVersionKind()
	switch {
	case own.Empty() && gvk.Empty():
		return "", nil, fmt.Errorf("the kind of %T is not known here; set its apiVersion and kind", obj)
	case gvk.Empty():
		gvk = own
	case !own.Empty() && own != gvk:
		return "", nil, fmt.Errorf("the object says that it is %s, but %s is to be sent", own, gvk)
	}
	b := singleOf(e)
	data, err = b.encode(obj, own, gvk)
	return b.mediaType(), data, err
}
