package tarn

import (
	"fmt"

	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire"
	"github.com/tarnproject/tarn/wire/stream"
)

// message is implemented by API types with generated protobuf code.
type message interface{ Marshal() ([]byte, error) }

// encodingOf returns how objects are encoded that a transform changed, or that are held decoded, and what decodes these
// and those that the source receives.
func encodingOf[P Object](source *stream.Source[P], res wire.Resource[P]) (encode func(P) ([]byte, error), decode func([]byte) (P, error)) {
	encode = func(obj P) ([]byte, error) { return utiljson.Marshal(obj) }
	if _, ok := any(res.New()).(message); ok && res.Encoding() == wire.Protobuf {
		encode = func(obj P) ([]byte, error) { return any(obj).(message).Marshal() }
	}
	return encode, source.Decode
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
	return source.Decode, nil
}
