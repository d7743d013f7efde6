package wire

import (
	"context"
	"errors"
	"io"
	"net/url"
	"strconv"

	"github.com/tarnproject/tarn/object"
)

// List asks for one page of a list and gives its items to sink, in the order of the
// server and from the calling goroutine. It returns when the page is complete, with
// what stands around its items.
//
// An item that the intake holds is delivered with Held set and is not decoded. All others
// are prepared by the intake on the core that decodes them. An item that cannot be decoded
// or prepared is delivered with Err, and the others go on (L11). The intake may be nil.
//
// Whatever the error, items may have been delivered before it: a page counts only
// when List returns nil (L10). The error is an object.ErrCorrupt for a body that is
// cut off or broken, an object.ErrWrongKind for another kind than the resource's, an
// [*Error] for a refusal, and what sink returned when that was an error. When List
// returns, all its goroutines have ended and nothing that it delivered refers to its
// buffers, but for the Raw of a Lazy source.
func (s *Source[T]) List(ctx context.Context, opts object.ListOptions, in *object.Intake[T], sink func(object.Item[T]) error) (object.Page, error) {
	r, err := s.request(VerbList, opts.Selection, s.listQuery(opts))
	if err != nil {
		return object.Page{}, err
	}
	kind := s.listKind(r.Call())
	body, c, err := s.open(ctx, r, kind, in.Owned())
	if err != nil {
		return object.Page{}, err
	}
	defer body.Close()
	list := c.list(body, s.opts.FrameLimit, kind)
	defer list.release()
	err = s.items(ctx, c, list, in, sink)
	if err == nil {
		return list.page(), nil
	}
	if errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, object.ErrCorrupt) {
		err = truncated("the list")
	}
	return object.Page{}, failed(ctx, r.Call(), err)
}

// listQuery writes the options of a list as the API wants them.
func (s *Source[T]) listQuery(opts object.ListOptions) url.Values {
	query := url.Values{}
	set(query, "resourceVersion", string(opts.Version))
	set(query, "resourceVersionMatch", string(opts.Match))
	set(query, "continue", opts.Continue)
	if opts.Limit > 0 && !s.opts.DisablePaging {
		query.Set("limit", strconv.FormatInt(opts.Limit, 10))
	}
	return query
}

// items reads the items of a list and delivers them.
func (s *Source[T]) items(ctx context.Context, c codec[T], list listReader, in *object.Intake[T], sink func(object.Item[T]) error) error {
	read := reading[T]{codec: c, decoder: c.decoder(true), in: in}
	var names texts
	workers := s.opts.Parallel - 1
	if s.opts.Lazy {
		workers = 0 // the bytes do not outlive the call
	}
	w := &window[T]{
		decode: read.read,
		sink: func(item object.Item[T]) error {
			if !item.Held && item.Err == nil {
				item.Key = names.own(item.Key)
			}
			if err := sink(item); err != nil {
				return &sinkError{err}
			}
			return nil
		},
		limit:   s.opts.Window,
		workers: workers,
		pool:    &s.batches,
	}
	defer w.close()
	for first := true; ; first = false {
		raw, err := list.next()
		if err == io.EOF {
			return w.flush()
		}
		if err != nil {
			return err
		}
		if first {
			if err := s.checkFirst(list, raw); err != nil {
				return err
			}
		}
		if err := s.item(list, w, &names, raw, in); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// item puts one item into the window, at the stage that it needs.
func (s *Source[T]) item(list listReader, w *window[T], names *texts, raw []byte, in *object.Intake[T]) error {
	var item object.Item[T]
	asks := in != nil && in.Held != nil
	if !asks && !s.opts.Lazy {
		return w.add(item, raw)
	}
	id, err := list.peek(raw)
	if err != nil {
		// What the bytes do not say by themselves, the object may.
		return w.add(item, raw)
	}
	name(names, &item, id)
	if asks && in.Held(item.Key, item.UID, item.Version) {
		item.Held = true
		return w.ready(item)
	}
	if s.opts.Lazy {
		item.Raw = raw
		return w.ready(item)
	}
	return w.add(item, raw)
}

// checkFirst looks at the kind of the first item of a list that has not yet said its
// own: in the answers of custom resources it comes last, and nothing of a wrong kind
// is to be delivered (L12).
func (s *Source[T]) checkFirst(list listReader, raw []byte) error {
	if list.kindKnown() {
		return nil
	}
	id, err := list.peek(raw)
	if err != nil || len(id.kind.kind) == 0 {
		return nil
	}
	if want := s.objectKind(Call{}); !want.right(id.kind) {
		return want.wrong(id.kind.String())
	}
	return nil
}

// sinkError is an error of the receiver on its way through the reader.
type sinkError struct{ err error }

func (e *sinkError) Error() string { return e.err.Error() }

// failed says which call failed, and with which error: that of the receiver's sink as
// it is, that of the context where it has ended, and else what reading found. Refusals
// name the call themselves.
func failed(ctx context.Context, call Call, err error) error {
	var sink *sinkError
	var refused *Error
	switch {
	case errors.As(err, &sink):
		return sink.err
	case ctx.Err() != nil:
		err = ctx.Err()
	case errors.As(err, &refused):
		return err
	}
	return &TransportError{Call: call, Err: err, Attempts: 1}
}
