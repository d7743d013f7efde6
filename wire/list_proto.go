package wire

import (
	"errors"
	"io"
	"math"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/object"
)

// listReader reads the body of a list while it arrives.
type listReader interface {
	// next returns the bytes of the next item, which are valid until the call after
	// it, and io.EOF once the list has come to its proper end.
	next() ([]byte, error)
	// peek reads who the item is that next has returned last.
	peek(raw []byte) (identity, error)
	// kindKnown reports whether the list has said its kind yet.
	kindKnown() bool
	// release gives its buffers back; nothing is called after it.
	release()
	// page returns what stands around the items. It is complete after io.EOF.
	page() object.Page
}

// protoList reads a list in protobuf: the magic, then a runtime.Unknown whose raw
// field is the list message. Both are read field by field, and only metadata and one
// item at a time are ever held.
type protoList struct {
	in      intake
	buffers *sync.Pool
	kind    kindCheck
	meta    metav1.ListMeta

	state   protoState
	listEnd int64 // where the list message ends, by in.total
	pending int   // bytes of the last item, not yet consumed
}

// protoState says where in the body a protoList is.
type protoState uint8

const (
	atMagic    protoState = iota // nothing read
	inEnvelope                   // among the envelope's fields, the list not yet seen
	inList                       // among the list's fields
	afterList                    // among the envelope's fields behind the list
	atEnd                        // the body has ended properly
)

// next steps through the states until there is an item or an end.
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
				return nil, corrupt("the body does not begin with the protobuf magic")
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

func (p *protoList) page() object.Page { return pageOf(&p.meta) }

// envelopeField reads one field of the envelope. The body may end only here.
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
			return corrupt("envelope: length of the list")
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

// status reads the envelope of a Status, whose kind has just been seen, and returns
// it as an error.
func (p *protoList) status() error {
	b, err := p.rest()
	if err != nil {
		return err
	}
	for len(b) > 0 {
		num, _, value, next, err := field(b)
		if err != nil {
			return corrupt("envelope of a Status: %w", err)
		}
		if num == unknownRaw {
			var st metav1.Status
			if err := st.Unmarshal(value); err != nil {
				return corrupt("Status: %w", err)
			}
			return p.kind.status(&st)
		}
		b = next
	}
	return corrupt("envelope of a Status without one")
}

// statusLimit bounds a Status that is sent where something else was asked for.
const statusLimit = 1 << 20

// rest returns the whole rest of the body.
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

// listField reads one field of the list; item is nil when it was not an item.
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
	if err := p.meta.Unmarshal(b); err != nil {
		return nil, corrupt("list metadata: %w", err)
	}
	p.in.consume(len(b))
	return nil, nil
}

// run waits for the contents of a field that is held whole. An empty one is not nil.
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

// pass skips a field that nobody knows, of at most left bytes.
func (p *protoList) pass(num protowire.Number, typ protowire.Type, left int64) error {
	if num < 1 {
		return corrupt("list: field number %d", num)
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

// cut names the error of a body that gave no more bytes where some were due. Errors
// of the network stay as they are.
func (p *protoList) cut(err error) error {
	switch {
	case err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF):
		return truncated("the list")
	case err == errField:
		return corrupt("list: %w", err)
	}
	return err
}
