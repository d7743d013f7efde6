package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"

	"github.com/tarnproject/tarn/internal/intern"
	"github.com/tarnproject/tarn/internal/jsondec"
)

// jsonCodec reads JSON.
type jsonCodec[T any] struct {
	// The items of a list may leave their kind to the list; the objects of a watch
	// may not. They differ for unstructured objects only.
	items, objects decoder[T]
}

func newJSONCodec[T any](res Resource[T], opts SourceOptions, strings *intern.Strings) (codec[T], error) {
	jo := jsondec.Options{Drop: opts.Drop, Strings: strings}
	if !opts.DisableSharing {
		jo.Share = intern.NewParts(0)
	}
	objects, err := jsondec.For[T](jo)
	if err != nil {
		return nil, fmt.Errorf("wire: decoding %s: %w", res.Resource, err)
	}
	if res.form != dynamic {
		return jsonCodec[T]{items: objects, objects: objects}, nil
	}
	jo.Kind, jo.APIVersion = res.Kind, res.GVK().GroupVersion().String()
	items, err := jsondec.For[T](jo)
	if err != nil {
		return nil, fmt.Errorf("wire: decoding %s: %w", res.Resource, err)
	}
	return jsonCodec[T]{items: items, objects: objects}, nil
}

func (c jsonCodec[T]) list(body io.Reader, limit int, kind kindCheck) listReader {
	return newJSONList(body, limit, kind)
}

func (c jsonCodec[T]) frames(body io.Reader, limit int) frameReader {
	return jsondec.NewFrames(body, limit)
}

func (c jsonCodec[T]) selfNamed() bool { return true }

func (c jsonCodec[T]) event(frame []byte) (event, error) {
	typ, raw, err := jsondec.SplitEvent(frame)
	if err == nil && len(typ) == 0 {
		err = errNoType
	}
	e := eventOf(typ)
	e.raw = raw
	return e, err
}

// glance knows what a server in Go writes: the type first, then the object, and
// nothing else. Finding where the object ends is a pass over all its bytes, which
// peeking and decoding make anyway.
func (c jsonCodec[T]) glance(frame []byte) (event, bool) {
	rest, ok := bytes.CutPrefix(frame, []byte(`{"type":"`))
	if !ok {
		return event{}, false
	}
	typ, _, ok := bytes.Cut(rest[:min(len(rest), 32)], []byte(`","object":{`))
	if !ok {
		return event{}, false
	}
	e := eventOf(typ)
	if e.kind == 0 {
		return event{}, false
	}
	from := len(`{"type":"`) + len(typ) + len(`","object":`)
	e.raw = bytes.TrimRight(frame[from:len(frame)-1], " \t\r\n")
	return e, true
}

func (c jsonCodec[T]) peek(raw []byte) (identity, error) {
	id, err := jsondec.Peek(raw)
	return fromJSON(id), err
}

func fromJSON(id jsondec.Identity) identity {
	return identity{
		namespace: id.Namespace, name: id.Name, uid: id.UID, version: id.Version,
		kind: kindBytes{apiVersion: id.APIVersion, kind: id.Kind},
	}
}

func (c jsonCodec[T]) decoder(inList bool) decoder[T] {
	if inList {
		return c.items
	}
	return c.objects
}

func (c jsonCodec[T]) bookmark(raw []byte) (*metav1.PartialObjectMetadata, error) {
	var m metav1.PartialObjectMetadata
	if err := readJSON(raw, &m); err != nil {
		return nil, corrupt("bookmark: %w", err)
	}
	return &m, nil
}

func (c jsonCodec[T]) status(raw []byte) (*metav1.Status, error) {
	var st metav1.Status
	if err := readJSON(raw, &st); err != nil {
		return nil, corrupt("Status: %w", err)
	}
	return &st, nil
}

// errForm says that JSON is not of the form it should have. It stands in for the
// decoder's own error, which may quote the bytes.
var errForm = errors.New("not of the expected form")

// readJSON reads the small things around objects as apimachinery does.
func readJSON(raw []byte, into any) error {
	if kjson.UnmarshalCaseSensitivePreserveInts(raw, into) != nil {
		return errForm
	}
	return nil
}
