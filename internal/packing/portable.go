package packing

import (
	"encoding/binary"
	"errors"
	"slices"
)

// Parts returns what a packed string consists of, for a file: its data, its dictionary, and how much of that
// dictionary's text it refers to. The dictionary is nil for a string that is held unpacked. The data must not be
// changed.
func (p Packed) Parts() (dict *Dictionary, extent int, data []byte) {
	if p.dict == nil {
		return nil, 0, p.data
	}
	at, rest := 0, p.data
	n, k := binary.Uvarint(rest)
	rest = rest[k:]
	for left := int(n); ; {
		lits, k := binary.Uvarint(rest)
		rest = rest[k+int(lits):]
		if left -= int(lits); left == 0 {
			return p.dict, extent, p.data
		}
		length, k := binary.Uvarint(rest)
		from, j := binary.Varint(rest[k:])
		rest = rest[k+j:]
		at += int(from) + int(length)
		extent = max(extent, at)
		if left -= int(length); left == 0 {
			return p.dict, extent, p.data
		}
	}
}

// Text returns the text of a dictionary up to an extent that [Packed.Parts] returned. It must not be changed.
func (d *Dictionary) Text(extent int) []byte { return (*d.text.Load())[:extent] }

var errData = errors.New("packing: invalid data")

// Unpack is the inverse of [Packed.Parts]: text is that of the dictionary, and the result has at most limit bytes.
// It unpacks to buf, which grows as needed. Any data is safe to pass, such as that of a file.
func Unpack(buf, text, data []byte, limit int) ([]byte, error) {
	n, k := binary.Uvarint(data)
	if k <= 0 || n > uint64(limit) {
		return nil, errData
	}
	data = data[k:]
	out := slices.Grow(buf[:0], int(n))
	if n == 0 {
		return out, nil
	}
	at := 0
	for {
		lits, k := binary.Uvarint(data)
		if k <= 0 || lits > uint64(len(data)-k) || lits > n-uint64(len(out)) {
			return nil, errData
		}
		out = append(out, data[k:k+int(lits)]...)
		if data = data[k+int(lits):]; len(out) == int(n) {
			return out, nil
		}
		length, k := binary.Uvarint(data)
		if k <= 0 || length > n-uint64(len(out)) || length == 0 && lits == 0 {
			return nil, errData
		}
		from, j := binary.Varint(data[k:])
		if j <= 0 || from < -int64(at) || from > int64(len(text)-at) || length > uint64(len(text)-at)-uint64(from) {
			return nil, errData
		}
		data, at = data[k+j:], at+int(from)
		out = append(out, text[at:at+int(length)]...)
		if at += int(length); len(out) == int(n) {
			return out, nil
		}
	}
}
