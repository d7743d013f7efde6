package wire

import (
	"context"
	"io"

	"github.com/tarnproject/tarn/internal/attempt"
)

// CheckAttempts returns a context whose requests, through any client, call check before every
// attempt, the first one and each retry, after all delays (back-off, Retry-After, rate limiter). An
// attempt with a body calls it again when the connection is established and the body is about to be
// written, because connecting and credential plugins take time too. This includes attempts that
// net/http retries by itself.
//
// If check returns an error, the attempt is not sent and not retried: the call returns a
// [*TransportError] that wraps the error. If ctx already has a check, that one is called first.
//
// check must be safe for concurrent use and must not block.
func CheckAttempts(ctx context.Context, check func() error) context.Context {
	return attempt.WithCheck(ctx, check)
}

// checkError is the error of an attempt that the context's check prevented. It is never
// retried, whatever the check's own error is.
type checkError struct{ err error }

func (e *checkError) Error() string { return e.err.Error() }
func (e *checkError) Unwrap() error { return e.err }

// checkedBody is the request body of one attempt. Only the transport's goroutine reads it.
type checkedBody struct {
	io.Reader
	check  func() error
	cancel context.CancelCauseFunc // of the attempt
	asked  bool
}

// Read calls the check before the first bytes. A server does not process a request whose body
// is truncated.
func (b *checkedBody) Read(p []byte) (int, error) {
	if !b.asked {
		if err := b.check(); err != nil {
			err = &checkError{err}
			b.cancel(err)
			return 0, err
		}
		b.asked = true
	}
	return b.Reader.Read(p)
}

func (b *checkedBody) Close() error { return nil }
