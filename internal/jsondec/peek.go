package jsondec

import (
	"encoding/json"
	"errors"
)

// ErrUnclear means that the identity cannot be read from the bytes of an object:
// one of its fields occurs twice or is not a string. The identity then depends on the
// type that the bytes are decoded into: decode them and read it from the object.
var ErrUnclear = errors.New("jsondec: the identity is clear only after decoding")

// Identity is namespace, name, UID and version of an object. The fields point into the bytes that were peeked at,
// unless they had to be unescaped; what is missing or null is empty.
type Identity struct {
	Namespace, Name, UID, Version []byte
	Kind, APIVersion              []byte
}

// Peek reads the identity of an object from its bytes. It returns what decoding
// returns, or an error: [ErrUnclear] if that is not certain, an object.ErrCorrupt if the
// bytes are not an object. It scans the whole object, because a field may come twice, but
// checks only the fields of the identity: the rest may still be invalid.
func Peek(raw []byte) (Identity, error) {
	var id Identity
	var metadata []byte
	top := walk(raw)
	for top.next() {
		var err error
		switch string(top.name) {
		case "kind":
			err = peekText(&id.Kind, top.value)
		case "apiVersion":
			err = peekText(&id.APIVersion, top.value)
		case "metadata":
			if metadata != nil {
				return Identity{}, ErrUnclear
			}
			metadata = top.value
		}
		if err != nil {
			return Identity{}, err
		}
	}
	if !top.done || skipSpace(raw, top.i) != len(raw) {
		return Identity{}, corrupt("not an object")
	}
	if metadata == nil || string(metadata) == "null" {
		return id, nil
	}
	if metadata[0] != '{' {
		return Identity{}, ErrUnclear
	}
	if err := id.readMetadata(metadata); err != nil {
		return Identity{}, err
	}
	return id, nil
}

// readMetadata reads the part of an identity that stands in the metadata, which raw begins
// with.
func (id *Identity) readMetadata(raw []byte) error {
	meta := walk(raw)
	for meta.next() {
		var err error
		switch string(meta.name) {
		case "name":
			err = peekText(&id.Name, meta.value)
		case "namespace":
			err = peekText(&id.Namespace, meta.value)
		case "uid":
			err = peekText(&id.UID, meta.value)
		case "resourceVersion":
			err = peekText(&id.Version, meta.value)
		}
		if err != nil {
			return err
		}
	}
	if !meta.done {
		return corrupt("metadata is not an object")
	}
	return nil
}

// peekText sets *to, which nil says was not seen before.
func peekText(to *[]byte, value []byte) error {
	if *to != nil {
		return ErrUnclear
	}
	if string(value) == "null" {
		*to = value[:0:0]
		return nil
	}
	if value[0] != '"' {
		return ErrUnclear
	}
	b, ok := text(value)
	if !ok {
		return corrupt("a string is not valid")
	}
	*to = b[:len(b):len(b)]
	return nil
}

// SplitEvent returns the type of a watch event and the bytes of its object, both
// parts of frame. The object is nil where there is none. Other members have to be valid
// JSON.
func SplitEvent(frame []byte) (kind, object []byte, err error) {
	w := walk(frame)
	for w.next() {
		switch string(w.name) {
		case "type":
			if err := peekText(&kind, w.value); err != nil {
				return nil, nil, corrupt("the type of an event is not one string")
			}
		case "object":
			if object != nil {
				return nil, nil, corrupt("an event with two objects")
			}
			object = w.value
		default:
			if !json.Valid(w.value) {
				return nil, nil, corrupt("a member of an event is not valid")
			}
		}
	}
	if !w.done || skipSpace(frame, w.i) != len(frame) {
		return nil, nil, corrupt("not an event")
	}
	return kind, object, nil
}

// walker visits the members of an object. It finds where values end and looks
// no further into them.
type walker struct {
	b           []byte
	i           int
	before      byte // what stands before the next member
	name, value []byte
	done        bool // the closing brace has been met
}

// walk returns a walker of the object that b begins with.
func walk(b []byte) walker {
	i := skipSpace(b, 0)
	if i == len(b) || b[i] != '{' {
		return walker{}
	}
	return walker{b: b, i: i, before: '{'}
}

// next advances to the next member. It returns false after the last, with done set, and
// where the bytes are not what an object consists of.
func (w *walker) next() bool {
	b, i := w.b, skipSpace(w.b, w.i)
	if i == len(b) || w.done {
		return false
	}
	c := b[i]
	if c == w.before { // the opening brace, then commas
		if i = skipSpace(b, i+1); i == len(b) {
			return false
		}
	}
	if b[i] == '}' && (c == '{' || c == '}') {
		w.i, w.done = i+1, true
		return false
	}
	if c != w.before || b[i] != '"' {
		return false
	}
	w.before = ','
	end, n := endOfText(b, i)
	if end < 0 {
		return false
	}
	if w.name = b[i+1 : end-1]; n == special {
		w.name = unquote(w.name)
	}
	if i = skipSpace(b, end); i == len(b) || b[i] != ':' {
		return false
	}
	i = skipSpace(b, i+1)
	if end = endOfValue(b, i); end < 0 {
		return false
	}
	w.value, w.i = b[i:end:end], end
	return true
}

// endOfValue returns the index after the value at i, or -1.
func endOfValue(b []byte, i int) int {
	if i == len(b) {
		return -1
	}
	switch b[i] {
	case '{', '[':
	case '"':
		return pastString(b, i)
	default:
		start := i
		for i < len(b) && literal[b[i]] {
			i++
		}
		if i == start {
			return -1
		}
		return i
	}
	for depth := 0; i < len(b); {
		switch c := b[i]; {
		case !structural[c]:
			i++
		case c == '"':
			if i = pastString(b, i); i < 0 {
				return -1
			}
		case c == '{' || c == '[':
			depth++
			i++
		default:
			i++
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}
