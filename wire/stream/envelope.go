package stream

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tarnproject/tarn/object"
)

// magic is the prefix of every protobuf body and of every object of a protobuf watch. A
// runtime.Unknown follows it.
var magic = []byte("k8s\x00")

// Field numbers of the messages around objects: runtime.Unknown, its TypeMeta, a
// list, a watch event and its runtime.RawExtension.
const (
	unknownTypeMeta = 1
	unknownRaw      = 2

	typeMetaAPIVersion = 1
	typeMetaKind       = 2

	listMetadata = 1
	listItems    = 2

	eventType   = 1
	eventObject = 2

	extensionRaw = 1
)

// envelope is a runtime.Unknown: the kind of an object and its bytes.
type envelope struct {
	kind kindBytes
	raw  []byte
}

// kindBytes is a kind as slices of a buffer, so that comparing it allocates no string.
type kindBytes struct {
	apiVersion, kind []byte
}

func (k kindBytes) equal(apiVersion, kind string) bool {
	return string(k.kind) == kind && string(k.apiVersion) == apiVersion
}

// String formats the kind for errors. It truncates it, because any server may have sent it.
func (k kindBytes) String() string {
	if len(k.kind) == 0 && len(k.apiVersion) == 0 {
		return "no kind"
	}
	const most = 64
	return fmt.Sprintf("%s, Kind=%s", k.apiVersion[:min(len(k.apiVersion), most)], k.kind[:min(len(k.kind), most)])
}

// corrupt returns an object.ErrCorrupt. The text must not quote the bytes.
func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: %w", object.ErrCorrupt, fmt.Errorf(format, args...))
}

// truncated returns the error for bytes that end too early.
func truncated(in string) error {
	return fmt.Errorf("%w: %s ends too early: %w", object.ErrCorrupt, in, io.ErrUnexpectedEOF)
}

var errField = errors.New("not a protobuf field")

// field parses the protobuf field at the start of b. value is the contents of a
// length-delimited field, and nil for others. next is the rest of b, nil after an error.
func field(b []byte) (num protowire.Number, typ protowire.Type, value, next []byte, err error) {
	num, typ, n := protowire.ConsumeTag(b)
	if n < 0 {
		return 0, 0, nil, nil, errField
	}
	b = b[n:]
	if typ == protowire.BytesType {
		value, n = protowire.ConsumeBytes(b)
	} else {
		n = protowire.ConsumeFieldValue(num, typ, b)
	}
	if n < 0 {
		return 0, 0, nil, nil, errField
	}
	return num, typ, value, b[n:], nil
}

// openEnvelope parses an envelope with its magic. The result refers to b.
func openEnvelope(b []byte) (envelope, error) {
	var e envelope
	b, ok := bytes.CutPrefix(b, magic)
	if !ok {
		return e, corrupt("an object does not start with the protobuf magic")
	}
	for len(b) > 0 {
		num, typ, value, next, err := field(b)
		if err != nil {
			return e, corrupt("envelope: %w", err)
		}
		if num <= unknownRaw && typ != protowire.BytesType {
			return e, corrupt("envelope: field %d has wire type %d", num, typ)
		}
		switch num {
		case unknownTypeMeta:
			if e.kind, err = openTypeMeta(value, e.kind); err != nil {
				return e, err
			}
		case unknownRaw:
			e.raw = value
		}
		b = next
	}
	return e, nil
}

// openTypeMeta parses a TypeMeta. Fields that it lacks keep their values in k.
func openTypeMeta(b []byte, k kindBytes) (kindBytes, error) {
	for len(b) > 0 {
		num, typ, value, next, err := field(b)
		if err != nil {
			return k, corrupt("type of an object: %w", err)
		}
		if num <= typeMetaKind && typ != protowire.BytesType {
			return k, corrupt("type of an object: field %d has wire type %d", num, typ)
		}
		switch num {
		case typeMetaAPIVersion:
			k.apiVersion = value
		case typeMetaKind:
			k.kind = value
		}
		b = next
	}
	return k, nil
}

// openWatchEvent parses a metav1.WatchEvent: the type, and the object in the event's
// RawExtension.
func openWatchEvent(b []byte) (typ, raw []byte, err error) {
	for len(b) > 0 {
		num, wt, value, next, err := field(b)
		if err != nil {
			return nil, nil, corrupt("watch event: %w", err)
		}
		if num <= eventObject && wt != protowire.BytesType {
			return nil, nil, corrupt("watch event: field %d has wire type %d", num, wt)
		}
		switch num {
		case eventType:
			typ = value
		case eventObject:
			for len(value) > 0 {
				n, t, v, rest, err := field(value)
				if err != nil {
					return nil, nil, corrupt("object of a watch event: %w", err)
				}
				if n == extensionRaw {
					if t != protowire.BytesType {
						return nil, nil, corrupt("object of a watch event: wire type %d", t)
					}
					raw = v
				}
				value = rest
			}
		}
		b = next
	}
	return typ, raw, nil
}
