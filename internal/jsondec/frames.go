package jsondec

import (
	"fmt"
	"io"
)

// DefaultLimit is the size up to which an item, a frame or another single value is
// read by default. etcd stores 1.5 MiB by default; servers are seldom
// configured beyond 8 MiB.
const DefaultLimit = 16 << 20

// readSize is what is asked of a reader at once, keepSize what is kept of a buffer
// that had to grow for one large value.
const (
	readSize = 32 << 10
	keepSize = 256 << 10
)

// Frames splits a stream of JSON objects, one after the other with or without space
// between them, into these objects. It looks at each byte once, reuses its buffer,
// and holds no more than one object beyond what the reader gave it at once.
//
// It is for one goroutine.
type Frames struct {
	r     io.Reader
	limit int
	buf   []byte
	start int // of the frame that is not complete yet
	pos   int // up to where that frame has been looked at
	split splitter
	out   [][]byte
	err   error
}

// NewFrames returns a splitter of what r gives. No frame may be longer than limit,
// which is [DefaultLimit] if zero or less.
func NewFrames(r io.Reader, limit int) *Frames {
	if limit <= 0 {
		limit = DefaultLimit
	}
	return &Frames{r: r, limit: limit}
}

// Next returns all frames that have been received completely, at least one. It reads,
// and so may block, only if there is none. The frames are valid until the next
// call. After the last frame it returns io.EOF if the stream ended between two
// frames. The error is an [object.ErrCorrupt] if it ended inside one (then it is an
// io.ErrUnexpectedEOF too), if a frame is too long, or if a value is not an object. Any
// other error is the reader's own: net/http reports a broken connection as
// io.ErrUnexpectedEOF. Frames that were complete before an error are returned first.
func (f *Frames) Next() ([][]byte, error) {
	f.out = f.out[:0]
	for len(f.out) == 0 {
		if f.err != nil {
			return nil, f.err
		}
		f.compact() // in each round: a round may have found only space
		f.buf, f.err = readMore(f.r, f.buf, f.limit+1)
		if err := f.cut(); err != nil {
			f.err = err
		} else if f.err == io.EOF && f.start < len(f.buf) {
			f.err = truncated()
		}
		if f.err != nil && f.err != io.EOF {
			f.err = fmt.Errorf("jsondec: frame: %w", f.err)
		}
	}
	return f.out, nil
}

// compact moves the frame that has begun to the front of the buffer.
func (f *Frames) compact() {
	if f.start == 0 {
		return
	}
	rest := f.buf[f.start:]
	if cap(f.buf) > keepSize && len(rest) < readSize {
		f.buf = make([]byte, 0, readSize)
	}
	f.buf = append(f.buf[:0], rest...)
	f.pos -= f.start
	f.start = 0
}

// cut appends the complete frames of the buffer to out.
func (f *Frames) cut() error {
	for {
		if f.pos == f.start {
			f.start = skipSpace(f.buf, f.start)
			if f.pos = f.start; f.start == len(f.buf) {
				return nil
			}
			if f.buf[f.start] != '{' {
				return corrupt("want an object")
			}
		}
		end, done, err := f.split.scan(f.buf, f.pos, false)
		if err != nil {
			return corrupt(err.Error())
		}
		if end-f.start > f.limit {
			return corrupt(fmt.Sprintf("longer than the limit of %d bytes", f.limit))
		}
		f.pos = end
		if !done {
			return nil
		}
		f.out = append(f.out, f.buf[f.start:end:end])
		f.start = end
		f.split.reset()
	}
}

// skipSpace returns the index of the first byte from i on that is not JSON's white
// space, or len(b).
func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}
