package stream

import (
	"errors"
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kjson "sigs.k8s.io/json"

	"github.com/tarnproject/tarn/internal/intern"
	"github.com/tarnproject/tarn/internal/jsondec"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire"
)

// jsonCodec reads JSON.
type jsonCodec[T any] struct {
	// The items of a list may omit their kind; the objects of a watch may not. The two
	// differ for unstructured objects only.
	items, objects decoder[T]
	// Their parts are nil if objects are decoded whole.
	itemParts, objectParts *partial[T]
}

func newJSONCodec[T any](res wire.Resource[T], opts Options, strings *intern.Strings) (codec[T], error) {
	jo := jsondec.Options{Type: res.Type(), Drop: opts.Drop, Strings: strings, Whole: opts.Whole}
	if !opts.DisableSharing {
		jo.Share = intern.NewParts(0)
	}
	objects, err := jsondec.For[T](jo)
	if err != nil {
		return nil, fmt.Errorf("stream: decoding %s: %w", res.Resource, err)
	}
	if _, ok := any(res.New()).(*unstructured.Unstructured); !ok {
		return jsonCodec[T]{items: objects, objects: objects}, nil
	}
	ji := jo
	ji.Kind, ji.APIVersion = res.Kind, res.GVK().GroupVersion().String()
	items, err := jsondec.For[T](ji)
	if err != nil {
		return nil, fmt.Errorf("stream: decoding %s: %w", res.Resource, err)
	}
	parts := func(of jsondec.Options) *partial[T] {
		return &partial[T]{compile: func(only []object.FieldPath) (decoder[T], error) {
			some := of
			some.Only, some.Share = only, partsOfSome(opts)
			return jsondec.For[T](some)
		}}
	}
	return jsonCodec[T]{items: items, objects: objects, itemParts: parts(ji), objectParts: parts(jo)}, nil
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

func (c jsonCodec[T]) part(inList bool, fields []object.FieldPath) decoder[T] {
	switch {
	case c.objectParts == nil:
		return nil
	case inList:
		return c.itemParts.decoder(fields)
	}
	return c.objectParts.decoder(fields)
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

// errForm replaces the errors of the JSON decoder, which may quote the bytes.
var errForm = errors.New("not valid JSON of the expected type")

// readJSON decodes list metadata, bookmarks and Statuses as apimachinery does.
func readJSON(raw []byte, into any) error {
	if kjson.UnmarshalCaseSensitivePreserveInts(raw, into) != nil {
		return errForm
	}
	return nil
}
