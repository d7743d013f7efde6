package stream

import (
	"io"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/internal/intern"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire"
)

// codec is an encoding of lists and watches: it splits a body into objects and decodes an
// object. There is one for protobuf and one for JSON; a third needs a type that implements
// codec and a case in codecs.of.
//
// All methods are safe for concurrent use.
type codec[T any] interface {
	// list reads the body of a list.
	list(body io.Reader, limit int, kind kindCheck) listReader
	// frames splits the body of a watch.
	frames(body io.Reader, limit int) frameReader
	// selfNamed reports whether an object's own bytes contain its kind; otherwise its
	// envelope does.
	selfNamed() bool
	// event parses a frame. The result refers to the frame's bytes.
	event(frame []byte) (event, error)

	// peek reads key, UID and version of an object.
	peek(raw []byte) (identity, error)
	// decoder returns the decoder for the items of a list or the objects of a watch.
	decoder(inList bool) decoder[T]
	// part returns the decoder of some fields, for the same; nil if objects are decoded whole.
	part(inList bool, fields []object.FieldPath) decoder[T]
	// bookmark reads the metadata of a bookmark's object.
	bookmark(raw []byte) (*metav1.PartialObjectMetadata, error)
	// status reads the object of an ERROR event.
	status(raw []byte) (*metav1.Status, error)
}

// frameReader splits a stream into frames.
type frameReader interface {
	// Next returns all frames that have been received, and blocks only while there is none.
	// They are valid until the next call. The error is io.EOF if the stream ends between
	// two frames.
	Next() ([][]byte, error)
}

// event is a parsed frame of a watch.
type event struct {
	kind     object.Kind // 0 if the event is not a change
	bookmark bool
	failed   bool
	of       kindBytes // the object's kind, from its envelope; empty if objects are self-named
	raw      []byte    // the object without its envelope
}

// known reports whether this client knows the type of the event.
func (e event) known() bool { return e.kind != 0 || e.bookmark || e.failed }

// errNoType is the error for an event without a type, such as an empty frame.
var errNoType = corrupt("watch event without a type")

// initialEventsEnd is the annotation of the bookmark that ends a streaming list's
// initial events (W02).
const initialEventsEnd = metav1.InitialEventsAnnotationKey

// eventOf returns the event for a type of the watch protocol.
func eventOf(typ []byte) event {
	switch string(typ) {
	case "ADDED":
		return event{kind: object.Added}
	case "MODIFIED":
		return event{kind: object.Updated}
	case "DELETED":
		return event{kind: object.Deleted}
	case "BOOKMARK":
		return event{bookmark: true}
	case "ERROR":
		return event{failed: true}
	}
	return event{}
}

// codecs are the codecs of a resource.
type codecs[T any] struct {
	// proto is nil if the resource is not requested as protobuf.
	proto codec[T]
	// json creates its codec on first use: a proxy or an old server may send JSON even if
	// protobuf was requested, but most do not.
	json func() (codec[T], error)
}

func newCodecs[T any](res wire.Resource[T], opts Options) (codecs[T], error) {
	strings := intern.NewStrings(0)
	cs := codecs[T]{json: sync.OnceValues(func() (codec[T], error) { return newJSONCodec(res, opts, strings) })}
	var err error
	if res.Encoding() == wire.Protobuf {
		cs.proto, err = newProtoCodec(res, opts, strings)
	} else {
		_, err = cs.json()
	}
	return cs, err
}

// of returns the codec of an encoding, or nil if there is none.
func (cs codecs[T]) of(e wire.Encoding) (codec[T], error) {
	switch e {
	case wire.Protobuf:
		return cs.proto, nil
	case wire.JSON:
		return cs.json()
	}
	return nil, nil
}
