package jsondec

import (
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// text returns the text of a JSON string, quotes included. It is a part of raw where
// that needs no change. ok is false where raw is no valid string.
func text(raw []byte) (b []byte, ok bool) {
	if len(raw) < 2 || raw[0] != '"' {
		return nil, false
	}
	end, n := endOfText(raw, 0)
	if end != len(raw) {
		return nil, false
	}
	b = raw[1 : end-1]
	if n == special {
		b = unquote(b)
	}
	return b, true
}

// unquote resolves the escapes of a string that the lexer has passed, and puts the
// replacement character for whatever is not UTF-8 or half a surrogate pair.
func unquote(s []byte) []byte {
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c == '\\' && s[i+1] == 'u':
			r := rune(hex4(s[i+2:]))
			i += 6
			if utf16.IsSurrogate(r) {
				low := rune(-1)
				if i+6 <= len(s) && s[i] == '\\' && s[i+1] == 'u' {
					low = rune(hex4(s[i+2:]))
				}
				// A half that does not fit stands for itself, or for nothing.
				if r = utf16.DecodeRune(r, low); r != unicode.ReplacementChar {
					i += 6
				}
			}
			b = utf8.AppendRune(b, r)
		case c == '\\':
			b = append(b, unescape(s[i+1]))
			i += 2
		case c < utf8.RuneSelf:
			b = append(b, c)
			i++
		default:
			r, size := utf8.DecodeRune(s[i:])
			b = utf8.AppendRune(b, r)
			i += size
		}
	}
	return b
}

func unescape(c byte) byte {
	switch c {
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return c
}

// hex4 reads four hexadecimal digits.
func hex4(s []byte) (v uint32) {
	for _, c := range s[:4] {
		switch {
		case c >= 'a':
			c -= 'a' - 10
		case c >= 'A':
			c -= 'A' - 10
		default:
			c -= '0'
		}
		v = v<<4 | uint32(c)
	}
	return v
}
