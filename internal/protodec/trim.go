package protodec

import (
	"encoding/binary"
	"reflect"
	"slices"
)

// Trim returns the message of an object without the fields that the decoder drops or does not know.
// It is raw itself if the decoder drops nothing; otherwise it is in buf, which grows as needed. If
// ok, the result can be decoded, to what raw is decoded to. It is not ok for messages that cannot
// be decoded, and for some that can: those that no encoder of the API writes.
func (d *Decoder[T]) Trim(raw []byte, buf *[]byte) (trimmed []byte, ok bool) {
	return d.engine.trim(raw, buf)
}

func (e *engine) trim(raw []byte, buf *[]byte) (trimmed []byte, ok bool) {
	switch {
	case len(raw) > 0 && raw[0] == '{' || !e.root.sound(raw, 0): // a brace would be taken for JSON
		return nil, false
	case !e.root.cut:
		return raw, true
	}
	*buf = e.root.trim((*buf)[:0], raw)
	return *buf, true
}

// sound reports whether a message can be decoded.
func (m *message) sound(b []byte, depth int) bool {
	switch m.form {
	case timestamp, microtime:
		_, _, err := clock(b)
		return err == nil
	case quantity:
		return soundQuantity(b)
	case custom:
		into := reflect.New(m.typ).Interface()
		return into.(interface{ Unmarshal([]byte) error }).Unmarshal(b) == nil
	}
	if depth >= maxDepth {
		return false
	}
	for i := 0; i < len(b); {
		wire, next := uint64(b[i]), i+1
		if wire >= 0x80 {
			if wire, next = varint(b, i); next < 0 {
				return false
			}
		}
		number := int32(wire >> 3)
		switch {
		case number <= 0 || wire&7 == wireEnd:
			return false
		case int(number) >= len(m.fields) || m.fields[number].op == opNone:
			i = skip(b, i)
		default:
			i = m.fields[number].sound(b, next, wire&7, depth)
		}
		if i < 0 {
			return false
		}
	}
	return true
}

// sound returns the index after the field whose contents are at b[i:], or a negative number if it
// cannot be decoded.
func (f *field) sound(b []byte, i int, wire uint64, depth int) int {
	packed := f.op >= opInt32s && f.op < opString && wire == wireBytes
	switch {
	case f.op >= opString && wire == wireBytes || packed:
		start, end := span(b, i)
		if end < 0 {
			return -1
		}
		v, ok := b[start:end], true
		switch {
		case packed:
			for at := 0; at < len(v) && ok; ok = at >= 0 {
				_, at = varint(v, at)
			}
		case f.op == opMap:
			ok = f.soundEntry(v, depth)
		case f.sub != nil:
			ok = f.sub.sound(v, depth+1)
		}
		if !ok {
			return -1
		}
		return end
	case f.op == opFixed32 || f.op == opFixed32Ptr:
		if wire != wireFixed32 || i+4 > len(b) {
			return -1
		}
		return i + 4
	case f.op == opFixed64 || f.op == opFixed64Ptr:
		if wire != wireFixed64 || i+8 > len(b) {
			return -1
		}
		return i + 8
	case wire != wireVarint || f.op >= opString:
		return -1
	}
	_, i = varint(b, i)
	return i
}

// soundEntry reports whether an entry of a map can be decoded.
func (f *field) soundEntry(b []byte, depth int) bool {
	for i := 0; i < len(b); {
		number, v, next, err := nextField(b, i, 1<<1|1<<2)
		if err != nil || number == 0 || number == 2 && f.sub != nil && !f.sub.sound(v, depth+1) {
			return false
		}
		i = next
	}
	return true
}

// soundSuffix reports whether a quantity may end with v.
func soundSuffix(v []byte) bool {
	switch string(v) {
	case "", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei":
		return true
	}
	return false
}

// soundQuantity reports whether the text of a quantity is an ordinary number with a suffix.
func soundQuantity(b []byte) bool {
	for i := 0; i < len(b); {
		number, v, next, err := nextField(b, i, 1<<1)
		if err != nil {
			return false
		}
		i = next
		if number == 0 {
			continue
		}
		digits, points := 0, 0
		for len(v) > 0 && (v[0] >= '0' && v[0] <= '9' || v[0] == '.' && digits > 0) {
			if v[0] == '.' {
				points++
			} else {
				digits++
			}
			v = v[1:]
		}
		if digits == 0 || digits > 15 || points > 1 || !soundSuffix(v) {
			return false
		}
	}
	return true
}

// trim appends a sound message to dst without the fields that m does not have.
func (m *message) trim(dst, b []byte) []byte {
	for i := 0; i < len(b); {
		at := i
		wire, start := varint(b, at)
		number := int(int32(wire >> 3)) // as when it is decoded
		i = skip(b, at)
		if number >= len(m.fields) || m.fields[number].op == opNone {
			continue
		}
		f := &m.fields[number]
		switch {
		case f.op == opMap && len(f.absent) > 0:
			if from, to := span(b, start); slices.Contains(f.absent, entryKey(b[from:to])) {
				continue
			}
		case f.op >= opMessage && f.op != opMap && f.sub != nil && f.sub.cut && f.sub.form == byFields:
			from, to := span(b, start)
			dst = append(dst, b[at:start]...)
			// Behind room for the length, and then moved up to it.
			room := len(dst)
			dst = f.sub.trim(append(dst, make([]byte, binary.MaxVarintLen64)...), b[from:to])
			body := dst[room+binary.MaxVarintLen64:]
			dst = append(binary.AppendUvarint(dst[:room], uint64(len(body))), body...)
			continue
		}
		dst = append(dst, b[at:i]...)
	}
	return dst
}

// entryKey returns the key of a sound entry of a map.
func entryKey(b []byte) (key string) {
	for i := 0; i < len(b); {
		number, v, next, _ := nextField(b, i, 1<<1)
		if number == 1 {
			key = string(v)
		}
		i = next
	}
	return key
}
