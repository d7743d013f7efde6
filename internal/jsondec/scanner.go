package jsondec

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Member says which part of a list a [Part] is.
type Member uint8

// The parts of a list.
const (
	// Kind is the value of "kind".
	Kind Member = iota + 1
	// APIVersion is the value of "apiVersion".
	APIVersion
	// Metadata is the value of "metadata".
	Metadata
	// Item is one element of "items".
	Item
	// Items is the value of "items" where that is no array: null, or something wrong.
	Items
)

// String returns the member's name in JSON.
func (m Member) String() string {
	switch m {
	case Kind:
		return "kind"
	case APIVersion:
		return "apiVersion"
	case Metadata:
		return "metadata"
	case Item, Items:
		return "items"
	}
	return "none"
}

// Part is one member of a list, or one of its items.
type Part struct {
	// Member says which.
	Member Member
	// Raw is its value, without space around it. It is valid until the next call of
	// [Scanner.Next]. Where it ends is certain; that it is valid JSON in itself is
	// not, so that one bad item does not spoil the others.
	Raw []byte
}

// Text returns the value of a string. It reports false for anything else.
func (p Part) Text() (string, bool) {
	b, ok := text(p.Raw)
	return string(b), ok
}

// Scanner splits a list, {"kind": …, "apiVersion": …, "metadata": {…}, "items": […]},
// into these members and the items, in the order in which they arrive: metadata may
// come before the items or after them (L08). It looks at each byte once and holds one
// value at a time, whatever the list's length. Other members have to be valid JSON, and
// are passed over.
//
// A list in which one of the four occurs twice is refused: the decoders that merge
// them need the whole list for it, and no server sends one.
//
// It is for one goroutine.
type Scanner struct {
	r     io.Reader
	limit int
	buf   []byte
	start int // of what must be kept
	pos   int // up to where the bytes have been looked at
	eof   bool
	split splitter
	want  expected
	seen  [Items + 1]bool
	err   error
}

// expected is what a [Scanner] expects next, its state.
type expected uint8

const (
	atList      expected = iota // the opening brace; then atFirstName
	atFirstName                 // a member or the closing brace; then atItem, atComma or atEnd
	atName                      // a member; then as atFirstName
	atFirstItem                 // an item or the closing bracket; then atItemComma or atComma
	atItem                      // an item; then atItemComma
	atItemComma                 // a comma or the closing bracket; then atItem or atComma
	atComma                     // a comma or the closing brace; then atName or atEnd
	atEnd                       // the end of the stream
)

// NewScanner returns a scanner of the list that r gives. No item and no other member
// may be longer than limit, which is [DefaultLimit] if zero or less.
func NewScanner(r io.Reader, limit int) *Scanner {
	if limit <= 0 {
		limit = DefaultLimit
	}
	return &Scanner{r: r, limit: limit}
}

// Next returns the next part. It returns io.EOF when the list was closed and nothing
// but space followed it, and only then: a list is complete where Next says io.EOF. The
// error is an [object.ErrCorrupt] for bytes that are no list, a value that is too
// long, and a stream that ended too early (which is an io.ErrUnexpectedEOF too); or
// the reader's own.
func (s *Scanner) Next() (Part, error) {
	s.start = s.pos
	for s.err == nil {
		p, err := s.step()
		switch {
		case err == io.EOF && s.want == atEnd:
			s.err = io.EOF
		case err == io.EOF, errors.Is(err, io.ErrUnexpectedEOF):
			s.err = fmt.Errorf("jsondec: list: %w", truncated())
		case err != nil:
			s.err = fmt.Errorf("jsondec: list: %w", err)
		case p.Member != 0:
			return p, nil
		}
	}
	return Part{}, s.err
}

// HasItems reports whether "items" has been met, be it empty.
func (s *Scanner) HasItems() bool { return s.seen[Items] }

// step does what the state says, and advances to the next.
func (s *Scanner) step() (Part, error) {
	c, err := s.next()
	if err != nil {
		return Part{}, err
	}
	switch {
	case s.want == atEnd:
		return Part{}, corrupt("something follows the list")
	case s.want == atList && c == '{':
		s.pos++
		s.want = atFirstName
	case (s.want == atFirstName || s.want == atComma) && c == '}':
		s.pos++
		s.want = atEnd
	case s.want == atComma && c == ',':
		s.pos++
		s.want = atName
	case (s.want == atFirstName || s.want == atName) && c == '"':
		return s.member()
	case (s.want == atFirstItem || s.want == atItemComma) && c == ']':
		s.pos++
		s.want = atComma
	case s.want == atItemComma && c == ',':
		s.pos++
		s.want = atItem
	case s.want == atFirstItem || s.want == atItem:
		s.want = atItemComma
		raw, err := s.value()
		return Part{Member: Item, Raw: raw}, err
	default:
		return Part{}, corrupt("the brackets and commas are not those of a list")
	}
	return Part{}, nil
}

// member reads a name, and its value where that is one of the four.
func (s *Scanner) member() (Part, error) {
	raw, err := s.value()
	if err != nil {
		return Part{}, err
	}
	name, ok := text(raw)
	if !ok {
		return Part{}, corrupt("a name is not valid")
	}
	var m Member
	switch string(name) {
	case "kind":
		m = Kind
	case "apiVersion":
		m = APIVersion
	case "metadata":
		m = Metadata
	case "items":
		m = Items
	}
	if m != 0 && s.seen[m] {
		return Part{}, corrupt(m.String() + " occurs twice")
	}
	s.seen[m] = true
	c, err := s.next()
	if err == nil && c != ':' {
		err = corrupt("want a colon after a name")
	}
	if err != nil {
		return Part{}, err
	}
	s.pos++
	if c, err = s.next(); err != nil {
		return Part{}, err
	}
	if m == Items && c == '[' {
		s.pos++
		s.want = atFirstItem
		return Part{}, nil
	}
	s.want = atComma
	raw, err = s.value()
	if m == 0 && err == nil && !json.Valid(raw) {
		err = corrupt("a member is not valid")
	}
	return Part{Member: m, Raw: raw}, err
}

// value reads the value that begins at pos.
func (s *Scanner) value() ([]byte, error) {
	s.start = s.pos
	s.split.reset()
	for {
		end, done, err := s.split.scan(s.buf, s.pos, s.eof)
		if err != nil {
			return nil, corrupt(err.Error())
		}
		s.pos = end
		if end-s.start > s.limit {
			return nil, corrupt(fmt.Sprintf("a value is longer than the limit of %d bytes", s.limit))
		}
		if done {
			return s.buf[s.start:end:end], nil
		}
		if err := s.fill(); err != nil {
			return nil, err
		}
	}
}

// next returns the next byte that is not space, and leaves pos at it.
func (s *Scanner) next() (byte, error) {
	for {
		if s.pos = skipSpace(s.buf, s.pos); s.pos < len(s.buf) {
			return s.buf[s.pos], nil
		}
		s.start = s.pos
		if err := s.fill(); err != nil {
			return 0, err
		}
	}
}

// fill reads more behind what must be kept. It fails with io.EOF where there is no
// more; a value that this ends has been looked at with eof set before.
func (s *Scanner) fill() error {
	if s.eof {
		return io.EOF
	}
	if s.start > 0 {
		rest := s.buf[s.start:]
		if cap(s.buf) > keepSize && len(rest) < readSize {
			s.buf = make([]byte, 0, 2*readSize)
		}
		s.buf = append(s.buf[:0], rest...)
		s.pos -= s.start
		s.start = 0
	}
	var err error
	s.buf, err = readMore(s.r, s.buf, s.limit+1)
	if err == io.EOF {
		s.eof, err = true, nil
	}
	return err
}
