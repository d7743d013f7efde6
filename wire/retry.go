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

// Retry limits the retries of one request and their delay. The zero Retry works. Which failures
// are retried is not configurable; see the package comment.
type Retry struct {
	// Max is the number of retries. Negative means none. Defaults to 5.
	Max int
	// Base is the delay before the first retry after a failed connection. It doubles with
	// each attempt, with jitter. Defaults to 100 ms.
	Base time.Duration
	// Cap is the maximum delay. If the server's Retry-After is longer, the request is not
	// retried, and the error has the Retry-After. Defaults to 30 s.
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

// after decides whether to retry a request whose nth attempt (from 1) failed with err, and
// after which delay.
func (r Retry) after(ctx context.Context, n int, idempotent bool, err error) (time.Duration, bool) {
	if n > r.Max || ctx.Err() != nil {
		return 0, false
	}
	var delay time.Duration
	switch outcome := outcomeOf(err); {
	case outcome == throttled && asked(err) > 0, outcome == doubtful && asked(err) > 0 && idempotent:
		// Jitter spreads the clients that the server asked to wait.
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
	// No retry after the context's deadline: returning the cause now is more useful.
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= delay {
		return 0, false
	}
	return delay, true
}

// exponential returns Base·2ⁿ⁻¹, at most Cap, reduced by up to half at random.
func (r Retry) exponential(n int) time.Duration {
	delay := r.Cap
	if r.Base <= r.Cap>>(n-1) {
		delay = r.Base << (n - 1)
	}
	return delay/2 + rand.N(delay/2+1)
}

// outcome says whether the server may have processed a failed attempt.
type outcome uint8

const (
	final     outcome = iota // a response, or a failure that a retry would repeat
	throttled                // 429: not processed
	doubtful                 // 503: probably not processed, but a proxy may not know
	unsent                   // connection refused: not sent
	lost                     // the connection was lost or timed out: perhaps processed
)

func outcomeOf(err error) outcome {
	if prevented := (*checkError)(nil); errors.As(err, &prevented) {
		return final
	}
	var status *Error
	if errors.As(err, &status) {
		switch {
		case status.Code == http.StatusTooManyRequests && !disruptionBudget(status):
			return throttled
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

// disruptionBudget reports whether a 429 rejects an eviction because of a PodDisruptionBudget.
// The caller handles that; it is not retried.
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

// retryAfter returns the delay of the Retry-After header, in either format, or of the Status.
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
