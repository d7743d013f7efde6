package tarn

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/tarnproject/tarn/store"
	"github.com/tarnproject/tarn/wire"
)

// message is implemented by API types with generated protobuf code.
type message interface {
	Marshal() ([]byte, error)
	Unmarshal(data []byte) error
}

// compactForm holds objects in their wire encoding, compressed against a dictionary of what
// they have in common.
func compactForm[P Pointer[X], X any](res wire.Resource[P]) store.Form[P] {
	if _, ok := any(res.New()).(message); ok && res.Encoding() == wire.Protobuf {
		return store.Packed(
			func(obj P) ([]byte, error) { return any(obj).(message).Marshal() },
			func(data []byte) (P, error) {
				obj := res.New()
				return obj, any(obj).(message).Unmarshal(data)
			},
		)
	}
	if _, ok := any(res.New()).(*unstructured.Unstructured); ok {
		return store.Packed(
			func(obj P) ([]byte, error) { return encodeTree(any(obj).(*unstructured.Unstructured)) },
			func(data []byte) (P, error) {
				u, err := decodeTree(data)
				return any(u).(P), err
			},
		)
	}
	return store.Packed(
		func(obj P) ([]byte, error) { return utiljson.Marshal(obj) },
		func(data []byte) (P, error) {
			obj := res.New()
			return obj, utiljson.Unmarshal(data, obj)
		},
	)
}

// encodeTree and decodeTree round-trip exactly, including the types of numbers.
func encodeTree(u *unstructured.Unstructured) ([]byte, error) {
	return appendTree(nil, u.Object, 0)
}

func decodeTree(data []byte) (*unstructured.Unstructured, error) {
	v, rest, err := readTree(string(data))
	m, ok := v.(map[string]any)
	if err == nil && (!ok || rest != "") {
		err = errTree
	}
	return &unstructured.Unstructured{Object: m}, err
}

// unmarshalTree decodes whole numbers as int64, as apimachinery does.
func unmarshalTree(data []byte, into *any) error { return utiljson.Unmarshal(data, into) }
