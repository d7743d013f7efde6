package stream

import (
	"errors"
	"io"
	"math"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// listReader reads the body of a list while it arrives.
type listReader interface {
	// next returns the bytes of the next item, valid until the following call, or io.EOF
	// at the end of a complete list.
	next() ([]byte, error)
	// peek reads key, UID and version of the item that next returned last.
	peek(raw []byte) (identity, error)
	// kindKnown reports whether the list's kind has been read.
	kindKnown() bool
	// release returns the buffers to their pool. It is the last call.
	release()
	// meta returns the list's metadata. It is complete after io.EOF.
	meta() *metav1.ListMeta
}

// protoList reads a list in protobuf: the magic, then a runtime.Unknown whose raw
// field is the list message. It reads both field by field and buffers only the metadata and
// one item at a time.
type protoList struct {
	in      buffer
	buffers *sync.Pool
	kind    kindCheck
	// metadata is complete at the end of the list.
	metadata metav1.ListMeta

	state   protoState
	listEnd int64 // end of the list message, in terms of in.total
	pending int   // bytes of the last item, not yet consumed
}

// protoState is the position of a protoList in the body.
type protoState uint8

const (
	atMagic    protoState = iota // nothing read
	inEnvelope                   // in the envelope, before the list
	inList                       // in the list
	afterList                    // in the envelope, after the list
	atEnd                        // the body is complete
)

// next steps through the states up to the next item or the end.
func (p *protoList) next() ([]byte, error) {
	p.in.consume(p.pending)
	p.pending = 0
	for {
		switch p.state {
		case atMagic:
			b, err := p.in.need(len(magic))
			if err != nil {
				return nil, p.cut(err)
			}
			if string(b) != string(magic) {
				return nil, corrupt("the body does not start with the protobuf magic")
			}
			p.in.consume(len(magic))
			p.state = inEnvelope
		case inEnvelope, afterList:
			if err := p.envelopeField(); err != nil {
				return nil, err
			}
		case inList:
			switch {
			case p.in.total > p.listEnd:
				return nil, corrupt("list: a field is longer than the list")
			case p.in.total == p.listEnd:
				p.state = afterList
				continue
			}
			item, err := p.listField()
			if item != nil || err != nil {
				return item, err
			}
		case atEnd:
			return nil, io.EOF
		}
	}
}

func (p *protoList) release() {
	if b := p.in.buf; len(b) == readSize {
		p.buffers.Put(&b)
	}
	p.in.buf = nil
}

func (p *protoList) peek(raw []byte) (identity, error) { return peekProto(raw) }

func (p *protoList) kindKnown() bool { return p.kind.seen }

func (p *protoList) meta() *metav1.ListMeta { return &p.metadata }

// envelopeField reads one field of the envelope, or the end of the body.
func (p *protoList) envelopeField() error {
	tag, err := p.in.varint()
	if err == io.EOF && p.state == afterList {
		if err := p.kind.settled(); err != nil {
			return err
		}
		p.state = atEnd
		return nil
	}
	if err != nil {
		return p.cut(err)
	}
	num, typ := protowire.DecodeTag(tag)
	if num > unknownRaw || num < 1 {
		return p.pass(num, typ, math.MaxInt64)
	}
	if typ != protowire.BytesType {
		return corrupt("envelope: field %d has wire type %d", num, typ)
	}
	length, err := p.in.varint()
	if err != nil {
		return p.cut(err)
	}
	if num == unknownRaw {
		switch {
		case p.state == afterList:
			return corrupt("envelope: two lists in one body")
		case length > math.MaxInt64/2:
			return corrupt("envelope: invalid length of the list")
		}
		p.state, p.listEnd = inList, p.in.total+int64(length)
		return nil
	}
	b, err := p.run(length)
	if err != nil {
		return err
	}
	kind, err := openTypeMeta(b, kindBytes{})
	if err != nil {
		return err
	}
	p.in.consume(len(b))
	if isStatus(kind) {
		return p.status()
	}
	return p.kind.saw(kind)
}

// status reads the rest of the envelope of a Status, after its kind, and returns the Status as
// an error.
func (p *protoList) status() error {
	b, err := p.rest()
	if err != nil {
		return err
	}
	if err := fields(b, "envelope of a Status", unknownRaw, func(num protowire.Number, value []byte) error {
		if num != unknownRaw {
			return nil
		}
		var st metav1.Status
		if err := st.Unmarshal(value); err != nil {
			return corrupt("Status: %w", err)
		}
		return p.kind.status(&st)
	}); err != nil {
		return err
	}
	return corrupt("envelope without its Status")
}

// statusLimit is the maximum size of a Status that the server sends instead of a list.
const statusLimit = 1 << 20

// rest returns the rest of the body.
func (p *protoList) rest() ([]byte, error) {
	limit := min(statusLimit, p.in.limit)
	for p.in.end-p.in.at <= limit {
		if err := p.in.read(); err == io.EOF {
			return p.in.unread(), nil
		} else if err != nil {
			return nil, p.cut(err)
		}
	}
	return nil, corrupt("a Status of more than %d bytes", limit)
}

// listField reads one field of the list. item is nil if the field is not an item.
func (p *protoList) listField() (item []byte, err error) {
	tag, err := p.in.varint()
	if err != nil {
		return nil, p.cut(err)
	}
	num, typ := protowire.DecodeTag(tag)
	left := p.listEnd - p.in.total
	if num > listItems || num < 1 {
		return nil, p.pass(num, typ, left)
	}
	if typ != protowire.BytesType {
		return nil, corrupt("list: field %d has wire type %d", num, typ)
	}
	length, err := p.in.varint()
	if err != nil {
		return nil, p.cut(err)
	}
	if left = p.listEnd - p.in.total; left < 0 || length > uint64(left) {
		return nil, corrupt("list: a field is longer than the list")
	}
	b, err := p.run(length)
	if err != nil {
		return nil, err
	}
	if num == listItems {
		p.pending = len(b)
		return b, nil
	}
	if err := p.metadata.Unmarshal(b); err != nil {
		return nil, corrupt("list metadata: %w", err)
	}
	p.in.consume(len(b))
	return nil, nil
}

// run returns the contents of a field, not nil even if it is empty.
func (p *protoList) run(length uint64) ([]byte, error) {
	if length > uint64(p.in.limit) {
		return nil, corrupt("a field of %d bytes is over the limit of %d", length, p.in.limit)
	}
	b, err := p.in.need(int(length))
	if err != nil {
		return nil, p.cut(err)
	}
	return b, nil
}

// pass skips an unknown field of at most left bytes.
func (p *protoList) pass(num protowire.Number, typ protowire.Type, left int64) error {
	if num < 1 {
		return corrupt("list: invalid field number %d", num)
	}
	var n uint64
	var err error
	switch typ {
	case protowire.VarintType:
		_, err = p.in.varint()
	case protowire.Fixed32Type:
		n = 4
	case protowire.Fixed64Type:
		n = 8
	case protowire.BytesType:
		n, err = p.in.varint()
	default:
		return corrupt("list: field %d has wire type %d", num, typ)
	}
	if err != nil {
		return p.cut(err)
	}
	if n > uint64(left) {
		return corrupt("list: a field is longer than the list")
	}
	if err := p.in.skip(int64(n)); err != nil {
		return p.cut(err)
	}
	return nil
}

// cut returns the error for a body that ended too early. Network errors are returned
// unchanged.
func (p *protoList) cut(err error) error {
	switch {
	case err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF):
		return truncated("the list")
	case err == errField:
		return corrupt("list: %w", err)
	}
	return err
}
