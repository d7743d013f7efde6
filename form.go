package tarn

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/tarnproject/tarn/store"
	"github.com/tarnproject/tarn/wire"
	"github.com/tarnproject/tarn/wire/stream"
)

// message is implemented by API types with generated protobuf code.
type message interface{ Marshal() ([]byte, error) }

// compactForm holds objects as the source receives them, compressed against a dictionary of what
// they have in common. Those that a transform changed are encoded again.
func compactForm[P Pointer[X], X any](source *stream.Source[P], res wire.Resource[P]) store.Form[P] {
	encode, decode := func(obj P) ([]byte, error) { return utiljson.Marshal(obj) }, source.Decode
	if _, ok := any(res.New()).(message); ok && res.Encoding() == wire.Protobuf {
		encode = func(obj P) ([]byte, error) { return any(obj).(message).Marshal() }
	}
	if _, ok := any(res.New()).(*unstructured.Unstructured); ok {
		encode = func(obj P) ([]byte, error) { return encodeTree(any(obj).(*unstructured.Unstructured)) }
		decode = func(data []byte) (P, error) {
			if len(data) > 0 && data[0] == '{' {
				return source.Decode(data)
			}
			u, err := decodeTree(data)
			return any(u).(P), err
		}
	}
	return store.PackedWire(encode, decode)
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
