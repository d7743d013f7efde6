package simtest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire/stream"
)

// source reads the objects of a server in one encoding.
type source[T Object] struct {
	*Server[T]
	from *stream.Source[T]
}

// List implements reflector.Source.
func (s *Server[T]) List(ctx context.Context, opts object.ListOptions, in *object.Intake[T], sink func(object.Item[T]) error) (object.Page, error) {
	return s.source.List(ctx, opts, in, sink)
}

// Watch implements reflector.Source.
func (s *Server[T]) Watch(ctx context.Context, opts object.WatchOptions, in *object.Intake[T]) (object.Stream[T], error) {
	return s.source.Watch(ctx, opts, in)
}

// List implements reflector.Source.
func (s *source[T]) List(ctx context.Context, opts object.ListOptions, in *object.Intake[T], sink func(object.Item[T]) error) (object.Page, error) {
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
	return s.answer(ctx, opts, in, sink)
}

// Answer answers a list, for an OnList that changes the answer.
func (s *Server[T]) Answer(opts object.ListOptions, in *object.Intake[T], sink func(object.Item[T]) error) (object.Page, error) {
	return s.source.answer(context.Background(), opts, in, sink)
}

// answer answers a list. A continue token is "c" and the number of items before it.
func (s *source[T]) answer(ctx context.Context, opts object.ListOptions, in *object.Intake[T], sink func(object.Item[T]) error) (object.Page, error) {
	if err := s.reached(opts.Version); err != nil {
		return object.Page{}, err
	}
	opts.Selection = object.Selection{Namespace: opts.Namespace}
	if opts.Version == "0" && s.Unlimited != "0" {
		opts.Version = ""
	}
	n := 0
	if opts.Continue != "" {
		fmt.Sscanf(opts.Continue, "c%d", &n)
		s.Do(func() { opts.Continue = s.tokens[opts.Continue] })
	}
	page, err := s.from.List(ctx, opts, in, func(it object.Item[T]) error {
		n++
		if !it.Held {
			s.Do(func() { s.counts.Decoded++ })
		}
		return sink(it)
	})
	if page.Continue != "" {
		token := fmt.Sprintf("c%d", n)
		s.Do(func() { s.tokens[token] = page.Continue })
		page.Continue = token
	}
	return page, err
}

// reached returns an error at once if the server has not reached a version.
func (s *Server[T]) reached(version object.Version) error {
	if v, err := strconv.Atoi(string(version)); err == nil && v > int(s.api.Version()) {
		return TooLarge(v, int(s.api.Version()))
	}
	return nil
}

// Watch implements reflector.Source.
func (s *source[T]) Watch(ctx context.Context, opts object.WatchOptions, in *object.Intake[T]) (object.Stream[T], error) {
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
	if opts.InitialEvents && !s.Streams {
		return nil, apierrors.NewBadRequest("sendInitialEvents is forbidden")
	}
	if err := s.reached(opts.Version); err != nil {
		return nil, err
	}
	opts.Selection, opts.Timeout = object.Selection{Namespace: opts.Namespace}, 10_000*time.Hour
	events, err := s.from.Watch(ctx, opts, in)
	if err != nil {
		return nil, err
	}
	st := NewStream[T]()
	st.close = sync.OnceFunc(func() {
		close(st.closed)
		events.Close()
	})
	s.Do(func() { s.streams = append(s.streams, st) })
	go s.forward(events, st)
	return st, nil
}

// forward sends what the server sends.
func (s *Server[T]) forward(from object.Stream[T], st *Stream[T]) {
	for {
		events, err := from.Next()
		s.mu.Lock()
		for _, ev := range events {
			ev.Item.Raw = bytes.Clone(ev.Item.Raw)
			s.deliver(st, ev)
		}
		muted := st.muted
		s.mu.Unlock()
		if err != nil {
			if !muted {
				st.Fail(err)
			}
			return
		}
	}
}

// deliver sends an event if the test lets it. The caller must hold the lock.
func (s *Server[T]) deliver(st *Stream[T], ev object.Event[T]) {
	unsent := ev.Kind == object.Deleted && slices.ContainsFunc(st.unsent, func(obj T) bool {
		return KeyOf(obj) == ev.Item.Key && obj.GetResourceVersion() == string(ev.Item.Version)
	})
	switch {
	case st.muted || unsent:
	case s.held:
		st.backlog = append(st.backlog, ev)
	default:
		st.Send(ev)
	}
}

// TooLarge is the error of a request for a version that a server has not reached.
func TooLarge(want, have int) error {
	err := apierrors.NewTimeoutError(fmt.Sprintf("Too large resource version: %d, current: %d", want, have), 1)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge}}
	return err
}

// Stream is a watch. Its methods may be called from any goroutine.
type Stream[T Object] struct {
	// How the test interferes; guarded by the server's lock.
	muted   bool
	backlog []object.Event[T] // held back
	unsent  []T               // last states of objects whose deletions are not sent

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
