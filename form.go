package tarn

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/tarnproject/tarn/store"
	"github.com/tarnproject/tarn/wire"
)

// message is what generated protobuf makes of an API type.
type message interface {
	Marshal() ([]byte, error)
	Unmarshal(data []byte) error
}

// compactForm holds objects in the encoding in which they travel, and what is alike in them
// once.
func compactForm[X any](res wire.Resource[*X]) store.Form[*X] {
	if _, ok := any(res.New()).(message); ok && res.Encoding() == wire.Protobuf {
		return store.Packed(
			func(obj *X) ([]byte, error) { return any(obj).(message).Marshal() },
			func(data []byte) (*X, error) {
				obj := new(X)
				return obj, any(obj).(message).Unmarshal(data)
			},
		)
	}
	if _, ok := any(res.New()).(*unstructured.Unstructured); ok {
		return store.Packed(
			func(obj *X) ([]byte, error) { return encodeTree(any(obj).(*unstructured.Unstructured)) },
			func(data []byte) (*X, error) {
				u, err := decodeTree(data)
				return any(u).(*X), err
			},
		)
	}
	return store.Packed(
		func(obj *X) ([]byte, error) { return utiljson.Marshal(obj) },
		func(data []byte) (*X, error) {
			obj := new(X)
			return obj, utiljson.Unmarshal(data, obj)
		},
	)
}

// encodeTree and decodeTree are exact: what is decoded is equal to what was encoded, down to
// the types of its numbers.
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

// unmarshalTree makes whole numbers int64, as apimachinery does.
func unmarshalTree(data []byte, into *any) error { return utiljson.Unmarshal(data, into) }
