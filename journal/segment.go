package journal

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/tarnproject/tarn/internal/packing"
)

// Format is the version of the format that this package writes and reads.
const Format = 1

// magic begins every segment. The first line of the file has the version in text, for people and for later formats.
const magic = "tarn journal "

const (
	frameHead = 8        // length and checksum
	maxFrame  = 64 << 20 // a longer one is damage; a batch that would be longer becomes a whole state
	groupSize = 256 << 10
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// FormatError says that a segment is of another format.
type FormatError struct{ Has string }

// Error names both formats.
func (e *FormatError) Error() string {
	return fmt.Sprintf("journal: the state has format %s; this program reads %d", e.Has, Format)
}

// ErrDamaged says that no segment has a whole state that can be read.
var ErrDamaged = errors.New("journal: no segment has a whole state that can be read")

// header is the first record of a segment.
type header struct {
	Identity
	Began time.Time `json:"began"`
}

// writer writes a segment. Records are collected and written in groups. After an error it must not be used.
type writer struct {
	f       file
	crc     uint32 // of everything so far: each checksum covers the records before it
	group   []byte
	record  []byte
	numbers map[*packing.Dictionary]int
	texts   []int // how much of each dictionary is written
	// size is what was written, and state the part of it that is the whole state.
	size, state int64
	dirty       bool // not all that was written is synced
	grow        func(n int) error
}

// newWriter begins a segment. grow is asked before each group is written.
func newWriter(f file, id Identity, grow func(n int) error) (*writer, error) {
	w := &writer{f: f, numbers: map[*packing.Dictionary]int{}, grow: grow}
	w.group = fmt.Appendf(nil, "%s%d\n", magic, Format)
	w.crc = crc32.Update(0, castagnoli, w.group)
	head, err := json.Marshal(header{id, time.Now()})
	if err != nil {
		return nil, err
	}
	w.record = append(append(w.record, headerRecord), head...)
	return w, w.end()
}

// end ends the current record.
func (w *writer) end() error {
	if len(w.record) > maxFrame {
		return fmt.Errorf("journal: a record of %d bytes is too long", len(w.record))
	}
	w.frame(w.record)
	w.record = w.record[:0]
	if len(w.group) >= groupSize {
		return w.flush()
	}
	return nil
}

// frame adds a record to the group.
func (w *writer) frame(record []byte) {
	w.crc = crc32.Update(w.crc, castagnoli, record)
	w.group = binary.LittleEndian.AppendUint32(w.group, uint32(len(record)))
	w.group = binary.LittleEndian.AppendUint32(w.group, w.crc)
	w.group = append(w.group, record...)
}

// flush writes the group.
func (w *writer) flush() error {
	if len(w.group) == 0 {
		return nil
	}
	if err := w.grow(len(w.group)); err != nil {
		return err
	}
	n, err := w.f.Write(w.group)
	w.size += int64(n)
	w.dirty, w.group = true, w.group[:0]
	if cap(w.group) > 4*groupSize {
		w.group, w.record = nil, nil
	}
	return err
}

// sync makes durable what was written.
func (w *writer) sync() error {
	if !w.dirty {
		return nil
	}
	w.dirty = false
	return w.f.Sync()
}

// entry appends an object to the current record. The part of its dictionary that the file lacks goes before that.
func (w *writer) entry(e *Entry, of packing.Packed) {
	if e.removes() {
		w.record = appendEntry(w.record, e, 0, nil)
		return
	}
	dict, extent, data := of.Parts()
	number := 0
	if dict != nil {
		number = w.numbers[dict]
		if number == 0 {
			w.texts = append(w.texts, 0)
			number = len(w.texts)
			w.numbers[dict] = number
		}
		if has := w.texts[number-1]; has < extent {
			part := binary.AppendUvarint([]byte{dictionaryRecord}, uint64(number))
			part = binary.AppendUvarint(part, uint64(has))
			text := dict.Text(extent)[has:]
			part = append(binary.AppendUvarint(part, uint64(len(text))), text...)
			w.frame(part)
			w.texts[number-1] = extent
		}
	}
	w.record = appendEntry(w.record, e, number, data)
}

// object adds an object of the whole state.
func (w *writer) object(e *Entry, of packing.Packed) error {
	if len(w.record) == 0 {
		w.record = append(w.record, objectsRecord)
	}
	w.entry(e, of)
	if len(w.record) < groupSize {
		return nil
	}
	return w.end()
}

// complete ends the whole state, which is durable then.
func (w *writer) complete(m moment) error {
	if len(w.record) > 0 {
		if err := w.end(); err != nil {
			return err
		}
	}
	w.record = appendMoment(append(w.record, stateRecord), m)
	if err := w.end(); err != nil {
		return err
	}
	if err := w.flush(); err != nil {
		return err
	}
	w.state = w.size
	return w.sync()
}

// batch adds a batch, which consists of what each adds with entry.
func (w *writer) batch(m moment, changes int, each func() error) error {
	w.record = appendMoment(append(w.record, batchRecord), m)
	w.record = binary.AppendUvarint(w.record, uint64(changes))
	if err := each(); err != nil {
		return err
	}
	return w.end()
}

// reader reads a segment.
type reader struct {
	r   *bufio.Reader
	crc uint32
	buf []byte
	d   decoder
	header
}

// newReader reads the header of a segment.
func newReader(from io.Reader) (*reader, error) {
	r := &reader{r: bufio.NewReaderSize(from, groupSize), d: decoder{namespaces: map[string]string{}}}
	line, err := r.r.Peek(len(magic) + 8)
	if err != nil && err != io.EOF {
		return nil, err
	}
	rest, ours := strings.CutPrefix(string(line), magic)
	version, _, ended := strings.Cut(rest, "\n")
	number, err := strconv.Atoi(version)
	switch {
	case !ours || !ended || err != nil:
		return nil, ErrDamaged
	case number != Format:
		return nil, &FormatError{Has: version}
	}
	n, _ := r.r.Discard(len(magic) + len(version) + 1)
	r.crc = crc32.Update(0, castagnoli, line[:n])
	record, err := r.next()
	if err != nil || record[0] != headerRecord || json.Unmarshal(record[1:], &r.header) != nil {
		return nil, ErrDamaged
	}
	return r, nil
}

// next returns the next record, which is valid until the next call. At the end of what is intact the error is
// io.EOF.
func (r *reader) next() ([]byte, error) {
	var head [frameHead]byte
	if _, err := io.ReadFull(r.r, head[:]); err != nil {
		return nil, end(err)
	}
	n := int(binary.LittleEndian.Uint32(head[:]))
	if n == 0 || n > maxFrame {
		return nil, io.EOF
	}
	r.buf = r.buf[:0]
	for len(r.buf) < n { // so that a length that is damage costs no memory
		part := min(n-len(r.buf), 1<<20)
		at := len(r.buf)
		r.buf = append(r.buf, make([]byte, part)...)
		if _, err := io.ReadFull(r.r, r.buf[at:]); err != nil {
			return nil, end(err)
		}
	}
	r.crc = crc32.Update(r.crc, castagnoli, r.buf)
	if r.crc != binary.LittleEndian.Uint32(head[4:]) {
		return nil, io.EOF
	}
	return r.buf, nil
}

func end(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return io.EOF
	}
	return err
}

// read calls each for the objects of the state and then for the changes after it, and returns the state that this
// leads to. each receives a batch only if all of it is intact.
func (r *reader) read(each func(*Entry)) (State, error) {
	var st State
	whole := false
	marks := map[string]int{}
	for {
		record, err := r.next()
		if err != nil && err != io.EOF {
			return State{}, err
		}
		if err == io.EOF {
			if !whole {
				return State{}, ErrDamaged
			}
			return st, nil
		}
		r.d.data = record[1:]
		switch kind := record[0]; {
		case kind == dictionaryRecord:
			r.d.dictionary()
		case kind == objectsRecord && !whole:
			r.entries(-1, each)
		case kind == stateRecord && !whole:
			st.reached(r.d.moment(), marks)
			whole = true
		case kind == batchRecord && whole:
			m := r.d.moment()
			r.entries(r.d.number(), each)
			st.reached(m, marks)
		default:
			r.d.fail()
		}
		if r.d.bad {
			return State{}, fmt.Errorf("%w, although its checksum is right: %w", errRecord, ErrDamaged)
		}
	}
}

// entries reads n entries of the record, or all if n is negative.
func (r *reader) entries(n int, each func(*Entry)) {
	for ; !r.d.bad && (n > 0 || n < 0 && len(r.d.data) > 0); n-- {
		var e Entry
		if r.d.entry(&e); !r.d.bad {
			each(&e)
		}
	}
}
