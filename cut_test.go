package tarn_test

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
	"github.com/tarnproject/tarn/wire"
	"github.com/tarnproject/tarn/wire/stream"
)

// cutter returns empty lists and cuts every watch after two minutes without events, with the
// error that net/http returns over HTTP/1.1.
type cutter struct{ lists, watches atomic.Int32 }

func (c *cutter) RoundTrip(r *http.Request) (*http.Response, error) {
	resp := &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}}, ContentLength: -1, Request: r}
	if r.URL.Query().Get("watch") == "" {
		c.lists.Add(1)
		resp.Body = io.NopCloser(strings.NewReader(`{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[]}`))
		return resp, nil
	}
	c.watches.Add(1)
	resp.Body = io.NopCloser(quietCut{r.Context()})
	return resp, nil
}

type quietCut struct{ ctx context.Context }

func (q quietCut) Read([]byte) (int, error) {
	select {
	case <-q.ctx.Done():
		return 0, q.ctx.Err()
	case <-time.After(2 * time.Minute):
		return 0, io.ErrUnexpectedEOF
	}
}

func TestW09_QuietCutsOfAJSONWatchCostNoList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &cutter{}
		client := must(wire.NewWithTransport(&url.URL{Scheme: "http", Host: "server"}, server, wire.Options{}))
		src := must(stream.NewSource(wire.For(client, wire.MustOf[*corev1.Pod]()), object.Selection{}, stream.Options{}))
		pods := must(informer.New(src, object.Meta[*corev1.Pod](), informer.Options[*corev1.Pod]{
			Name: "pods", Reflector: reflector.Options[*corev1.Pod]{Streaming: reflector.StreamingOff},
		}))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- pods.Run(ctx) }()
		for server.watches.Load() <= 30 {
			<-time.After(time.Minute)
			for _, s := range pods.Status().Sources {
				if s.Reflector.Failing {
					t.Fatalf("failing after %d cuts: %v", server.watches.Load(), s.Reflector.LastError)
				}
			}
		}
		if n := server.lists.Load(); n != 1 {
			t.Errorf("%d lists", n)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
