package wire

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// Retry bounds how often one request is sent again, and after which time. The zero
// Retry works. Which failures are worth it is not a setting; see the package
// comment.
type Retry struct {
	// Max is how often a request is sent again. Negative means never. Defaults to 5.
	Max int
	// Base is the delay before the second attempt after a failed connection; it
	// doubles with each attempt, with jitter. Defaults to 100 ms.
	Base time.Duration
	// Cap is the longest delay, whether ours or the server's Retry-After. A server
	// that asks for more gets no further attempt: the error tells the caller how
	// long to wait. Defaults to 30 s.
	Cap time.Duration
}

func (r Retry) withDefaults() Retry {
	if r.Max == 0 {
		r.Max = 5
	}
	if r.Base == 0 {
		r.Base = 100 * time.Millisecond
	}
	if r.Cap == 0 {
		r.Cap = 30 * time.Second
	}
	return r
}

func (r Retry) valid() error {
	switch {
	case r.Base < 0:
		return errors.New("wire: Retry.Base is negative; leave it 0 for the default")
	case r.Cap < 0:
		return errors.New("wire: Retry.Cap is negative; leave it 0 for the default")
	case r.Base > 0 && r.Cap > 0 && r.Base > r.Cap:
		return errors.New("wire: Retry.Base is longer than Retry.Cap")
	}
	return nil
}

// after decides whether a request is sent again once its nth attempt (from 1) has
// failed with err, and after which delay.
func (r Retry) after(ctx context.Context, n int, idempotent bool, err error) (time.Duration, bool) {
	if n > r.Max || ctx.Err() != nil {
		return 0, false
	}
	var delay time.Duration
	switch outcome := outcomeOf(err); {
	case outcome == refused && asked(err) > 0, outcome == doubtful && asked(err) > 0 && idempotent:
		// Not before the server's time, and not all at the same moment after it.
		delay = asked(err)
		delay += rand.N(delay/5 + 1)
		if asked(err) > r.Cap {
			return 0, false
		}
	case outcome == unsent, outcome == lost && idempotent:
		delay = r.exponential(n)
	default:
		return 0, false
	}
	// Whoever set a deadline gains nothing from waiting for it: the reason is known.
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= delay {
		return 0, false
	}
	return delay, true
}

// exponential returns Base·2ⁿ⁻¹, at most Cap, of which a random half is taken off.
func (r Retry) exponential(n int) time.Duration {
	delay := r.Cap
	if r.Base <= r.Cap>>(n-1) {
		delay = r.Base << (n - 1)
	}
	return delay/2 + rand.N(delay/2+1)
}

// outcome is what a failed attempt says about whether the request was carried out.
type outcome uint8

const (
	final    outcome = iota // an answer, or a failure that another attempt meets too
	refused                 // 429: turned away before it was looked at
	doubtful                // 503: probably turned away, but a proxy may not know
	unsent                  // there was no connection to send it on
	lost                    // the connection broke, or the attempt took too long
)

func outcomeOf(err error) outcome {
	if no := (*forbidden)(nil); errors.As(err, &no) {
		return final
	}
	var status *Error
	if errors.As(err, &status) {
		switch {
		case status.Code == http.StatusTooManyRequests && !disruptionBudget(status):
			return refused
		case status.Code == http.StatusServiceUnavailable:
			return doubtful
		}
		return final
	}
	switch {
	case utilnet.IsConnectionRefused(err):
		return unsent
	case errors.Is(err, errAttemptTimeout), utilnet.IsConnectionReset(err), utilnet.IsProbableEOF(err),
		utilnet.IsHTTP2ConnectionLost(err), connectionClosed(err):
		return lost
	}
	return final
}

// disruptionBudget tells a 429 by which an eviction is refused: the pod's budget
// does not allow it now. The caller has to know, not wait here.
func disruptionBudget(e *Error) bool {
	if e.status.ErrStatus.Details == nil {
		return false
	}
	for _, cause := range e.status.ErrStatus.Details.Causes {
		if cause.Type == "DisruptionBudget" {
			return true
		}
	}
	return false
}

// asked returns the server's Retry-After.
func asked(err error) time.Duration {
	var status *Error
	if errors.As(err, &status) {
		return status.RetryAfter
	}
	return 0
}

// retryAfter reads the header, in either of its forms, or else the Status.
func retryAfter(h http.Header, status *metav1.Status) time.Duration {
	if v := h.Get("Retry-After"); v != "" {
		if s, err := strconv.ParseInt(v, 10, 32); err == nil {
			return time.Duration(max(s, 0)) * time.Second
		}
		if at, err := http.ParseTime(v); err == nil {
			return max(0, time.Until(at))
		}
	}
	if status != nil && status.Details != nil && status.Details.RetryAfterSeconds > 0 {
		return time.Duration(status.Details.RetryAfterSeconds) * time.Second
	}
	return 0
}
