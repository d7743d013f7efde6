package protodec

import "fmt"

// Identity identifies one version of one object. The slices point
// into the bytes that were peeked at; empty ones are nil or not.
type Identity struct {
	Namespace, Name, UID, ResourceVersion []byte
}

// The numbers of the fields that make up the identity: metadata is field 1 of every API
// object, the others are fields of metav1.ObjectMeta.
const (
	fieldMetadata        = 1
	fieldName            = 1
	fieldNamespace       = 3
	fieldUID             = 5
	fieldResourceVersion = 6

	identityOfObject   = 1 << fieldMetadata
	identityOfMetadata = 1<<fieldName | 1<<fieldNamespace | 1<<fieldUID | 1<<fieldResourceVersion
)

// Peek reads the identity of an API object from its protobuf message (without the
// envelope), and allocates nothing. It looks at the metadata alone: that it succeeds
// does not mean that the object can be decoded, but where the object can be decoded,
// Peek gives what the object then has.
func Peek(raw []byte) (Identity, error) {
	var id Identity
	for i := 0; i < len(raw); {
		number, value, next, err := nextField(raw, i, identityOfObject)
		if err != nil {
			return Identity{}, fmt.Errorf("protodec: peek: %w", err)
		}
		i = next
		if number != fieldMetadata {
			continue
		}
		// A message may come in several pieces, which are merged.
		if err := id.merge(value); err != nil {
			return Identity{}, fmt.Errorf("protodec: peek: metadata: %w", err)
		}
	}
	return id, nil
}

func (id *Identity) merge(meta []byte) error {
	for i := 0; i < len(meta); {
		number, value, next, err := nextField(meta, i, identityOfMetadata)
		if err != nil {
			return err
		}
		i = next
		switch number {
		case fieldName:
			id.Name = value
		case fieldNamespace:
			id.Namespace = value
		case fieldUID:
			id.UID = value
		case fieldResourceVersion:
			id.ResourceVersion = value
		}
	}
	return nil
}

// nextField reads the field at b[i:]. It returns the contents of the fields whose bits
// are set in want, all of which are text or messages, and number zero for any other.
func nextField(b []byte, i int, want uint64) (number int32, value []byte, next int, err error) {
	wire, start := varint(b, i)
	if start < 0 {
		return 0, nil, 0, errTruncated
	}
	number = int32(wire >> 3)
	switch {
	case number <= 0 || wire&7 == wireEnd:
		return 0, nil, 0, errTag
	case number > 63 || want>>number&1 == 0:
		if next = skip(b, i); next < 0 {
			return 0, nil, 0, errTruncated
		}
		return 0, nil, next, nil
	case wire&7 != wireBytes:
		return 0, nil, 0, errWireType
	}
	start, end := span(b, start)
	if end < 0 {
		return 0, nil, 0, errTruncated
	}
	return number, b[start:end:end], end, nil
}
