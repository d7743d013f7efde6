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
	return store.Packed(encodeJSON[X], decodeJSON[X])
}

func encodeJSON[X any](obj *X) ([]byte, error) {
	if u, ok := any(obj).(*unstructured.Unstructured); ok {
		return utiljson.Marshal(u.Object)
	}
	return utiljson.Marshal(obj)
}

// decodeJSON makes whole numbers int64 where they have no type. An unstructured object
// would not read one without a kind by itself, which items of lists may be.
func decodeJSON[X any](data []byte) (*X, error) {
	obj := new(X)
	if u, ok := any(obj).(*unstructured.Unstructured); ok {
		return obj, utiljson.Unmarshal(data, &u.Object)
	}
	return obj, utiljson.Unmarshal(data, obj)
}
