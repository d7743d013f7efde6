package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tarnproject/tarn/object"
)

// magic opens every protobuf body and every object of a protobuf watch: three
// letters and the version of what follows, a runtime.Unknown.
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

// kindBytes is a kind as it stands in a buffer. It is compared there, so that the
// kind of an object costs no string.
type kindBytes struct {
	apiVersion, kind []byte
}

func (k kindBytes) equal(apiVersion, kind string) bool {
	return string(k.kind) == kind && string(k.apiVersion) == apiVersion
}

// String writes the kind as errors show it; it may come from anybody, so it is cut.
func (k kindBytes) String() string {
	if len(k.kind) == 0 && len(k.apiVersion) == 0 {
		return "no kind"
	}
	const most = 64
	return fmt.Sprintf("%s, Kind=%s", k.apiVersion[:min(len(k.apiVersion), most)], k.kind[:min(len(k.kind), most)])
}

// corrupt says that the bytes are not what the protocol promises. The format must
// not show what is in them.
func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: %w", object.ErrCorrupt, fmt.Errorf(format, args...))
}

// truncated is the error for bytes that end too early.
func truncated(in string) error {
	return fmt.Errorf("%w: %s ends too early: %w", object.ErrCorrupt, in, io.ErrUnexpectedEOF)
}

var errField = errors.New("not a protobuf field")

// field takes one protobuf field off the front of b. The value of a field that is
// length-delimited is its contents; of others it is nil. next is nil on an error.
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

// openEnvelope reads an envelope that is in memory, with its magic. What it returns
// lies in b.
func openEnvelope(b []byte) (envelope, error) {
	var e envelope
	b, ok := bytes.CutPrefix(b, magic)
	if !ok {
		return e, corrupt("an object does not begin with the protobuf magic")
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

// openTypeMeta reads a TypeMeta on top of what an earlier one has said.
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

// openWatchEvent reads a metav1.WatchEvent: the type, and the object as it stands in
// the event's RawExtension.
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
