package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"pgregory.net/rapid"

	"github.com/tarnproject/tarn/wire/internal/wiretest"
)

const (
	tooMany     = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"TooManyRequests","code":429,"message":"slow down"}`
	budget      = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"TooManyRequests","code":429,"message":"no","details":{"retryAfterSeconds":10,"causes":[{"reason":"DisruptionBudget","message":"The disruption budget web needs 1 healthy pods"}]}}`
	unavailable = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"ServiceUnavailable","code":503,"message":"shutting down"}`
)

var (
	reset      = &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
	connRefuse = &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
)

// failing fails n times in the same way and then returns 200.
func failing(n int, code int, body, after string, err error) (wiretest.RoundTrip, *int) {
	attempts := 0
	return func(r *http.Request) (*http.Response, error) {
		attempts++
		if r.Body != nil {
			if data, _ := io.ReadAll(r.Body); len(data) == 0 {
				return nil, errors.New("the body is not sent again")
			}
		}
		if attempts > n {
			return wiretest.Response(r, 200, "{}"), nil
		}
		if err != nil {
			return nil, err
		}
		if after == "" {
			return wiretest.Response(r, code, body), nil
		}
		return wiretest.Response(r, code, body, "Retry-After", after), nil
	}, &attempts
}

func TestWhichFailuresAreRetried(t *testing.T) {
	for _, c := range []struct {
		name        string
		verb        Verb
		code        int
		body, after string
		err         error
		again       bool
	}{
		{"429 with Retry-After, read", VerbGet, 429, tooMany, "2", nil, true},
		{"429 with Retry-After, create: it was not looked at", VerbCreate, 429, tooMany, "2", nil, true},
		{"429 without Retry-After", VerbGet, 429, tooMany, "", nil, false},
		{"429 by a disruption budget", VerbCreate, 429, budget, "10", nil, false},
		{"429 with the time in the Status", VerbGet, 429, strings.Replace(tooMany, `"code"`, `"details":{"retryAfterSeconds":3},"code"`, 1), "", nil, true},
		{"429 that asks for too long a time", VerbGet, 429, tooMany, "3600", nil, false},
		{"503 with Retry-After, read", VerbList, 503, unavailable, "1", nil, true},
		{"503 with Retry-After, update", VerbUpdate, 503, unavailable, "1", nil, true},
		{"503 with Retry-After, create", VerbCreate, 503, unavailable, "1", nil, false},
		{"503 with Retry-After, patch", VerbPatch, 503, unavailable, "1", nil, false},
		{"503 without Retry-After", VerbGet, 503, unavailable, "", nil, false},
		{"500 with Retry-After", VerbGet, 500, "", "1", nil, false},
		{"404", VerbGet, 404, "", "", nil, false},
		{"409", VerbUpdate, 409, "", "", nil, false},
		{"connection reset, read", VerbGet, 0, "", "", reset, true},
		{"connection reset, watch", VerbWatch, 0, "", "", reset, true},
		{"connection reset, update", VerbUpdate, 0, "", "", reset, true},
		{"connection reset, create", VerbCreate, 0, "", "", reset, false},
		{"connection reset, patch", VerbPatch, 0, "", "", reset, false},
		{"connection reset, delete", VerbDelete, 0, "", "", reset, false},
		{"connection closed, read", VerbGet, 0, "", "", io.EOF, true},
		{"HTTP/2 connection lost, read", VerbGet, 0, "", "", errors.New("http2: client connection lost"), true},
		{"GOAWAY, read", VerbGet, 0, "", "", errors.New("http2: server sent GOAWAY and closed the connection"), true},
		{"connection refused, read", VerbGet, 0, "", "", connRefuse, true},
		{"connection refused, create: it was not sent", VerbCreate, 0, "", "", connRefuse, true},
		{"no such host", VerbGet, 0, "", "", &net.DNSError{Err: "no such host", Name: "server", IsNotFound: true}, false},
		{"an unknown error", VerbGet, 0, "", "", errors.New("strange"), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, attempts := failing(1, c.code, c.body, c.after, c.err)
				r := inMemory(t, Options{}, f).Request(c.verb).AbsPath("/x")
				if c.verb.method() != "GET" {
					r.Body("application/json", []byte("{}"))
				}
				_, err := r.Do(t.Context())
				if c.again && (err != nil || *attempts != 2) {
					t.Errorf("after %d attempts: %v; want it sent again", *attempts, err)
				}
				if !c.again && (err == nil || *attempts != 1) {
					t.Errorf("after %d attempts: %v; want one attempt and the error", *attempts, err)
				}
			})
		})
	}
}

func TestRetryAfterIsHonoured(t *testing.T) {
	now := func() string { return time.Now().UTC().Add(5 * time.Second).Format(http.TimeFormat) }
	for name, header := range map[string]func() string{"seconds": func() string { return "5" }, "date": now} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, _ := failing(1, 429, tooMany, header(), nil)
				start := time.Now()
				if _, err := inMemory(t, Options{}, f).Request(VerbGet).AbsPath("/x").Do(t.Context()); err != nil {
					t.Fatal(err)
				}
				if d := time.Since(start); d < 5*time.Second || d > 6*time.Second {
					t.Errorf("waited %v", d)
				}
			})
		})
	}
}

func TestAttemptsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, attempts := failing(1000, 429, tooMany, "1", nil)
		_, err := inMemory(t, Options{}, f).Request(VerbGet).AbsPath("/x").Do(t.Context())
		var refused *Error
		if !errors.As(err, &refused) || refused.Attempts != 6 || *attempts != 6 || refused.RetryAfter != time.Second {
			t.Errorf("after %d attempts: %v", *attempts, err)
		}
		if !strings.Contains(err.Error(), "after 6 attempts") {
			t.Errorf("the error does not say how often: %v", err)
		}
		f, attempts = failing(1000, 0, "", "", connRefuse)
		_, err = inMemory(t, Options{Retry: Retry{Max: 2}}, f).Request(VerbCreate).AbsPath("/x").Do(t.Context())
		var failed *TransportError
		if !errors.As(err, &failed) || failed.Attempts != 3 || *attempts != 3 || !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("after %d attempts: %v", *attempts, err)
		}
		f, attempts = failing(1000, 0, "", "", connRefuse)
		if _, err = inMemory(t, Options{}, f).Request(VerbGet).AbsPath("/x").Retries(0).Do(t.Context()); err == nil || *attempts != 1 {
			t.Errorf("with Retries(0) after %d attempts: %v", *attempts, err)
		}
	})
}

func TestNoRetryAfterTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, attempts := failing(1000, 429, tooMany, "20", nil)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		start := time.Now()
		_, err := inMemory(t, Options{}, f).Request(VerbGet).AbsPath("/x").Do(ctx)
		if !apierrors.IsTooManyRequests(err) || *attempts != 1 || time.Since(start) != 0 {
			t.Errorf("after %v and %d attempts: %v", time.Since(start), *attempts, err)
		}
	})
}

func TestCancellingADelayReturnsTheLastError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _ := failing(1000, 429, tooMany, "20", nil)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		start := time.Now()
		_, err := inMemory(t, Options{}, f).Request(VerbGet).AbsPath("/x").Do(ctx)
		if !errors.Is(err, context.Canceled) || !apierrors.IsTooManyRequests(err) || !strings.Contains(err.Error(), "slow down") {
			t.Errorf("the error is %v", err)
		}
		if time.Since(start) != time.Second {
			t.Errorf("it took %v", time.Since(start))
		}
	})
}

func TestAttemptTimeoutsOfReadsAreRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		attempts := 0
		c := inMemory(t, Options{Timeout: time.Second}, func(r *http.Request) (*http.Response, error) {
			if attempts++; attempts == 1 {
				<-r.Context().Done()
				return nil, r.Context().Err()
			}
			return wiretest.Response(r, 200, "ok"), nil
		})
		if _, err := c.Request(VerbGet).AbsPath("/x").Do(t.Context()); err != nil || attempts != 2 {
			t.Errorf("a read after %d attempts: %v", attempts, err)
		}
		attempts = 0
		if _, err := c.Request(VerbCreate).AbsPath("/x").Do(t.Context()); err == nil || attempts != 1 {
			t.Errorf("a create after %d attempts: %v", attempts, err)
		}
	})
}

func TestALostAttemptIsNotRetriedBecauseOfAnEarlier429(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		attempts := 0
		c := inMemory(t, Options{}, func(r *http.Request) (*http.Response, error) {
			if attempts++; attempts == 1 {
				return wiretest.Response(r, 429, tooMany, "Retry-After", "1"), nil
			}
			return nil, reset // the server may have processed it
		})
		_, err := c.Request(VerbCreate).AbsPath("/x").Do(t.Context())
		var failed *TransportError
		if !errors.As(err, &failed) || failed.Attempts != 2 || attempts != 2 || !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("after %d attempts: %v", attempts, err)
		}
		if !apierrors.IsTooManyRequests(failed.Previous) || !strings.Contains(err.Error(), "before that: slow down") {
			t.Errorf("the previous attempt is missing: %v", err)
		}
	})
}

func TestAnIdempotentRequestIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, attempts := failing(1, 0, "", "", reset)
		if _, err := inMemory(t, Options{}, f).Request(VerbCreate).AbsPath("/x").Idempotent().Do(t.Context()); err != nil || *attempts != 2 {
			t.Errorf("after %d attempts: %v", *attempts, err)
		}
	})
}

// A real server closes a real connection, before the response and in the middle of it.
func TestAConnectionClosedByTheServerIsReplaced(t *testing.T) {
	for name, begin := range map[string]string{"before the answer": "", "in the answer": "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"} {
		t.Run(name, func(t *testing.T) {
			var attempts atomic.Int32
			c := serve(t, Options{Retry: Retry{Base: time.Millisecond}}, func(w http.ResponseWriter, r *http.Request) {
				if attempts.Add(1) > 1 {
					data, _ := io.ReadAll(r.Body)
					w.Write(data)
					return
				}
				conn, _, err := http.NewResponseController(w).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				io.WriteString(conn, begin)
				conn.Close()
			})
			res, err := c.Request(VerbUpdate).AbsPath("/x").Body("text/plain", []byte("again")).Do(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if string(res.Raw()) != "again" || attempts.Load() != 2 {
				t.Errorf("after %d attempts the answer is %q", attempts.Load(), res.Raw())
			}
		})
	}
}

func TestARefusedConnectionIsRetried(t *testing.T) {
	// A free port could be taken by another test in the meantime; this one is never assigned.
	nowhere := &url.URL{Scheme: "http", Host: "127.0.0.1:1"}
	c := wiretest.Must(NewWithTransport(nowhere, nil, Options{Retry: Retry{Max: 2, Base: time.Millisecond}}))(t)
	_, err := c.Request(VerbCreate).AbsPath("/x").Do(t.Context())
	var failed *TransportError
	if !errors.As(err, &failed) || failed.Attempts != 3 || !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("the error is %v", err)
	}
}

func TestRetriesAreLoggedAtDebugLevel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		f, _ := failing(1, 0, "", "", fmt.Errorf("proxy https://jane:hunter2@proxy said: %w", reset))
		opts := Options{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
		if _, err := inMemory(t, opts, f).Request(VerbGet).AbsPath("/x").Param("token", "hunter2").Do(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(log.String(), "retrying") || !strings.Contains(log.String(), "GET /x") && !strings.Contains(log.String(), "get /x") {
			t.Errorf("the log is %q", log.String())
		}
		if strings.Contains(log.String(), "hunter2") {
			t.Errorf("the log shows the password: %q", log.String())
		}
	})
}

func TestDelaysGrowWithinTheirBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := Retry{
			Base: time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "base")),
			Cap:  time.Duration(rapid.Int64Range(1, int64(24*time.Hour)).Draw(t, "cap")),
		}
		n := rapid.IntRange(1, 1000).Draw(t, "n")
		full := float64(r.Base)
		for range n - 1 {
			full = min(2*full, float64(r.Cap))
		}
		full = min(full, float64(r.Cap))
		if d := float64(r.exponential(n)); d < full/2-1 || d > full+1 {
			t.Fatalf("attempt %d of %+v waits %v, want between %v and %v", n, r, time.Duration(d), time.Duration(full/2), time.Duration(full))
		}
	})
}
