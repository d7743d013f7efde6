package journal

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/tarnproject/tarn/internal/packing"
	"github.com/tarnproject/tarn/object"
)

// The kinds of records, which are the first byte of each. docs/journal.md describes them.
const (
	headerRecord     byte = 'H' // the identity, as JSON
	dictionaryRecord byte = 'D' // a part of a dictionary's text
	objectsRecord    byte = 'O' // some objects of the whole state
	stateRecord      byte = 'S' // the end of the whole state, with its marks
	batchRecord      byte = 'B' // one batch of changes, with its marks
	mirrorRecord     byte = 'M' // of which mirror of a recording the next records are
	activityRecord   byte = 'A' // what a controller did, as JSON
)

// maxObject bounds the encoding of one object, as that of a frame of the API.
const maxObject = 16 << 20

// Entry is one object of a state, or one change of it. Its strings may be kept; Data is valid until the function
// that is given the entry returns.
type Entry struct {
	Kind    object.Kind // Added, Updated, Deleted or Left
	Key     object.Key
	UID     object.UID
	Version object.Version
	Data    []byte // the object's encoding; empty for Deleted and Left
}

// removes reports whether the entry removes an object.
func (e *Entry) removes() bool { return e.Kind == object.Deleted || e.Kind == object.Left }

func appendText[S ~string](dst []byte, s S) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

// appendEntry appends an object or a change. number is that of the dictionary, 0 for none.
func appendEntry(dst []byte, e *Entry, number int, packed []byte) []byte {
	dst = append(dst, byte(e.Kind))
	dst = appendText(dst, e.Key.Namespace)
	dst = appendText(dst, e.Key.Name)
	dst = appendText(dst, e.UID)
	dst = appendText(dst, e.Version)
	if e.removes() {
		return dst
	}
	dst = binary.AppendUvarint(dst, uint64(number))
	return append(binary.AppendUvarint(dst, uint64(len(packed))), packed...)
}

// moment is what a record says besides objects: when it was written, what could not be read, and how far it came.
type moment struct {
	at         time.Time
	unreadable int
	marks      []Mark
}

func appendMoment(dst []byte, m moment) []byte {
	dst = binary.AppendVarint(dst, m.at.UnixNano())
	dst = binary.AppendUvarint(dst, uint64(m.unreadable))
	dst = binary.AppendUvarint(dst, uint64(len(m.marks)))
	for _, mark := range m.marks {
		dst = appendText(dst, mark.Scope)
		dst = appendText(dst, mark.Version)
		dst = appendText(dst, mark.Shard)
	}
	return dst
}

var errRecord = errors.New("journal: invalid record")

// decoder reads a record. After the first error it returns zero values.
type decoder struct {
	data []byte
	bad  bool
	// texts has the text of each dictionary; namespaces are repeated in most entries.
	texts      [][]byte
	namespaces map[string]string
	buf        []byte
}

func (d *decoder) fail() { d.bad, d.data = true, nil }

func (d *decoder) number() int {
	n, k := binary.Uvarint(d.data)
	if k <= 0 || n > 1<<40 {
		d.fail()
		return 0
	}
	d.data = d.data[k:]
	return int(n)
}

func (d *decoder) bytes() []byte {
	n := d.number()
	if n > len(d.data) {
		d.fail()
		return nil
	}
	b := d.data[:n]
	d.data = d.data[n:]
	return b
}

func (d *decoder) moment() (m moment) {
	nanos, k := binary.Varint(d.data)
	if k <= 0 {
		d.fail()
		return m
	}
	d.data = d.data[k:]
	m.at, m.unreadable = time.Unix(0, nanos), d.number()
	for range d.number() {
		if d.bad {
			break
		}
		m.marks = append(m.marks, Mark{object.Scope(d.bytes()), object.Version(d.bytes()), string(d.bytes())})
	}
	return m
}

func (d *decoder) entry(e *Entry) {
	if len(d.data) == 0 {
		d.fail()
		return
	}
	kind := object.Kind(d.data[0])
	d.data = d.data[1:]
	ns, name, uid, version := d.bytes(), d.bytes(), d.bytes(), d.bytes()
	if kind != object.Added && kind != object.Updated && kind != object.Deleted && kind != object.Left || len(name) == 0 {
		d.fail()
		return
	}
	space, ok := d.namespaces[string(ns)]
	if !ok {
		space = string(ns)
		d.namespaces[space] = space
	}
	n, u := len(name), len(name)+len(uid)
	text := string(append(append(append(d.buf[:0], name...), uid...), version...))
	*e = Entry{Kind: kind, Key: object.Key{Namespace: space, Name: text[:n]}, UID: object.UID(text[n:u]), Version: object.Version(text[u:])}
	if !e.removes() {
		e.Data = d.object()
	}
}

// object reads the encoding of an object, which is valid until the next call.
func (d *decoder) object() []byte {
	number, data := d.number(), d.bytes()
	switch {
	case d.bad || number > len(d.texts):
		d.fail()
		return nil
	case number == 0:
		return data
	}
	out, err := packing.Unpack(d.buf, d.texts[number-1], data, maxObject)
	if err != nil {
		d.fail()
		return nil
	}
	d.buf = out
	return out
}

// maxText bounds the dictionaries of a segment.
const maxText = 256 << 20

// dictionary reads a part of a dictionary, which follows the part before it.
func (d *decoder) dictionary() {
	number, at, text := d.number(), d.number(), d.bytes()
	if d.bad || number == 0 || number > len(d.texts)+1 {
		d.fail()
		return
	}
	if number > len(d.texts) {
		d.texts = append(d.texts, nil)
	}
	of := &d.texts[number-1]
	if at != len(*of) || at+len(text) > maxText {
		d.fail()
		return
	}
	*of = append(*of, text...)
}
