package jsondec

import (
	"errors"
	"fmt"
	"io"
	"math/bits"
	"slices"

	"github.com/tarnproject/tarn/object"
)

// maxDepth is how deep values may be nested, the limit of encoding/json.
const maxDepth = 10000

var (
	errNesting  = errors.New("a bracket closes what another kind opened")
	errTooDeep  = errors.New("values are nested too deep")
	errNotThere = errors.New("want a value")
)

// splitter finds where a JSON value ends. It may be stopped at any byte and go on
// later, so each byte of a stream is looked at once however small the pieces are in
// which it arrives. It looks only at strings and brackets:
// the decoder checks whether the value is valid.
//
// The zero splitter is ready for a value.
type splitter struct {
	begun   bool
	literal bool // a number, true, false or null: ends before what is none of it
	quoted  bool
	escaped bool
	depth   int
	objects []uint64 // one bit for each level: whether it is an object
}

// scan continues at b[i] and returns the index after the value's last byte, with done;
// or len(b) where the value has not ended yet. atEnd says that nothing follows b,
// which is what ends a bare number.
func (s *splitter) scan(b []byte, i int, atEnd bool) (end int, done bool, err error) {
	for i < len(b) {
		if s.quoted {
			if i = s.skipString(b, i); s.quoted {
				return i, false, nil
			}
			if s.depth == 0 {
				return i, true, nil
			}
		}
		if s.literal {
			for ; i < len(b); i++ {
				if !literal[b[i]] {
					return i, true, nil
				}
			}
			break
		}
		// Everything that is neither a quote nor a bracket is passed over.
		for i < len(b) && !structural[b[i]] {
			if !s.begun && b[i] > ' ' {
				if !literal[b[i]] {
					return i, false, errNotThere
				}
				s.begun, s.literal = true, true
				break
			}
			i++
		}
		if i == len(b) || s.literal {
			continue
		}
		c := b[i]
		i++
		switch c {
		case '"':
			// Most strings have arrived as a whole, and are followed by another.
			for {
				end := pastString(b, i-1)
				if end < 0 {
					s.quoted = true
					break
				}
				if i = end; i+1 >= len(b) || b[i+1] != '"' || b[i] != ':' && b[i] != ',' || s.depth == 0 {
					break
				}
				i += 2
			}
			s.begun = true
			if s.quoted {
				continue
			}
			if s.depth == 0 {
				return i, true, nil
			}
		case '{', '[':
			if err := s.push(c == '{'); err != nil {
				return i, false, err
			}
		default:
			if !s.begun {
				return i, false, errNotThere
			}
			s.depth--
			if s.objects[s.depth/64]>>(s.depth%64)&1 == 1 != (c == '}') {
				return i, false, errNesting
			}
			if s.depth == 0 {
				return i, true, nil
			}
		}
		s.begun = true
	}
	return i, s.literal && atEnd, nil
}

// structural marks the bytes that matter outside of strings, literal those of numbers,
// true, false and null.
var structural, literal = func() (s, l [256]bool) {
	for _, c := range `"{[}]` {
		s[c] = true
	}
	for _, c := range "+-.0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz" {
		l[c] = true
	}
	return s, l
}()

func (s *splitter) push(object bool) error {
	if s.depth == maxDepth {
		return errTooDeep
	}
	word, bit := s.depth/64, uint64(1)<<(s.depth%64)
	if word == len(s.objects) {
		s.objects = append(s.objects, 0)
	}
	if object {
		s.objects[word] |= bit
	} else {
		s.objects[word] &^= bit
	}
	s.depth++
	return nil
}

// skipString continues inside a string of which b has a part only, and clears quoted
// after its end.
func (s *splitter) skipString(b []byte, i int) int {
	for ; i < len(b); i++ {
		switch {
		case s.escaped:
			s.escaped = false
		case b[i] == '\\':
			s.escaped = true
		case b[i] == '"':
			s.quoted = false
			return i + 1
		}
	}
	return i
}

// pastString returns the index after the string whose opening quote is at i, or -1.
// It looks for quotes, eight bytes at a time, and at what stands before one.
func pastString(b []byte, i int) int {
	start := i
	for i++; ; i++ {
		for i+8 <= len(b) {
			m := zeroBytes(load64(b[i:]) ^ ones*'"')
			if m != 0 {
				i += bits.TrailingZeros64(m) / 8
				break
			}
			i += 8
		}
		for i < len(b) && b[i] != '"' {
			i++
		}
		if i == len(b) {
			return -1
		}
		if b[i-1] != '\\' || !escaped(b, start, i) {
			return i + 1
		}
	}
}

// escaped reports whether an odd number of backslashes stands before the byte at i, in the
// string that begins at start.
func escaped(b []byte, start, i int) bool {
	n := 0
	for j := i - 1; j > start && b[j] == '\\'; j-- {
		n++
	}
	return n%2 == 1
}

// reset makes the splitter ready for the next value.
func (s *splitter) reset() {
	if cap(s.objects) > 16 {
		s.objects = nil
	}
	*s = splitter{objects: s.objects[:0]}
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// load64 reads eight bytes, the first as the lowest; the compiler makes it one load.
func load64(b []byte) uint64 {
	_ = b[7]
	return uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
		uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
}

// zeroBytes has the highest bit set in the lowest byte of w that is zero, and in none
// below it. Bits above the lowest may be wrong, which is why only the lowest is used.
func zeroBytes(w uint64) uint64 { return (w - ones) &^ w & highs }

// readMore reads once behind what b holds and returns it longer by what came. b grows
// by doubling, to no more than limit and one read. At the end of the stream, and only
// there, the error is io.EOF itself.
func readMore(r io.Reader, b []byte, limit int) ([]byte, error) {
	if cap(b)-len(b) < readSize {
		b = slices.Grow(b, max(readSize, min(cap(b), limit-len(b))))
	}
	for range 100 {
		n, err := r.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		switch {
		case errors.Is(err, io.EOF):
			return b, io.EOF
		case err != nil || n > 0:
			return b, err
		}
	}
	return b, io.ErrNoProgress
}

func corrupt(what string) error { return fmt.Errorf("%w: %s", object.ErrCorrupt, what) }

func truncated() error { return fmt.Errorf("%w: %w", object.ErrCorrupt, io.ErrUnexpectedEOF) }
