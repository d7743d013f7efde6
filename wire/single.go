package wire

import (
	"bytes"
	stdjson "encoding/json"
	"fmt"
	"maps"
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

// magic is the prefix of every protobuf body. A runtime.Unknown follows it.
var magic = []byte("k8s\x00")

// decodeObject decodes one object in any encoding. If kinds are given, the object must have one
// of them.
func decodeObject(data []byte, into any, want ...schema.GroupVersionKind) error {
	if bytes.HasPrefix(data, magic) {
		return decodeProtobuf(data[len(magic):], into, want)
	}
	return decodeJSON(data, into, want)
}

func decodeJSON(data []byte, into any, want []schema.GroupVersionKind) error {
	var got metav1.TypeMeta
	if err := json.UnmarshalCaseSensitivePreserveInts(data, &got); err != nil {
		if text := bytes.TrimSpace(data); len(text) > 0 && (text[0] == '{' || text[0] == '[') {
			// Not quoted, because it may be a Secret.
			return fmt.Errorf("%w: %d bytes of truncated or invalid JSON", object.ErrCorrupt, len(data))
		}
		return fmt.Errorf("%w: the response is not JSON: %q", object.ErrCorrupt, oneLine(data))
	}
	if err := checkKind(got, want); err != nil {
		return err
	}
	empty(into)
	if u, ok := into.(*unstructured.Unstructured); ok {
		into = &u.Object
	}
	if err := json.UnmarshalCaseSensitivePreserveInts(data, into); err != nil {
		return fmt.Errorf("decode %T: %w", into, err)
	}
	return nil
}

func decodeProtobuf(data []byte, into any, want []schema.GroupVersionKind) error {
	var unknown runtime.Unknown
	if err := unknown.Unmarshal(data); err != nil {
		return fmt.Errorf("%w: protobuf envelope: %w", object.ErrCorrupt, err)
	}
	if err := checkKind(metav1.TypeMeta{Kind: unknown.Kind, APIVersion: unknown.APIVersion}, want); err != nil {
		return err
	}
	m, ok := into.(unmarshaler)
	if !ok {
		return fmt.Errorf("the server sent protobuf, which %T does not support", into)
	}
	empty(into)
	if err := m.Unmarshal(unknown.Raw); err != nil {
		return fmt.Errorf("%w: %T: %w", object.ErrCorrupt, into, err)
	}
	return nil
}

// empty resets an object, because decoders merge into existing fields.
func empty(into any) {
	if !isNil(into) {
		reflect.ValueOf(into).Elem().SetZero()
	}
}

func isNil(obj any) bool {
	v := reflect.ValueOf(obj)
	return v.Kind() != reflect.Pointer || v.IsNil()
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

// encodeObject encodes one object with its kind, which the object itself may lack. It does not
// change the object.
func encodeObject(obj any, gvk schema.GroupVersionKind, e Encoding) (contentType string, data []byte, err error) {
	if isNil(obj) {
		return "", nil, errNilObject(obj)
	}
	k, ok := obj.(kinded)
	if !ok {
		return "", nil, fmt.Errorf("%T has no kind; embed metav1.TypeMeta", obj)
	}
	own := k.GetObjectKind().GroupVersionKind()
	switch {
	case own.Empty() && gvk.Empty():
		return "", nil, fmt.Errorf("the kind of %T is not known; set its apiVersion and kind", obj)
	case gvk.Empty():
		gvk = own
	case !own.Empty() && own != gvk:
		return "", nil, fmt.Errorf("the object is a %s, want %s", own, gvk)
	}
	if e == Protobuf {
		data, err = encodeProtobuf(obj, gvk)
		return typeProtobuf, data, err
	}
	if own != gvk {
		obj = withKind(obj, gvk)
	}
	if u, ok := obj.(*unstructured.Unstructured); ok {
		obj = u.Object // its own MarshalJSON adds a line feed and a copy
	}
	if data, err = stdjson.Marshal(obj); err != nil {
		return "", nil, fmt.Errorf("encode %T: %w", obj, err)
	}
	return typeJSON, data, nil
}

func errNilObject(obj any) error { return fmt.Errorf("no object to send: %T is nil", obj) }

// withKind returns a shallow copy of an object with another kind.
func withKind(obj any, gvk schema.GroupVersionKind) any {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		shallow := make(map[string]any, len(u.Object)+2)
		maps.Copy(shallow, u.Object)
		obj = &unstructured.Unstructured{Object: shallow}
	} else {
		shallow := reflect.New(reflect.TypeOf(obj).Elem())
		shallow.Elem().Set(reflect.ValueOf(obj).Elem())
		obj = shallow.Interface()
	}
	obj.(kinded).GetObjectKind().SetGroupVersionKind(gvk)
	return obj
}

func encodeProtobuf(obj any, gvk schema.GroupVersionKind) ([]byte, error) {
	m, ok := obj.(interface{ Marshal() ([]byte, error) })
	if !ok {
		return nil, fmt.Errorf("%T does not support protobuf", obj)
	}
	raw, err := m.Marshal()
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", obj, err)
	}
	unknown := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind}, Raw: raw}
	data := make([]byte, len(magic)+unknown.Size())
	copy(data, magic)
	if _, err := unknown.MarshalTo(data[len(magic):]); err != nil {
		return nil, fmt.Errorf("encode %T: %w", obj, err)
	}
	return data, nil
}
