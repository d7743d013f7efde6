package wire

import (
	"context"
	"io"
)

type attemptCheckKey struct{}

// WithAttemptCheck returns a context whose requests ask check before every attempt, the
// first one and each retry, after all waiting (back-off, Retry-After, rate limiter) is
// over. An attempt that has a body asks once more when its connection is there and the
// body is about to be written, since connecting and credential plugins take time too;
// this also covers the attempts that net/http repeats by itself.
//
// When check returns an error, the attempt is not sent and there is no other: the call
// returns a [*TransportError] in which errors.Is and errors.As find that error. A check
// that ctx has already is asked first.
//
// check may be called from any goroutine, by several requests at a time, and must not
// block.
func WithAttemptCheck(ctx context.Context, check func() error) context.Context {
	if outer := attemptCheck(ctx); outer != nil {
		inner := check
		check = func() error {
			if err := outer(); err != nil {
				return err
			}
			return inner()
		}
	}
	return context.WithValue(ctx, attemptCheckKey{}, check)
}

// attemptCheck returns the check of a context, nil when it has none.
func attemptCheck(ctx context.Context) func() error {
	check, _ := ctx.Value(attemptCheckKey{}).(func() error)
	return check
}

// forbidden is the error of an attempt that the context's check did not allow. It is
// final, whatever the check's own error looks like.
type forbidden struct{ err error }

func (e *forbidden) Error() string { return e.err.Error() }
func (e *forbidden) Unwrap() error { return e.err }

// checkedBody is the body of one attempt. The transport's goroutine is the only one that
// reads it.
type checkedBody struct {
	io.Reader
	check  func() error
	cancel context.CancelCauseFunc // of the attempt
	asked  bool
}

// Read asks the check before the first bytes. A server does not carry out a request whose
// body breaks off.
func (b *checkedBody) Read(p []byte) (int, error) {
	if !b.asked {
		if err := b.check(); err != nil {
			err = &forbidden{err}
			b.cancel(err)
			return 0, err
		}
		b.asked = true
	}
	return b.Reader.Read(p)
}

func (b *checkedBody) Close() error { return nil }
