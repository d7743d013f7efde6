package stream

import (
	"context"
	"errors"
	"io"
	"net/url"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire"
)

// List requests one page of a list and calls sink for each item, in the server's order and on
// the calling goroutine. It returns the page's metadata when the page is complete.
//
// An item that the intake holds is delivered with Held set and is not decoded. The intake
// prepares the others on the goroutine that decodes them. An item that is not in the requested
// shard, because the server does not shard, is delivered with Outside set and is not decoded. An item that cannot be decoded or
// prepared is delivered with Err; the list continues (L11). The intake may be nil.
//
// List may deliver items and then fail: a page is valid only if List returns nil (L10). The
// error is an object.ErrCorrupt for a truncated or invalid body, an object.ErrWrongKind for
// another kind than the resource's, a [*wire.Error] for an error response, or the error that
// sink returned. When List returns, its goroutines have ended, and nothing that it delivered
// refers to its buffers, except the Raw of a Lazy source.
func (s *Source[T]) List(ctx context.Context, opts object.ListOptions, in *object.Intake[T], sink func(object.Item[T]) error) (object.Page, error) {
	r, in, err := s.request(wire.VerbList, opts.Selection, listQuery(opts), in)
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
		page := pageOf(list.meta())
		if page.Sharded, err = confirmed(in, list.meta().ShardInfo); err == nil {
			return page, nil
		}
	}
	if errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, object.ErrCorrupt) {
		err = truncated("the list")
	}
	return object.Page{}, failed(ctx, r.Call(), err)
}

// listQuery returns the query parameters of a list.
func listQuery(opts object.ListOptions) url.Values {
	query := url.Values{}
	set(query, "resourceVersion", string(opts.Version))
	set(query, "resourceVersionMatch", string(opts.Match))
	set(query, "continue", opts.Continue)
	if opts.Limit > 0 {
		query.Set("limit", strconv.FormatInt(opts.Limit, 10))
	}
	return query
}

// items reads the items of a list and delivers them.
func (s *Source[T]) items(ctx context.Context, c codec[T], list listReader, in *object.Intake[T], sink func(object.Item[T]) error) error {
	read := s.reading(c, true, in)
	var names texts
	workers := s.opts.parallel - 1
	if s.opts.Lazy {
		workers = 0 // the bytes are valid only during the call
	}
	w := &window[T]{
		decode: read.read,
		sink: func(item object.Item[T]) error {
			if !item.Held && !item.Outside && item.Err == nil {
				item.Key = names.own(item.Key)
			}
			if err := sink(item); err != nil {
				return &sinkError{err}
			}
			return nil
		},
		limit:   s.opts.window,
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

// item adds one item to the window: decoded already, held, or to be decoded.
func (s *Source[T]) item(list listReader, w *window[T], names *texts, raw []byte, in *object.Intake[T]) error {
	var item object.Item[T]
	holds := in != nil && in.Held != nil
	if !holds && !sharded(in) && !s.opts.Lazy {
		return w.add(item, raw)
	}
	id, err := list.peek(raw)
	if err != nil {
		// Decoding decides whether the object is invalid.
		return w.add(item, raw)
	}
	if sharded(in) && id.outside(in.Shard) {
		return w.deliver(&object.Item[T]{Outside: true}) // its place among the others does not matter
	}
	if !holds && !s.opts.Lazy {
		return w.add(item, raw)
	}
	name(names, &item, id)
	if holds && in.Held(item.Key, item.UID, item.Version) {
		item.Held = true
		return w.ready(item)
	}
	if s.opts.Lazy {
		item.Raw = raw
		return w.ready(item)
	}
	return w.add(item, raw)
}

// sharded reports whether only a part of the objects is wanted.
func sharded[T any](in *object.Intake[T]) bool { return in != nil && !in.Shard.IsZero() }

// confirmed reports whether the server applied the requested shard. A list of another shard lacks
// objects, so it is an error.
func confirmed[T any](in *object.Intake[T], info *metav1.ShardInfo) (bool, error) {
	switch {
	case info == nil:
		return false, nil
	case sharded(in) && info.Selector == in.Shard.Selector():
		return true, nil
	}
	return false, corrupt("the server sent another shard than the one requested")
}

// checkFirst checks the kind of the first item if the list's own kind is not known yet: lists
// of custom resources send it last, and no item of a wrong kind may be delivered (L12).
func (s *Source[T]) checkFirst(list listReader, raw []byte) error {
	if list.kindKnown() {
		return nil
	}
	id, err := list.peek(raw)
	if err != nil || len(id.kind.kind) == 0 {
		return nil
	}
	if want := s.objectKind(wire.Call{}); !want.right(id.kind) {
		return want.wrong(id.kind.String())
	}
	return nil
}

// sinkError marks an error that the sink returned.
type sinkError struct{ err error }

func (e *sinkError) Error() string { return e.err.Error() }

// failed returns the error of a list or a watch: the sink's own error unchanged, the context's
// if it is done, and otherwise err with the call. A *wire.Error already names the call.
func failed(ctx context.Context, call wire.Call, err error) error {
	var sink *sinkError
	var rejected *wire.Error
	switch {
	case errors.As(err, &sink):
		return sink.err
	case ctx.Err() != nil:
		err = ctx.Err()
	case errors.As(err, &rejected):
		return err
	}
	return &wire.TransportError{Call: call, Err: err, Attempts: 1}
}
