package clientgo

import (
	"context"
	"io"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/tools/cache"

	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
)

// reflectorSource is the source of a [Reflector]. It asks for pages where client-go does,
// and, for ListAndWatch, ends the run where client-go's returns.
type reflectorSource struct {
	reflector.Source[record]
	r        *Reflector
	pageSize int64
	ended    *ending // nil for Run, which continues

	broken bool // the last request was for a page whose continuation has expired
}

// defaultPageSize is what client-go's pager asks for.
const defaultPageSize = 500

// List implements reflector.Source. The reflector calls it from one goroutine.
func (s *reflectorSource) List(ctx context.Context, opts object.ListOptions, in *object.Intake[record], sink func(object.Item[record]) error) (object.Page, error) {
	if opts.Limit == 0 && !s.broken {
		if opts.Limit = s.pageSize; opts.Limit == 0 && s.r.isPaged() {
			opts.Limit = defaultPageSize
		}
	}
	page, err := s.Source.List(ctx, opts, in, sink)
	s.broken = opts.Continue != "" && apierrors.IsResourceExpired(err)
	if opts.Version == "0" && page.Continue != "" {
		s.r.setPaged()
	}
	return page, err
}

// Watch implements reflector.Source.
func (s *reflectorSource) Watch(ctx context.Context, opts object.WatchOptions, in *object.Intake[record]) (object.Stream[record], error) {
	opened := time.Now()
	stream, err := s.Source.Watch(ctx, opts, in)
	if _, each := s.r.store.(cache.ResourceVersionUpdater); each && err == nil {
		stream = &singleStream{Stream: stream}
	}
	if s.ended == nil {
		return stream, err
	}
	if err != nil {
		// A streaming list that fails is followed by a LIST.
		if !opts.InitialEvents && !utilnet.IsConnectionRefused(err) && !apierrors.IsTooManyRequests(err) {
			s.ended.with(err)
		}
		return nil, err
	}
	return &endingStream{Stream: stream, ended: s.ended, opened: opened, listing: opts.InitialEvents}, nil
}

// singleStream hands events over one by one, for a store that is given the version of each.
type singleStream struct {
	object.Stream[record]
	rest []object.Event[record] // of what the last Next of Stream returned
}

// Next implements object.Stream.
func (s *singleStream) Next() ([]object.Event[record], error) {
	if len(s.rest) == 0 {
		events, err := s.Stream.Next()
		if err != nil || len(events) == 0 {
			return events, err
		}
		s.rest = events
	}
	first := s.rest[:1]
	s.rest = s.rest[1:]
	return first, nil
}

// endingStream is a watch of ListAndWatch, which returns when one ends in an error.
type endingStream struct {
	object.Stream[record]
	ended   *ending
	opened  time.Time
	listing bool // the end of a streaming list's initial events has not come
	events  bool // there was one
}

// Next implements object.Stream.
func (s *endingStream) Next() ([]object.Event[record], error) {
	events, err := s.Stream.Next()
	for i := range events {
		ev := &events[i]
		s.listing = s.listing && !ev.InitialEnd
		if ev.Err != nil && !s.listing && !s.ended.survives(ev.Err) {
			s.ended.with(nil)
		}
	}
	s.events = s.events || len(events) > 0
	short := err == io.EOF && !s.events && time.Since(s.opened) < time.Second
	if !s.listing && (short || err != nil && err != io.EOF) {
		s.ended.with(nil)
	}
	return events, err
}

// ending is why a ListAndWatch returns.
type ending struct {
	cancel context.CancelFunc
	retry  time.Duration // for how long watches that end in an internal error are tried again

	mu             sync.Mutex // guards what follows
	over           bool
	err            error
	internal, last time.Time // the first internal error of a series, and the newest
}

// with ends the run, of which the first cause counts.
func (e *ending) with(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.over {
		e.over, e.err = true, err
		e.cancel()
	}
}

// result returns what ListAndWatch returns.
func (e *ending) result() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.err
}

// internalPause is how long there must be no internal error for a new series to begin.
const internalPause = time.Minute

// survives reports whether a watch is opened again after it ended in an error.
func (e *ending) survives(err error) bool {
	if apierrors.IsTooManyRequests(err) {
		return true
	}
	if !apierrors.IsInternalError(err) || e.retry <= 0 {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	if now.Sub(e.last) > internalPause {
		e.internal = now
	}
	e.last = now
	return now.Sub(e.internal) <= e.retry
}
