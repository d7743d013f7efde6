package stream

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
	"github.com/tarnproject/tarn/wire"
	"github.com/tarnproject/tarn/wire/internal/wiretest"
)

// pipeBody is a body that the test writes. It ends with its request.
type pipeBody struct {
	ctx    context.Context
	pieces chan []byte
	rest   []byte
}

func (p *pipeBody) Read(b []byte) (int, error) {
	if len(p.rest) == 0 {
		select {
		case piece, ok := <-p.pieces:
			if !ok {
				return 0, io.EOF
			}
			p.rest = piece
		case <-p.ctx.Done():
			return 0, p.ctx.Err()
		}
	}
	n := copy(b, p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

func (p *pipeBody) Close() error { return nil }

// pipeSource returns a source and the channel to which the test writes its body.
func pipeSource(t testing.TB, e wire.Encoding, opts Options) (*Source[*corev1.Pod], chan<- []byte) {
	pieces := make(chan []byte)
	c := inMemory(t, func(req *http.Request) (*http.Response, error) {
		resp := wiretest.Response(req, 200, "", "Content-Type", mediaOf(e))
		resp.Body, resp.ContentLength = &pipeBody{ctx: req.Context(), pieces: pieces}, -1
		return resp, nil
	})
	return sourceOf(t, c, podsAs(e), opts), pieces
}

// received is a sink that counts changes and may be slow.
type received struct {
	changes int
	delay   time.Duration
}

func (r *received) Apply(b *object.Batch[*corev1.Pod]) error {
	<-time.After(r.delay)
	for _, c := range b.Changes {
		if c.List == nil {
			r.changes++
		}
	}
	return nil
}

func (r *received) Held(object.Key, object.UID, object.Version) bool { return false }

// runReflector runs a reflector until it backs off and returns its status. It lists with the
// source, or gets an empty list.
func runReflector(t *testing.T, src *Source[*corev1.Pod], list bool, sink *received, opts reflector.Options[*corev1.Pod]) reflector.Status {
	t.Helper()
	from := reflector.SourceFuncs[*corev1.Pod]{
		ListFunc: func(context.Context, object.ListOptions, *object.Intake[*corev1.Pod], func(object.Item[*corev1.Pod]) error) (object.Page, error) {
			return object.Page{Version: "1"}, nil
		},
		WatchFunc: src.Watch,
	}
	if list {
		from.ListFunc = src.List
	}
	opts.Streaming = reflector.StreamingOff
	opts.Rand = func() float64 { return 0 }
	r := wiretest.Must(reflector.New[*corev1.Pod](from, sink, opts))(t)
	ctx, cancel := context.WithCancel(t.Context())
	for r.Status().State != reflector.BackingOff {
		if err := r.Step(ctx); err != nil {
			t.Fatal(err)
		}
	}
	defer r.Step(ctx)
	defer cancel()
	return r.Status()
}

// W13: silence beyond the server's timeout ends the watch, after the events before it have been
// delivered. The reflector's watchdog covers any source.
func TestW13_ASilentStreamEnds(t *testing.T) {
	for _, e := range encodings {
		synctest.Test(t, func(t *testing.T) {
			src, pieces := pipeSource(t, e, Options{})
			start := time.Now()
			time.AfterFunc(50*time.Second, func() { pieces <- podEvents(e, 1) })
			sink := &received{}
			s := runReflector(t, src, false, sink, reflector.Options[*corev1.Pod]{MinWatchTimeout: time.Minute})
			if !errors.Is(s.Cause, object.ErrIdle) || sink.changes != 1 {
				t.Errorf("%s: %d changes, then %v", e, sink.changes, s.Cause)
			}
			if lasted := time.Since(start); lasted != 90*time.Second {
				t.Errorf("%s: ended after %v, want the timeout and 30 s", e, lasted)
			}
		})
	}
}

func TestW13_ASlowReceiverIsNotSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, pieces := pipeSource(t, wire.Protobuf, Options{window: 1})
		go func() { pieces <- podEvents(wire.Protobuf, 30) }() // larger than the window
		sink := &received{delay: time.Hour}
		s := runReflector(t, src, false, sink, reflector.Options[*corev1.Pod]{Silence: time.Minute})
		if !errors.Is(s.Cause, object.ErrIdle) || sink.changes != 30 || s.Counts.Watches != 1 {
			t.Errorf("%d changes of %d watches, then %v", sink.changes, s.Counts.Watches, s.Cause)
		}
	})
}

func TestW13_ASilentListEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, pieces := pipeSource(t, wire.JSON, Options{})
		go func() { pieces <- wireBytes(wire.JSON, podList(3))[:500] }()
		start := time.Now()
		s := runReflector(t, src, true, &received{}, reflector.Options[*corev1.Pod]{ListSilence: time.Minute})
		if !errors.Is(s.Cause, object.ErrIdle) || time.Since(start) != time.Minute {
			t.Errorf("%v after %v", s.Cause, time.Since(start))
		}
	})
}
