package wire

import (
	"bytes"
	stdjson "encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strings"

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

// Result is the answer to a request, read whole.
type Result struct {
	// Code is the HTTP status: 2xx.
	Code   int
	Header http.Header

	call Call
	data []byte
}

// Raw returns the body, decompressed.
func (r *Result) Raw() []byte { return r.data }

// Into decodes the body into an object: protobuf into what has it, JSON into
// anything, with int64 for whole numbers in untyped values. An object of another
// kind than into says it is, where it says one, is an [object.ErrWrongKind].
func (r *Result) Into(into any) error {
	if k, ok := into.(kinded); ok {
		if gvk := k.GetObjectKind().GroupVersionKind(); !gvk.Empty() {
			return r.into(into, gvk)
		}
	}
	return r.into(into)
}

func (r *Result) into(into any, want ...schema.GroupVersionKind) error {
	if err := decodeObject(r.data, into, want...); err != nil {
		return &TransportError{Call: r.call, Err: err, Attempts: 1}
	}
	return nil
}

// kinded is what metav1.TypeMeta makes of a struct that embeds it.
type kinded interface{ GetObjectKind() schema.ObjectKind }

// decodeObject reads one object of one of the kinds, or of any when there are none.
func decodeObject(data []byte, into any, want ...schema.GroupVersionKind) error {
	if raw, ok := bytes.CutPrefix(data, magic); ok {
		return decodeProtobuf(raw, into, want)
	}
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

func decodeProtobuf(raw []byte, into any, want []schema.GroupVersionKind) error {
	var unknown runtime.Unknown
	if err := unknown.Unmarshal(raw); err != nil {
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
	if e == Protobuf {
		m, ok := obj.(interface{ Marshal() ([]byte, error) })
		if !ok {
			return "", nil, fmt.Errorf("%T has no protobuf form", obj)
		}
		raw, err := m.Marshal()
		if err != nil {
			return "", nil, fmt.Errorf("encoding %T: %w", obj, err)
		}
		unknown := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind}, Raw: raw}
		data := make([]byte, len(magic)+unknown.Size())
		copy(data, magic)
		if _, err := unknown.MarshalTo(data[len(magic):]); err != nil {
			return "", nil, fmt.Errorf("encoding %T: %w", obj, err)
		}
		return typeProtobuf, data, nil
	}
	data, err = encodeJSON(obj, own, gvk)
	return typeJSON, data, err
}

func encodeJSON(obj any, own, gvk schema.GroupVersionKind) ([]byte, error) {
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

// accept returns the content types to ask for, best first. JSON always comes last:
// an aggregated server may know nothing else, and whole objects have metadata too.
func accept(e Encoding, metadataOnly bool) string {
	types := []string{typeJSON}
	if e == Protobuf {
		types = []string{typeProtobuf, typeJSON}
	}
	if metadataOnly {
		for i := range types {
			types[i] += ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
		}
		types = append(types, typeJSON)
	}
	return strings.Join(types, ",")
}
