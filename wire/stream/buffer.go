package stream

import (
	"io"

	"google.golang.org/protobuf/encoding/protowire"
)

// readSize is the usual size of a buffer: large enough that reads of the network are rare,
// small enough to stay in the CPU's cache.
const readSize = 64 << 10

// keepSize is the size above which a buffer that had to grow is replaced.
const keepSize = 4 * readSize

// buffer reads a stream and returns runs of its bytes without copying them. They are valid
// until the next call that may read.
//
// It grows with the bytes that have arrived, never with a length that the server announces:
// a hostile length costs nothing until its bytes are sent, and then at most the limit.
type buffer struct {
	r       io.Reader
	buf     []byte
	at, end int   // buf[at:end] is unread
	limit   int   // of one run
	total   int64 // bytes consumed before buf[at]
	err     error // of the last read; no read follows it
}

// unread returns the bytes that have been received and not consumed.
func (in *buffer) unread() []byte { return in.buf[in.at:in.end] }

func (in *buffer) consume(n int) {
	in.at += n
	in.total += int64(n)
}

// read blocks until more bytes arrive. It keeps the unread ones.
func (in *buffer) read() error {
	if in.err != nil {
		return in.err
	}
	switch {
	case in.at == in.end:
		in.at, in.end = 0, 0
		if len(in.buf) > keepSize {
			in.buf = make([]byte, readSize) // it grew for one long run
		}
	case in.at > 0 && in.end > len(in.buf)/2:
		in.end = copy(in.buf, in.buf[in.at:in.end])
		in.at = 0
	}
	if in.end == len(in.buf) {
		grown := make([]byte, max(readSize, min(2*len(in.buf), in.limit+readSize)))
		copy(grown, in.buf[:in.end])
		in.buf = grown
	}
	for range 100 {
		n, err := in.r.Read(in.buf[in.end:])
		in.end += n
		in.err = err
		if n > 0 {
			return nil
		}
		if err != nil {
			return err
		}
	}
	in.err = io.ErrNoProgress
	return in.err
}

// need blocks until n bytes are unread and returns them without consuming them. The error is
// io.EOF if the stream ends before the first of them, and io.ErrUnexpectedEOF if it ends
// later. n must not exceed the limit.
func (in *buffer) need(n int) ([]byte, error) {
	for in.end-in.at < n {
		if err := in.more(); err != nil {
			return nil, err
		}
	}
	return in.buf[in.at : in.at+n], nil
}

// more is read for bytes in the middle of a run: the error is io.ErrUnexpectedEOF if the
// stream ends after the run's first byte.
func (in *buffer) more() error {
	err := in.read()
	if err == io.EOF && in.end > in.at {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// skip consumes n bytes, which may exceed the limit.
func (in *buffer) skip(n int64) error {
	for n > 0 {
		if in.at == in.end {
			if err := in.read(); err != nil {
				return err
			}
		}
		step := min(n, int64(in.end-in.at))
		in.consume(int(step))
		n -= step
	}
	return nil
}

// varint consumes a number. The error is io.EOF if the stream ends before it.
func (in *buffer) varint() (uint64, error) {
	for {
		v, n := protowire.ConsumeVarint(in.unread())
		if n >= 0 {
			in.consume(n)
			return v, nil
		}
		if in.end-in.at >= 10 {
			return 0, errField
		}
		if err := in.more(); err != nil {
			return 0, err
		}
	}
}
