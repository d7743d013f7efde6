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

// fields calls visit for the fields of a message up to the number last, which must be
// length-delimited. It skips the others.
func fields(b []byte, message string, last protowire.Number, visit func(num protowire.Number, value []byte) error) error {
	for len(b) > 0 {
		num, typ, value, next, err := field(b)
		switch {
		case err != nil:
			return corrupt("%s: %w", message, err)
		case num > last:
		case typ != protowire.BytesType:
			return corrupt("%s: field %d has wire type %d", message, num, typ)
		default:
			if err := visit(num, value); err != nil {
				return err
			}
		}
		b = next
	}
	return nil
}

// openEnvelope parses an envelope with its magic. The result refers to b.
func openEnvelope(b []byte) (e envelope, err error) {
	b, ok := bytes.CutPrefix(b, magic)
	if !ok {
		return e, corrupt("an object does not start with the protobuf magic")
	}
	err = fields(b, "envelope", unknownRaw, func(num protowire.Number, value []byte) (err error) {
		if num == unknownRaw {
			e.raw = value
		} else {
			e.kind, err = openTypeMeta(value, e.kind)
		}
		return err
	})
	return e, err
}

// openTypeMeta parses a TypeMeta. Fields that it lacks keep their values in k.
func openTypeMeta(b []byte, k kindBytes) (kindBytes, error) {
	err := fields(b, "type of an object", typeMetaKind, func(num protowire.Number, value []byte) error {
		if num == typeMetaKind {
			k.kind = value
		} else {
			k.apiVersion = value
		}
		return nil
	})
	return k, err
}

// openWatchEvent parses a metav1.WatchEvent: the type, and the object in the event's
// RawExtension.
func openWatchEvent(b []byte) (typ, raw []byte, err error) {
	err = fields(b, "watch event", eventObject, func(num protowire.Number, value []byte) error {
		if num == eventType {
			typ = value
			return nil
		}
		return fields(value, "object of a watch event", extensionRaw, func(_ protowire.Number, value []byte) error {
			raw = value
			return nil
		})
	})
	return typ, raw, err
}
