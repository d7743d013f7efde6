package simtest

import (
	"context"
	"fmt"
	"io"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/object"
)

// List implements reflector.Source. Each item is a copy, which the reader owns.
func (s *Server[T]) List(_ context.Context, opts object.ListOptions, in *object.Intake[T], sink func(object.Item[T]) error) (object.Page, error) {
	s.mu.Lock()
	s.counts.Lists++
	n := s.counts.Lists
	req := fmt.Sprintf("LIST %q", string(opts.Version))
	if opts.Continue != "" {
		req = "LIST continue=" + opts.Continue
		if opts.Version != "" || opts.Match != "" {
			req += " with a version"
		}
	}
	if opts.Match != "" {
		req += " " + string(opts.Match)
	}
	if opts.Limit > 0 {
		req += fmt.Sprintf(" limit=%d", opts.Limit)
	}
	if in == nil || in.Held == nil {
		req += " afresh"
	}
	s.requests = append(s.requests, req)
	refusal, on := s.refused[opts.Namespace], s.OnList
	s.mu.Unlock()
	if refusal != nil {
		return object.Page{}, refusal
	}
	if on != nil {
		if page, err, ok := on(n, opts, sink); ok {
			return page, err
		}
	}
	return s.Answer(opts, in, sink)
}

// Answer answers a list, for an OnList that changes the answer. A continue token is "c" and
// the number of items before it.
func (s *Server[T]) Answer(opts object.ListOptions, in *object.Intake[T], sink func(object.Item[T]) error) (object.Page, error) {
	s.mu.Lock()
	if v, err := number(opts.Version); err == nil && v > s.version {
		defer s.mu.Unlock()
		return object.Page{}, TooLarge(v, s.version)
	}
	var items []object.Item[T]
	for _, obj := range s.sorted() {
		if opts.Namespace != "" && obj.GetNamespace() != opts.Namespace {
			continue
		}
		items = append(items, s.item(obj, in))
	}
	from, limit := 0, int(opts.Limit)
	if opts.Continue != "" {
		fmt.Sscanf(opts.Continue, "c%d", &from)
	}
	page := object.Page{Version: s.now()}
	to := len(items)
	if limit > 0 && from+limit < to && (opts.Continue != "" || opts.Version != s.Unlimited) {
		to = from + limit
		page.Continue = fmt.Sprintf("c%d", to)
	}
	items = items[min(from, to):to]
	for _, it := range items {
		if !it.Held {
			s.counts.Decoded++
		}
	}
	s.mu.Unlock()
	for _, it := range items {
		if err := sink(it); err != nil {
			return object.Page{}, err
		}
	}
	return page, nil
}

// item returns a copy of an object, or that the reader holds it.
func (s *Server[T]) item(obj T, in *object.Intake[T]) object.Item[T] {
	it := ItemOf(obj)
	if it.Held = in.Holds(it.Key, it.UID, it.Version); it.Held {
		it.Value = object.Value[T]{}
	} else {
		it.Object = clone(obj)
	}
	return it
}

// Watch implements reflector.Source.
func (s *Server[T]) Watch(_ context.Context, opts object.WatchOptions, in *object.Intake[T]) (object.Stream[T], error) {
	s.mu.Lock()
	s.counts.Watches++
	n := s.counts.Watches
	req := "WATCH"
	if opts.InitialEvents {
		req = "STREAM"
	}
	req += fmt.Sprintf(" %q", string(opts.Version))
	if opts.Match != "" {
		req += " " + string(opts.Match)
	}
	if !opts.Bookmarks {
		req += " without bookmarks"
	}
	s.requests = append(s.requests, req)
	on := s.OnWatch
	s.mu.Unlock()
	if on != nil {
		if st, err, ok := on(n, opts); ok {
			return st, err
		}
	}
	return s.watch(opts, in)
}

func (s *Server[T]) watch(opts object.WatchOptions, in *object.Intake[T]) (object.Stream[T], error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if opts.InitialEvents && !s.Streams {
		return nil, apierrors.NewBadRequest("sendInitialEvents is forbidden")
	}
	st := NewStream[T]()
	st.namespace = opts.Namespace
	from, err := number(opts.Version)
	switch {
	case err == nil && from > s.version:
		return nil, TooLarge(from, s.version)
	case opts.InitialEvents:
		for _, obj := range s.sorted() {
			if opts.Namespace == "" || obj.GetNamespace() == opts.Namespace {
				st.Send(object.Event[T]{Kind: object.Added, Item: s.item(obj, in)})
			}
		}
		st.from = s.version
		st.Send(object.Event[T]{Bookmark: true, Item: object.Item[T]{Version: s.now()}, InitialEnd: true})
	case err == nil && from < s.compacted:
		return nil, apierrors.NewResourceExpired("too old resource version")
	case err == nil:
		st.from = from
		for _, ev := range s.history[:len(s.history)-min(len(s.backlog), len(s.history))] {
			st.deliver(ev)
		}
	}
	s.streams = append(s.streams, st)
	return st, nil
}

// TooLarge is the error of a request for a version that a server has not reached.
func TooLarge(want, have int) error {
	err := apierrors.NewTimeoutError(fmt.Sprintf("Too large resource version: %d, current: %d", want, have), 1)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge}}
	return err
}

// Stream is a watch. Its methods may be called from any goroutine.
type Stream[T Object] struct {
	// What a server sends it; guarded by the server's lock.
	namespace string // of these objects, "" for all
	from      int    // after this version
	muted     bool   // nothing any more

	mu     sync.Mutex // guards queue and err
	queue  []object.Event[T]
	err    error
	ready  chan struct{} // has room for one
	closed chan struct{}
	close  func()
}

// NewStream makes a stream that has been sent some events.
func NewStream[T Object](events ...object.Event[T]) *Stream[T] {
	st := &Stream[T]{ready: make(chan struct{}, 1), closed: make(chan struct{})}
	st.close = sync.OnceFunc(func() { close(st.closed) })
	st.Send(events...)
	return st
}

// deliver sends a copy of an event, if it is one of those that were asked for.
func (st *Stream[T]) deliver(ev object.Event[T]) {
	at, _ := number(ev.Item.Version)
	if st.muted || at <= st.from || !ev.Bookmark && st.namespace != "" && ev.Item.Key.Namespace != st.namespace {
		return
	}
	if !ev.Bookmark {
		ev.Item.Object = clone(ev.Item.Object)
	}
	st.Send(ev)
}

// Send sends events, unchanged.
func (st *Stream[T]) Send(events ...object.Event[T]) {
	st.mu.Lock()
	st.queue = append(st.queue, events...)
	st.mu.Unlock()
	st.wake()
}

// Fail ends the stream after what has been sent, and returns it.
func (st *Stream[T]) Fail(err error) *Stream[T] {
	st.mu.Lock()
	st.err = err
	st.mu.Unlock()
	st.wake()
	return st
}

func (st *Stream[T]) wake() {
	select {
	case st.ready <- struct{}{}:
	default:
	}
}

// Next implements object.Stream.
func (st *Stream[T]) Next() ([]object.Event[T], error) {
	for {
		st.mu.Lock()
		events, err := st.queue, st.err
		st.queue = nil
		st.mu.Unlock()
		switch {
		case len(events) > 0:
			return events, nil
		case err != nil:
			return nil, err
		}
		select {
		case <-st.ready:
		case <-st.closed:
			return nil, io.ErrClosedPipe
		}
	}
}

// Close implements object.Stream.
func (st *Stream[T]) Close() error {
	st.close()
	return nil
}

// Closed reports whether the reader has closed the stream.
func (st *Stream[T]) Closed() bool {
	select {
	case <-st.closed:
		return true
	default:
		return false
	}
}
