package wire

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/internal/attempt"
)

// send makes attempts until one succeeds or must not be retried. consume reads a successful
// response; its error is that of the attempt.
func (r *Request) send(ctx context.Context, stream bool, consume func(*http.Response) error) error {
	call := r.Call()
	u, err := r.URL()
	if err != nil {
		return &TransportError{Call: call, Err: err}
	}
	var previous error
	for n := 1; ; n++ {
		err := r.attempt(ctx, n, u, stream, consume)
		if err == nil {
			return nil
		}
		// Only this attempt's error counts: an earlier one says nothing about whether
		// the server processed this one.
		delay, again := r.retry.after(ctx, n, r.idempotent, err)
		if !again {
			if failed, ok := err.(*TransportError); ok {
				failed.Previous = previous
			}
			return err
		}
		r.client.opts.Logger.DebugContext(ctx, "request failed, retrying", "call", call.String(), "attempt", n, "delay", delay, "cause", err)
		if ended := sleep(ctx, delay); ended != nil {
			return &TransportError{Call: call, Err: ended, Previous: bare(err), Attempts: n}
		}
		previous = bare(err)
	}
}

// bare returns the cause of a failed attempt without the call, which the enclosing error
// names.
func bare(err error) error {
	if failed, ok := err.(*TransportError); ok {
		return failed.Err
	}
	return err
}

// attempt sends the request once.
func (r *Request) attempt(ctx context.Context, n int, u *url.URL, stream bool, consume func(*http.Response) error) (err error) {
	c, call := r.client, r.Call()
	failed := func(err error) error {
		sent := n
		if _, ok := err.(*checkError); ok {
			sent--
		} else if ended := ctx.Err(); ended != nil {
			err = ended
		}
		return &TransportError{Call: call, Err: c.secrets.hide(err), Attempts: sent}
	}
	if c.opts.Limiter != nil {
		if err := c.opts.Limiter.Wait(ctx); err != nil {
			return failed(fmt.Errorf("client-side rate limiter: %w", err))
		}
	}
	check := attempt.Check(ctx)
	if check != nil {
		if err := check(); err != nil {
			return failed(&checkError{err})
		}
	}

	ctx, observed := observe(ctx, c.opts.Observers, AttemptStart{Call: call, Method: r.verb.method(), Host: u.Host, Attempt: n}, c.opts.Logger)
	if observed != nil {
		defer func() {
			if !observed.later {
				observed.end(err)
			}
		}()
	}
	attemptCtx, cancel := context.WithCancelCause(ctx)
	var stop func() bool
	if r.timeout > 0 {
		stop = time.AfterFunc(r.timeout, func() { cancel(errAttemptTimeout) }).Stop
	}
	req := r.httpRequest(attemptCtx, u)
	if check != nil && r.body != nil {
		req.GetBody = func() (io.ReadCloser, error) {
			return &checkedBody{Reader: bytes.NewReader(r.body), check: check, cancel: cancel}, nil
		}
		req.Body, _ = req.GetBody()
	}
	resp, err := c.http.Do(req)
	_, checked := context.Cause(attemptCtx).(*checkError)
	if err == nil && checked { // the server responded before it read the body
		resp.Body.Close()
		err = context.Cause(attemptCtx)
	}
	if err != nil {
		if cause := context.Cause(attemptCtx); cause != nil {
			err = cause
		}
		if stop != nil {
			stop()
		}
		cancel(nil)
		return failed(err)
	}
	if observed != nil {
		observed.code = resp.StatusCode
	}
	c.secrets.observe(resp.Request)
	c.warnings.receive(resp.Header.Values("Warning"))

	b := &body{raw: resp.Body, ctx: attemptCtx, cancel: cancel, stop: stop, secrets: c.secrets}
	if strings.EqualFold(resp.Header.Get("Content-Encoding"), "gzip") && !resp.Uncompressed {
		b.gzips = c.gzips
		resp.Header.Del("Content-Encoding")
		resp.Header.Del("Content-Length")
		resp.ContentLength, resp.Uncompressed = -1, true
	}
	resp.Body = b
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		defer b.Close()
		defer time.AfterFunc(errorBodyTimeout, func() { cancel(errAttemptTimeout) }).Stop()
		// A truncated Status still has information, so the error is ignored.
		data, _ := io.ReadAll(io.LimitReader(b, maxErrorBody))
		if ctx.Err() != nil {
			return failed(ctx.Err())
		}
		return c.errorResponse(call, n, resp, data)
	}
	if stream && stop != nil {
		if !stop() {
			b.Close()
			return failed(errAttemptTimeout)
		}
	}
	if err := consume(resp); err != nil {
		b.Close()
		return failed(err)
	}
	if observed != nil && stream && r.verb == VerbList {
		observed.later, b.observed = true, observed
	}
	return nil
}

func (r *Request) httpRequest(ctx context.Context, u *url.URL) *http.Request {
	h := r.header.Clone()
	if h.Get("Accept") == "" {
		h.Set("Accept", "application/json")
	}
	h.Set("User-Agent", r.client.opts.UserAgent)
	if r.client.opts.DisableCompression {
		// Set explicitly, because net/http would otherwise request gzip.
		h.Set("Accept-Encoding", "identity")
	} else {
		h.Set("Accept-Encoding", "gzip")
	}
	req := (&http.Request{
		Method: r.verb.method(), URL: u, Host: u.Host, Header: h,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}).WithContext(ctx)
	if r.body != nil {
		req.ContentLength = int64(len(r.body))
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(r.body)), nil }
		req.Body, _ = req.GetBody()
	}
	return req
}

// decodeStatus decodes a body in any encoding if it is a Status.
func decodeStatus(data []byte) (*metav1.Status, bool) {
	status := &metav1.Status{}
	err := decodeObject(data, status, metav1.Unversioned.WithKind("Status"))
	return status, err == nil
}
