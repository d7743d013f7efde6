package wire

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
)

// Watch opens a watch. It returns once the server has agreed to it: a refusal, be it
// a 410, is an [*Error] (W08).
//
// The stream lives until it is closed, the context ends, or the server ends it. An
// Added or Updated event whose object the intake holds comes with Held set
// and is not decoded; the intake's functions are called from within Next, on several cores. An object that cannot be
// decoded comes with its Err, and the stream goes on. An event of an unknown type comes
// without Kind, Bookmark and Err (W21). What the stream ends with
// is an object.ErrCorrupt for a frame that is broken, too long or cut off (W20), an
// object.ErrWrongKind for an object of another kind, io.EOF for an end in order, and
// otherwise what the network said.
func (s *Source[T]) Watch(ctx context.Context, opts object.WatchOptions, in *object.Intake[T]) (object.Stream[T], error) {
	r, err := s.request(VerbWatch, opts.Selection, watchQuery(opts))
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
	st := &stream[T]{
		ctx: ctx, bodyCtx: bodyCtx, end: end, body: body, call: r.Call(),
		kind:     kind,
		in:       in,
		lazy:     s.opts.Lazy,
		parallel: s.opts.Parallel,
		window:   s.opts.Window / 4,
		ready:    make(chan struct{}, 1),
		room:     make(chan struct{}, 1),
		done:     make(chan struct{}),
	}
	st.reading = reading[T]{codec: c, decoder: c.decoder(false), in: in}
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

// watchQuery writes the options of a watch as the API wants them.
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

// stream is an open watch. A goroutine receives frames into an inbox, up to the
// window; Next takes all of them at once and opens, peeks and decodes them. So a
// receiver that is busy gets everything that came meanwhile as one batch, whatever
// the sizes in which the network hands it over, and one that waits gets each event
// as it comes.
//
// Reading within Next, without a goroutine, saves a switch and a copy an event, but
// net/http returns after four kilobytes over HTTP/1.1: one or two events a batch.
type stream[T any] struct {
	ctx, bodyCtx context.Context
	end          context.CancelCauseFunc // of bodyCtx
	body         io.Closer
	call         Call
	in           *object.Intake[T]
	lazy         bool
	parallel     int
	window       int

	ready chan struct{} // there is something in the inbox, or an end
	room  chan struct{} // the inbox was emptied
	done  chan struct{} // closed when the receiving goroutine has ended

	mu    sync.Mutex // guards inbox and over
	inbox frames
	over  error // why nothing more is received

	// What Next works with.
	reading[T]
	kind   kindCheck
	taken  frames
	events []object.Event[T]
	jobs   []job
	texts  texts
	quiet  int   // batches since the last large one
	final  error // what Next found and returns from now on
}

// frames are frames one behind the other.
type frames struct {
	raw  []byte
	ends []int
}

// Buffers that grew for a burst are let go after a few quiet batches: there are many
// streams, and most of them are quiet most of the time.
const (
	quietBatches = 8
	smallBatch   = 16 << 10
)

func (st *stream[T]) letGo() {
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

// errStreamClosed is what Next returns after Close.
var errStreamClosed = fmt.Errorf("the watch was ended here: %w", net.ErrClosed)

// Next returns the events that have arrived.
func (st *stream[T]) Next() ([]object.Event[T], error) {
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

// take empties the inbox. over is why nothing more will come, if that is known.
func (st *stream[T]) take() (over error) {
	st.letGo()
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

// fail ends the stream, and returns what Next says from now on.
func (st *stream[T]) fail(err error) error {
	switch {
	case err == io.EOF:
		st.final = io.EOF
	case errors.Is(context.Cause(st.bodyCtx), errStreamClosed):
		st.final = &TransportError{Call: st.call, Err: errStreamClosed, Attempts: 1}
	default:
		st.final = failed(st.ctx, st.call, err)
	}
	st.end(nil)
	return st.final
}

// Close ends the stream and waits for its goroutine.
func (st *stream[T]) Close() error {
	st.end(errStreamClosed)
	st.body.Close() // for a transport that does not look at the context
	<-st.done
	return nil
}

// receive reads frames until there are no more.
func (st *stream[T]) receive(in frameReader) {
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

// put adds frames to the inbox, waiting while it is full. A single frame always has
// room in an empty one.
func (st *stream[T]) put(got [][]byte) error {
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

func (st *stream[T]) wake() {
	select {
	case st.ready <- struct{}{}:
	default:
	}
}

// open turns the frames that were taken into events. With an error, the events
// before it are there.
func (st *stream[T]) open() error {
	// The objects of the last batch belong to the receiver alone.
	clear(st.events)
	clear(st.jobs)
	st.events, st.jobs = st.events[:0], st.jobs[:0]
	// Decoders write into events, which must not move any more.
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
		// A wrong kind, and a frame that turned out to be none, end the stream.
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
