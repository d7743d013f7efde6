package tarn

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/store"
	"github.com/tarnproject/tarn/wire"
	"github.com/tarnproject/tarn/wire/stream"
)

// message is implemented by API types with generated protobuf code.
type message interface{ Marshal() ([]byte, error) }

// compactForm holds objects as the source receives them, compressed against a dictionary of what
// they have in common. Those that a transform changed are encoded again.
func compactForm[P Object](source *stream.Source[P], res wire.Resource[P]) *store.Form[P] {
	encode := func(obj P) ([]byte, error) { return utiljson.Marshal(obj) }
	if _, ok := any(res.New()).(message); ok && res.Encoding() == wire.Protobuf {
		encode = func(obj P) ([]byte, error) { return any(obj).(message).Marshal() }
	}
	if isTree(res) {
		encode = func(obj P) ([]byte, error) { return encodeTree(any(obj).(*unstructured.Unstructured)) }
	}
	return store.Packed(encode, decoderOf(source, res))
}

func isTree[P Object](res wire.Resource[P]) bool {
	_, ok := any(res.New()).(*unstructured.Unstructured)
	return ok
}

// decoderOf returns what decodes the objects of a compact form.
func decoderOf[P Object](source *stream.Source[P], res wire.Resource[P]) func([]byte) (P, error) {
	if !isTree(res) {
		return source.Decode
	}
	return func(data []byte) (P, error) {
		if len(data) > 0 && data[0] == '{' {
			return source.Decode(data)
		}
		u, err := decodeTree(data)
		return any(u).(P), err
	}
}

// DecoderFor returns what decodes the encoded objects of a compact mirror of a [wire.Like] resource as
// objects of obj's Go type, for a store.Reading. The type must have the encoding of the mirror's resource;
// a metav1.PartialObjectMetadata can be decoded from each. Objects share no parts.
func (m *Mirror[T]) DecoderFor(obj T) (func([]byte) (T, error), error) {
	own := m.api.Resource()
	res := wire.Like(own.Resource, obj).Encoded(own.Encoding())
	source, err := stream.NewSource(wire.For(m.cluster.client, res), object.Selection{}, stream.Options{DisableSharing: true})
	if err != nil {
		return nil, fmt.Errorf("tarn: %s: %w", m.Name(), err)
	}
	return decoderOf(source, res), nil
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
