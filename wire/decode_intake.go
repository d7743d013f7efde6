package wire

import (
	"io"

	"google.golang.org/protobuf/encoding/protowire"
)

// readSize is what an intake holds when nothing in the stream is longer: large
// enough that a read of the network is rare, small enough to stay in the CPU's cache.
const readSize = 64 << 10

// keepSize is what an intake keeps of a buffer that had to grow.
const keepSize = 4 * readSize

// intake buffers a stream and hands out runs of its bytes without copying them.
// What is handed out stays valid until the next call that may read.
//
// The buffer grows with what has arrived, never with what a length promises: a
// hostile length costs nothing until its bytes are sent, and then no more than the
// limit.
type intake struct {
	r       io.Reader
	buf     []byte
	at, end int   // buf[at:end] is unread
	limit   int   // the longest run
	total   int64 // bytes consumed before buf[at]
	err     error // why r gives no more
}

// unread returns what has been received and not consumed.
func (in *intake) unread() []byte { return in.buf[in.at:in.end] }

func (in *intake) consume(n int) {
	in.at += n
	in.total += int64(n)
}

// read waits for some more bytes, keeping what is unread.
func (in *intake) read() error {
	if in.err != nil {
		return in.err
	}
	switch {
	case in.at == in.end:
		in.at, in.end = 0, 0
		if len(in.buf) > keepSize {
			in.buf = make([]byte, readSize) // what was so long is over
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

// need waits until n bytes are unread and returns them without consuming them. The
// error is io.EOF where the stream ends before the first of them,
// io.ErrUnexpectedEOF where it ends in between. n must not be above the limit.
func (in *intake) need(n int) ([]byte, error) {
	for in.end-in.at < n {
		if err := in.read(); err != nil {
			if err == io.EOF && in.end > in.at {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
	}
	return in.buf[in.at : in.at+n], nil
}

// skip consumes n bytes, however many they are.
func (in *intake) skip(n int64) error {
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

// varint consumes a number. The error is io.EOF where the stream ends before it.
func (in *intake) varint() (uint64, error) {
	for {
		v, n := protowire.ConsumeVarint(in.unread())
		if n >= 0 {
			in.consume(n)
			return v, nil
		}
		if in.end-in.at >= 10 {
			return 0, errField
		}
		if err := in.read(); err != nil {
			if err == io.EOF && in.end > in.at {
				err = io.ErrUnexpectedEOF
			}
			return 0, err
		}
	}
}
