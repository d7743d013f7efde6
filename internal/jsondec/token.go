package jsondec

import (
	"math"
	"math/bits"
	"unicode/utf8"
)

// token is one value or name of a document, in the order of their first bytes: an
// object is followed by its names and values by turns, an array by its elements.
// What kind it is, its first byte says.
type token struct {
	start, end uint32 // raw[start:end], quotes and brackets included
	next       uint32 // index of the token after this value and all within it
	n          uint32 // members or elements; for literals see the constants below
}

// What n says of a string or a number.
const (
	plain   = 0 // a string that is its own text; a number without fraction and exponent
	special = 1 // a string with escapes or invalid UTF-8; any other number
)

// lexer turns a document into tokens.
type lexer struct {
	raw    []byte
	tokens []token
	open   []uint32 // tokens of the objects and arrays around
}

// lex reports whether raw is one valid JSON value, and leaves its tokens in l. It
// accepts what encoding/json's scanner accepts. Offsets are 32 bits wide; documents
// that do not fit are refused here, and left to the slow path.
func (l *lexer) lex(raw []byte) bool {
	l.raw, l.tokens, l.open = raw, l.tokens[:0], l.open[:0]
	if len(raw) > math.MaxInt32 {
		return false
	}
	i := skipSpace(raw, 0)
value:
	if i == len(raw) {
		return false
	}
	switch c := raw[i]; c {
	case '{', '[':
		if len(l.open) == maxDepth {
			return false
		}
		l.open = append(l.open, uint32(len(l.tokens)))
		l.tokens = append(l.tokens, token{start: uint32(i)})
		i = skipSpace(raw, i+1)
		if i < len(raw) && raw[i] == c+2 { // '{'+2 is '}', '['+2 is ']'
			goto closing
		}
		if c == '[' {
			goto value
		}
		goto name
	case '"':
		if i = l.lexText(i); i < 0 {
			return false
		}
	case 't':
		if i = l.lexWord(i, "true"); i < 0 {
			return false
		}
	case 'f':
		if i = l.lexWord(i, "false"); i < 0 {
			return false
		}
	case 'n':
		if i = l.lexWord(i, "null"); i < 0 {
			return false
		}
	default:
		if i = l.lexNumber(i); i < 0 {
			return false
		}
	}
after:
	if i < len(raw) && raw[i] <= ' ' {
		i = skipSpace(raw, i)
	}
	if len(l.open) == 0 {
		return i == len(raw)
	}
	if i == len(raw) {
		return false
	}
	{
		top := &l.tokens[l.open[len(l.open)-1]]
		top.n++
		c := raw[i]
		if c == raw[top.start]+2 {
			goto closing
		}
		if c != ',' {
			return false
		}
		i = skipSpace(raw, i+1)
		if raw[top.start] == '[' {
			goto value
		}
	}
name:
	if i == len(raw) || raw[i] != '"' {
		return false
	}
	if i = l.lexText(i); i < 0 {
		return false
	}
	if i < len(raw) && raw[i] <= ' ' {
		i = skipSpace(raw, i)
	}
	if i == len(raw) || raw[i] != ':' {
		return false
	}
	i = skipSpace(raw, i+1)
	goto value
closing:
	i++
	{
		top := &l.tokens[l.open[len(l.open)-1]]
		top.end, top.next = uint32(i), uint32(len(l.tokens))
		l.open = l.open[:len(l.open)-1]
	}
	goto after
}

// add appends the token of a literal and returns end.
func (l *lexer) add(start, end int, n uint32) int {
	l.tokens = append(l.tokens, token{uint32(start), uint32(end), uint32(len(l.tokens)) + 1, n})
	return end
}

// lexWord reads true, false or null.
func (l *lexer) lexWord(i int, w string) int {
	if len(l.raw)-i < len(w) || string(l.raw[i:i+len(w)]) != w {
		return -1
	}
	return l.add(i, i+len(w), plain)
}

// lexText reads the string whose opening quote is at i.
func (l *lexer) lexText(i int) int {
	end, n := endOfText(l.raw, i)
	if end < 0 {
		return -1
	}
	return l.add(i, end, n)
}

// endOfText returns the index after the string whose opening quote is at i, or -1, and
// whether it is plain or special.
func endOfText(raw []byte, i int) (end int, n uint32) {
	start, odd, high := i, false, false
	for i++; ; {
		// Eight bytes at a time up to the first that is not plain ASCII text. What
		// the subtractions leave in m by mistake is above a bit that is right, so
		// the lowest always is.
		for i+8 <= len(raw) {
			w := load64(raw[i:])
			m := zeroBytes(w^ones*'"') | zeroBytes(w^ones*'\\') | (w-ones*' ')&^w&highs | w&highs
			if m != 0 {
				i += bits.TrailingZeros64(m) / 8
				break
			}
			i += 8
		}
		if i >= len(raw) {
			return -1, 0
		}
		switch c := raw[i]; {
		case c == '"':
			i++
			if odd || high && !utf8.Valid(raw[start+1:i-1]) {
				return i, special
			}
			return i, plain
		case c == '\\':
			odd = true
			if i = escape(raw, i); i < 0 {
				return -1, 0
			}
		case c < ' ':
			return -1, 0
		default:
			high = high || c >= utf8.RuneSelf
			i++
		}
	}
}

// escape returns the index after the escape sequence at i, or -1.
func escape(raw []byte, i int) int {
	if i+1 >= len(raw) {
		return -1
	}
	switch raw[i+1] {
	case 'b', 'f', 'n', 'r', 't', '\\', '/', '"':
		return i + 2
	case 'u':
		if i+6 > len(raw) {
			return -1
		}
		for _, c := range raw[i+2 : i+6] {
			if !('0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F') {
				return -1
			}
		}
		return i + 6
	}
	return -1
}

// lexNumber reads the number at i.
func (l *lexer) lexNumber(i int) int {
	raw, start, n := l.raw, i, uint32(plain)
	if raw[i] == '-' {
		i++
	}
	first := i
	if i = digits(raw, i); i == first || raw[first] == '0' && i > first+1 {
		return -1
	}
	if i < len(raw) && raw[i] == '.' {
		n = special
		first = i + 1
		if i = digits(raw, first); i == first {
			return -1
		}
	}
	if i < len(raw) && (raw[i] == 'e' || raw[i] == 'E') {
		n = special
		i++
		if i < len(raw) && (raw[i] == '+' || raw[i] == '-') {
			i++
		}
		first = i
		if i = digits(raw, first); i == first {
			return -1
		}
	}
	return l.add(start, i, n)
}

// digits returns the index of the first byte from i on that is no digit.
func digits(raw []byte, i int) int {
	for i < len(raw) && '0' <= raw[i] && raw[i] <= '9' {
		i++
	}
	return i
}
