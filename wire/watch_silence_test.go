package wire

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
)

// pipeBody is a body that arrives as the test writes it. It ends with its request.
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

// pipeSource is a source whose body arrives piece by piece.
func pipeSource(t testing.TB, e Encoding, opts SourceOptions) (*Source[*corev1.Pod], chan<- []byte) {
	pieces := make(chan []byte)
	c := inMemory(t, Options{}, func(req *http.Request) (*http.Response, error) {
		resp := answer(req, 200, "", "Content-Type", mediaOf(e))
		resp.Body, resp.ContentLength = &pipeBody{ctx: req.Context(), pieces: pieces}, -1
		return resp, nil
	})
	return sourceOf(t, c, podsAs(e), opts), pieces
}

// W13: silence beyond the server's own timeout ends the stream, and what came before
// it is delivered. A receiver that takes its time is no silence.
func TestW13_ASilentStreamEnds(t *testing.T) {
	for _, e := range encodings {
		synctest.Test(t, func(t *testing.T) {
			src, pieces := pipeSource(t, e, SourceOptions{})
			st := must(src.Watch(t.Context(), object.WatchOptions{Timeout: time.Minute}, nil))(t)
			defer st.Close()
			start := time.Now()
			time.AfterFunc(50*time.Second, func() { pieces <- podEvents(e, 1) })
			if events, err := st.Next(); err != nil || len(events) != 1 {
				t.Fatalf("%d events, err %v", len(events), err)
			}
			_, err := st.Next()
			if !errors.Is(err, object.ErrIdle) {
				t.Errorf("%s: %v", e, err)
			}
			if silent := time.Since(start) - 50*time.Second; silent != 90*time.Second {
				t.Errorf("%s: ended after %v of silence, want the timeout and 30 s", e, silent)
			}
		})
	}
}

func TestW13_ASlowReceiverIsNotSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, pieces := pipeSource(t, Protobuf, SourceOptions{Idle: time.Minute, Window: 1})
		st := must(src.Watch(t.Context(), object.WatchOptions{}, nil))(t)
		defer st.Close()
		pieces <- podEvents(Protobuf, 30) // more than the window holds
		<-time.After(time.Hour)
		for n := 0; n < 30; {
			events, err := st.Next()
			if err != nil {
				t.Fatalf("after %d events: %v", n, err)
			}
			n += len(events)
		}
	})
}

func TestListGoesSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, pieces := pipeSource(t, JSON, SourceOptions{})
		go func() { pieces <- wireBytes(JSON, podList(3))[:500] }()
		start := time.Now()
		_, _, err := collect(src, nil)
		if !errors.Is(err, object.ErrIdle) || time.Since(start) != time.Minute {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}
