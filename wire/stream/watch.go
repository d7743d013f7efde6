package stream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"strconv"
	"sync"

	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire"
)

// Watch opens a watch. It returns when the server has accepted it. An error response, such as
// 410, is a [*wire.Error] (W08).
//
// The stream ends when it is closed, the context is done, or the server ends it. An Added or
// Updated event whose object the intake holds has Held set and is not decoded. An event of an object
// that is not in the requested shard has Outside set, with its version only, and is not decoded. Next calls the
// intake's functions, on several goroutines. An object that cannot be decoded is delivered with
// its Err; the stream continues. An event of an unknown type has no Kind, Bookmark or Err
// (W21).
//
// The error of Next is an object.ErrCorrupt for an invalid, overlong or truncated frame (W20),
// an object.ErrWrongKind for an object of another kind, io.EOF if the server ended the stream
// normally, or a network error.
func (s *Source[T]) Watch(ctx context.Context, opts object.WatchOptions, in *object.Intake[T]) (object.Stream[T], error) {
	r, in, err := s.request(wire.VerbWatch, opts.Selection, watchQuery(opts), in)
	if err != nil {
		return nil, err
	}
	bodyCtx, end := context.WithCancelCause(ctx)
	kind := s.objectKind(r.Call())
	body, c, err := s.open(bodyCtx, r, kind, in.Owned())
	if err != nil {
		end(nil)
		return nil, err
	}
	st := &watch[T]{
		ctx: ctx, bodyCtx: bodyCtx, end: end, body: body, call: r.Call(),
		kind:     kind,
		in:       in,
		lazy:     s.opts.Lazy,
		parallel: s.opts.parallel,
		window:   s.opts.window / 4,
		ready:    make(chan struct{}, 1),
		room:     make(chan struct{}, 1),
		done:     make(chan struct{}),
	}
	st.reading = s.reading(c, false, in)
	if c.selfNamed() {
		st.check = &st.kind
	}
	if s.opts.Lazy {
		st.parallel = 1
	}
	frames := c.frames(body, s.opts.FrameLimit)
	go st.receive(frames)
	return st, nil
}

// watchQuery returns the query parameters of a watch.
func watchQuery(opts object.WatchOptions) url.Values {
	query := url.Values{"watch": {"true"}}
	set(query, "resourceVersion", string(opts.Version))
	set(query, "resourceVersionMatch", string(opts.Match))
	if opts.InitialEvents {
		query.Set("sendInitialEvents", strconv.FormatBool(true))
	}
	if opts.Bookmarks {
		query.Set("allowWatchBookmarks", strconv.FormatBool(true))
	}
	if opts.Timeout > 0 {
		query.Set("timeoutSeconds", seconds(opts.Timeout))
	}
	return query
}

// watch is an open watch. A goroutine receives frames into an inbox of limited size; Next takes
// all of them and parses, peeks and decodes them. A busy receiver gets everything that arrived
// in the meantime as one batch; a receiver that blocks in Next gets each event when it arrives.
//
// Reading in Next, without a goroutine, saves a context switch and a copy per event. But a read
// of net/http returns at most four kilobytes over HTTP/1.1: one or two events per batch.
type watch[T any] struct {
	ctx, bodyCtx context.Context
	end          context.CancelCauseFunc // of bodyCtx
	body         io.Closer
	call         wire.Call
	in           *object.Intake[T]
	lazy         bool
	parallel     int
	window       int

	ready chan struct{} // the inbox has frames, or over is set
	room  chan struct{} // Next has emptied the inbox
	done  chan struct{} // closed when the goroutine ends

	mu    sync.Mutex // guards inbox and over
	inbox frames
	over  error // why the goroutine ended

	// Only Next uses these.
	reading[T]
	kind   kindCheck
	taken  frames
	events []object.Event[T]
	jobs   []job
	texts  texts
	quiet  int   // batches since the last large one
	final  error // every further Next returns it
}

// frames are concatenated frames.
type frames struct {
	raw  []byte
	ends []int
}

// Buffers that grew for a burst are freed after quietBatches small batches: a process has many
// watches, and most of them are idle most of the time.
const (
	quietBatches = 8
	smallBatch   = 16 << 10
)

func (st *watch[T]) shrink() {
	if len(st.taken.raw) > smallBatch {
		st.quiet = 0
		return
	}
	if st.quiet++; st.quiet < quietBatches {
		return
	}
	st.quiet = 0
	if cap(st.taken.raw) > smallBatch {
		st.taken = frames{}
	}
	if cap(st.events) > 8*(len(st.events)+8) {
		st.events, st.jobs = nil, nil
	}
}

// errStreamClosed is the error of Next after Close.
var errStreamClosed = fmt.Errorf("the watch was closed by its receiver: %w", net.ErrClosed)

// Next implements object.Stream.
func (st *watch[T]) Next() ([]object.Event[T], error) {
	for {
		if st.final != nil {
			return nil, st.final
		}
		ended := context.Cause(st.bodyCtx)
		if ended != nil && (st.ctx.Err() != nil || ended == errStreamClosed) {
			return nil, st.fail(ended)
		}
		over := st.take()
		if len(st.taken.ends) > 0 {
			if err := st.open(); err != nil {
				st.fail(err)
			}
			if len(st.events) > 0 {
				return st.events, nil
			}
			continue
		}
		if over == nil {
			over = ended
		}
		if over != nil {
			return nil, st.fail(over)
		}
		select {
		case <-st.ready:
		case <-st.bodyCtx.Done():
		}
	}
}

// take empties the inbox. over is not nil if the goroutine has ended.
func (st *watch[T]) take() (over error) {
	st.shrink()
	st.taken.raw, st.taken.ends = st.taken.raw[:0], st.taken.ends[:0]
	st.mu.Lock()
	st.taken, st.inbox = st.inbox, st.taken
	over = st.over
	st.mu.Unlock()
	select {
	case st.room <- struct{}{}:
	default:
	}
	return over
}

// fail ends the watch and returns the error for this and every further Next.
func (st *watch[T]) fail(err error) error {
	switch {
	case err == io.EOF:
		st.final = io.EOF
	case errors.Is(context.Cause(st.bodyCtx), errStreamClosed):
		st.final = &wire.TransportError{Call: st.call, Err: errStreamClosed, Attempts: 1}
	default:
		st.final = failed(st.ctx, st.call, err)
	}
	st.end(nil)
	return st.final
}

// Close implements object.Stream. It waits for the goroutine.
func (st *watch[T]) Close() error {
	st.end(errStreamClosed)
	st.body.Close() // some transports ignore the context
	<-st.done
	return nil
}

// receive reads frames until the body ends.
func (st *watch[T]) receive(in frameReader) {
	defer close(st.done)
	defer st.body.Close()
	for {
		got, err := in.Next()
		if err == nil {
			err = st.put(got)
		}
		if err != nil {
			st.mu.Lock()
			st.over = err
			st.mu.Unlock()
			st.wake()
			return
		}
	}
}

// put adds frames to the inbox and blocks while it is full. An empty inbox takes a frame of any
// size.
func (st *watch[T]) put(got [][]byte) error {
	for len(got) > 0 {
		st.mu.Lock()
		n := 0
		for n < len(got) && (len(st.inbox.raw) == 0 || len(st.inbox.raw)+len(got[n]) <= st.window) {
			st.inbox.raw = append(st.inbox.raw, got[n]...)
			st.inbox.ends = append(st.inbox.ends, len(st.inbox.raw))
			n++
		}
		st.mu.Unlock()
		if n > 0 {
			st.wake()
		}
		if got = got[n:]; len(got) == 0 {
			return nil
		}
		select {
		case <-st.room:
		case <-st.bodyCtx.Done():
			return context.Cause(st.bodyCtx)
		}
	}
	return nil
}

func (st *watch[T]) wake() {
	select {
	case st.ready <- struct{}{}:
	default:
	}
}

// open parses and decodes the frames that take returned. If there is an error, st.events has the
// events before it.
func (st *watch[T]) open() error {
	// The receiver owns the objects of the last batch.
	clear(st.events)
	clear(st.jobs)
	st.events, st.jobs = st.events[:0], st.jobs[:0]
	// Decoders write to the elements, so the slice must not be reallocated.
	st.events = slices.Grow(st.events, len(st.taken.ends))
	var err error
	from := 0
	for _, end := range st.taken.ends {
		if err = st.openOne(st.taken.raw[from:end:end]); err != nil {
			break
		}
		from = end
	}
	st.decodeAll()
	for i := range st.events {
		// A wrong kind and an invalid frame end the watch.
		item := &st.events[i].Item
		if item.Err != nil && (errors.Is(item.Err, object.ErrWrongKind) || item.Raw == nil) {
			err = item.Err
			clear(st.events[i:])
			st.events = st.events[:i]
			break
		}
	}
	return err
}
