package stream

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/internal/intern"
	"github.com/tarnproject/tarn/internal/protodec"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire"
)

// protoCodec reads Kubernetes' protobuf.
type protoCodec[T any] struct {
	objects decoder[T]
	parts   *partial[T] // nil if objects are decoded whole
	buffers *sync.Pool  // of *[]byte, for lists
}

func newProtoCodec[T any](res wire.Resource[T], opts Options, strings *intern.Strings) (codec[T], error) {
	if cause := protodec.Supported(res.Type()); cause != nil {
		if len(opts.Drop) > 0 {
			return nil, fmt.Errorf("stream: fields of %s cannot be dropped: %w; use Encoded(wire.JSON)", res.Resource, cause)
		}
		return protoCodec[T]{objects: &generatedDecoder[T]{make: res.New}, buffers: &sync.Pool{}}, nil
	}
	po := protodec.Options{Type: res.Type(), Drop: opts.Drop, Strings: strings}
	if !opts.DisableSharing {
		po.Share = intern.NewParts(0)
	}
	objects, err := protodec.For[T](po)
	if err != nil {
		return nil, fmt.Errorf("stream: decoding %s: %w", res.Resource, err)
	}
	parts := &partial[T]{compile: func(only []object.FieldPath) (decoder[T], error) {
		some := po
		some.Only, some.Share = only, partsOfSome(opts)
		return protodec.For[T](some)
	}}
	return protoCodec[T]{objects: objects, parts: parts, buffers: &sync.Pool{}}, nil
}

func (c protoCodec[T]) list(body io.Reader, limit int, kind kindCheck) listReader {
	p := &protoList{in: buffer{r: body, limit: limit}, kind: kind, buffers: c.buffers}
	if b, ok := c.buffers.Get().(*[]byte); ok {
		p.in.buf = *b
	}
	return p
}

func (c protoCodec[T]) frames(body io.Reader, limit int) frameReader {
	return &protoFrames{in: buffer{r: body, limit: limit}}
}

func (c protoCodec[T]) selfNamed() bool { return false }

func (c protoCodec[T]) event(frame []byte) (event, error) {
	typ, raw, err := openWatchEvent(frame)
	if err == nil && len(typ) == 0 {
		err = errNoType
	}
	if err != nil {
		return event{}, err
	}
	e := eventOf(typ)
	if !e.known() {
		return e, nil
	}
	env, err := openEnvelope(raw)
	e.of, e.raw = env.kind, env.raw
	return e, err
}

func (c protoCodec[T]) peek(raw []byte) (identity, error) { return peekProto(raw) }

func peekProto(raw []byte) (identity, error) {
	id, err := protodec.Peek(raw)
	return identity{namespace: id.Namespace, name: id.Name, uid: id.UID, version: id.ResourceVersion}, err
}

func (c protoCodec[T]) decoder(bool) decoder[T] { return c.objects }

func (c protoCodec[T]) part(_ bool, fields []object.FieldPath) decoder[T] {
	if c.parts == nil {
		return nil
	}
	return c.parts.decoder(fields)
}

func (c protoCodec[T]) bookmark(raw []byte) (*metav1.PartialObjectMetadata, error) {
	// Metadata is field 1 of every object; other fields are skipped.
	var m metav1.PartialObjectMetadata
	if err := m.Unmarshal(raw); err != nil {
		return nil, corrupt("bookmark: %w", err)
	}
	return &m, nil
}

func (c protoCodec[T]) status(raw []byte) (*metav1.Status, error) {
	var st metav1.Status
	if err := st.Unmarshal(raw); err != nil {
		return nil, corrupt("Status: %w", err)
	}
	return &st, nil
}

// generatedDecoder calls the generated Unmarshal of a type that protodec does not support.
type generatedDecoder[T any] struct{ make func() T }

// Decode decodes an object.
func (d *generatedDecoder[T]) Decode(raw []byte) (T, error) {
	obj := d.make()
	u, ok := any(obj).(interface{ Unmarshal([]byte) error })
	if !ok {
		return obj, fmt.Errorf("%T has no protobuf form", obj)
	}
	if err := u.Unmarshal(raw); err != nil {
		return obj, err
	}
	return obj, nil
}

// Trim returns raw: fields of such types cannot be dropped. A brace would be taken for JSON.
func (d *generatedDecoder[T]) Trim(raw []byte, _ *[]byte) ([]byte, bool) {
	return raw, len(raw) == 0 || raw[0] != '{'
}

// protoFrames splits a protobuf watch: the length of each frame precedes it, in four bytes, big
// endian.
type protoFrames struct {
	in   buffer
	out  [][]byte
	held int // bytes of out, not yet consumed
}

const frameHeader = 4

// errOverlong is the cause for a frame that exceeds the limit.
var errOverlong = errors.New("larger than the limit")

// Next returns all frames that have been received.
func (f *protoFrames) Next() ([][]byte, error) {
	f.in.consume(f.held)
	f.held, f.out = 0, f.out[:0]
	for {
		b := f.in.unread()
		for len(b) >= frameHeader {
			length := binary.BigEndian.Uint32(b)
			if uint64(length) > uint64(f.in.limit) { // it may overflow an int
				if len(f.out) > 0 {
					return f.out, nil // the next call returns the error
				}
				return nil, corrupt("a frame of %d bytes is %w of %d", length, errOverlong, f.in.limit)
			}
			n := int(length)
			if len(b) < frameHeader+n {
				break
			}
			f.out = append(f.out, b[frameHeader:frameHeader+n:frameHeader+n])
			f.held += frameHeader + n
			b = b[frameHeader+n:]
		}
		if len(f.out) > 0 {
			return f.out, nil
		}
		if err := f.in.read(); err != nil {
			if len(b) > 0 && err == io.EOF {
				err = truncated("a frame")
			}
			return nil, err
		}
	}
}
