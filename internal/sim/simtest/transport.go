package simtest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
)

// transport calls a handler in the same process. It has no goroutine without a request.
type transport struct {
	handler http.Handler
	via     Via
}

// RoundTrip implements http.RoundTripper.
func (rt *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, end := context.WithCancel(req.Context())
	in := req.Clone(ctx)
	if in.Body == nil {
		in.Body = http.NoBody
	}
	if rt.via == JSON {
		in.Header.Set("Accept", "application/json")
	}
	r, w := io.Pipe()
	a := &answer{resp: &http.Response{Request: req, Header: http.Header{}, Body: &body{r, end}}, body: w, begun: make(chan struct{})}
	go func() {
		defer end()
		defer func() {
			if p := recover(); p == http.ErrAbortHandler {
				w.CloseWithError(io.ErrUnexpectedEOF)
			} else if p != nil {
				panic(p)
			}
			w.Close()
			a.WriteHeader(http.StatusOK)
		}()
		rt.handler.ServeHTTP(a, in)
	}()
	select {
	case <-a.begun:
		return a.resp, nil
	case <-req.Context().Done():
		return nil, errors.Join(context.Cause(req.Context()), r.Close())
	}
}

// answer is the response that a handler writes.
type answer struct {
	resp  *http.Response
	body  *io.PipeWriter
	once  sync.Once
	begun chan struct{}
}

// Header implements http.ResponseWriter.
func (a *answer) Header() http.Header { return a.resp.Header }

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(code int) {
	a.once.Do(func() {
		a.resp.StatusCode = code
		close(a.begun)
	})
}

// Write implements http.ResponseWriter.
func (a *answer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(p)
}

// Flush implements http.Flusher.
func (a *answer) Flush() {}

type body struct {
	*io.PipeReader
	end context.CancelFunc
}

// Close implements io.Closer.
func (b *body) Close() error {
	b.end()
	return b.PipeReader.Close()
}
