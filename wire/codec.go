package wire

import (
	"io"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/internal/intern"
	"github.com/tarnproject/tarn/object"
)

// codec is an encoding in which lists and watches travel: how a body is split into
// objects, and how an object is read. There is one for protobuf and one for JSON; a
// third needs a value of this type and a case in codecs.of.
//
// All methods may be called from any goroutine.
type codec[T any] interface {
	// list reads the body of a list.
	list(body io.Reader, limit int, kind kindCheck) listReader
	// frames splits the body of a watch.
	frames(body io.Reader, limit int) frameReader
	// selfNamed reports whether an object's own bytes say its kind; otherwise its
	// envelope does.
	selfNamed() bool
	// event opens a frame. What it returns lies in the frame.
	event(frame []byte) (event, error)
	// glance is event for the common form of a frame, told by its first bytes. It
	// may be wrong about where the object ends: where the object then cannot be
	// read, event decides. It reports false for any other frame.
	glance(frame []byte) (event, bool)

	// peek reads who an object is.
	peek(raw []byte) (identity, error)
	// decoder returns what reads the objects of a list or of a watch.
	decoder(inList bool) decoder[T]
	// bookmark reads the metadata of a bookmark's object.
	bookmark(raw []byte) (*metav1.PartialObjectMetadata, error)
	// status reads the object of an ERROR event.
	status(raw []byte) (*metav1.Status, error)
}

// frameReader splits a stream into frames.
type frameReader interface {
	// Next returns all frames that have been received, at least one, and waits only
	// while there is none. They are valid until the next call. The error is io.EOF
	// where the stream ends between two frames.
	Next() ([][]byte, error)
}

// event is a frame of a watch, opened.
type event struct {
	kind     object.Kind // 0 where the event is not a change
	bookmark bool
	failed   bool
	of       kindBytes // the object's kind by its envelope; empty where objects are self-named
	raw      []byte    // the object without its envelope
}

// known reports whether the event is of a type that this client knows.
func (e event) known() bool { return e.kind != 0 || e.bookmark || e.failed }

// errNoType is what is wrong with an event that says nothing. An empty frame is one.
var errNoType = corrupt("a watch event without a type")

// initialEventsEnd is the annotation of the bookmark that ends a streaming list's
// initial events (W02).
const initialEventsEnd = metav1.InitialEventsAnnotationKey

// eventOf returns the event of a type as the watch protocol spells it.
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

// codecs are those of the encodings that a resource may come in.
type codecs[T any] struct {
	// proto is nil for a resource that does not come as protobuf.
	proto codec[T]
	// json makes its codec when it is first needed: JSON may come whatever one asks
	// for, from proxies and old servers, but mostly does not.
	json func() (codec[T], error)
}

func newCodecs[T any](res Resource[T], opts SourceOptions) (codecs[T], error) {
	strings := intern.NewStrings(0)
	cs := codecs[T]{json: sync.OnceValues(func() (codec[T], error) { return newJSONCodec(res, opts, strings) })}
	var err error
	if res.encoding == Protobuf {
		cs.proto, err = newProtoCodec(res, opts, strings)
	} else {
		_, err = cs.json()
	}
	return cs, err
}

// of returns the codec of an encoding, nil where there is none.
func (cs codecs[T]) of(e Encoding) (codec[T], error) {
	switch e {
	case Protobuf:
		return cs.proto, nil
	case JSON:
		return cs.json()
	}
	return nil, nil
}
