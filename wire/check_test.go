package wire

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire/internal/wiretest"
)

var errLeaseEnded = errors.New("the lease has expired")

// The check runs before every kind of retry: after 429 and 503, a refused and a lost connection.
func TestR06_NoRetryAfterTheLeaseHasExpired(t *testing.T) {
	for name, c := range map[string]struct {
		code        int
		body, after string
		err         error
	}{
		"429 with Retry-After": {429, tooMany, "20", nil},
		"503 with Retry-After": {503, unavailable, "20", nil},
		"connection refused":   {0, "", "", connRefuse},
		"connection reset":     {0, "", "", reset},
		"connection closed":    {0, "", "", io.EOF},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, attempts := failing(1, c.code, c.body, c.after, c.err)
				ended := time.Now().Add(40 * time.Millisecond)
				ctx := CheckAttempts(t.Context(), func() error {
					if time.Now().Before(ended) {
						return nil
					}
					return errLeaseEnded
				})
				_, err := inMemory(t, Options{}, f).Request(VerbUpdate).AbsPath("/x").Body(typeJSON, []byte("{}")).Do(ctx)
				if *attempts != 1 || !errors.Is(err, errLeaseEnded) {
					t.Fatalf("after %d attempts: %v; want one attempt and the check's error", *attempts, err)
				}
				var failed *TransportError
				if !errors.As(err, &failed) || failed.Attempts != 1 || failed.Previous == nil {
					t.Errorf("%+v does not say how often the request was sent and how it failed before", err)
				}
			})
		})
	}
}

func TestR06_TheCheckRunsAfterTheLastDelayAndItsErrorIsFinal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []time.Duration
		start := time.Now()
		f, attempts := failing(1, 429, tooMany, "5", nil)
		limiter := NewLimiter(0.1, 1) // the second attempt waits for it too
		ctx := CheckAttempts(t.Context(), func() error {
			asked = append(asked, time.Since(start))
			return nil
		})
		c := inMemory(t, Options{Limiter: limiter}, f)
		if _, err := c.Request(VerbCreate).AbsPath("/x").Do(ctx); err != nil || *attempts != 2 {
			t.Fatalf("after %d attempts: %v", *attempts, err)
		}
		if len(asked) != 2 || asked[0] != 0 || asked[1] < 9*time.Second || asked[1] != time.Since(start) {
			t.Errorf("asked at %v, the last attempt was sent at %v", asked, time.Since(start))
		}

		// The check's error is not retried, even if it is of a kind that is.
		f, attempts = failing(0, 0, "", "", nil)
		_, err := inMemory(t, Options{}, f).Request(VerbGet).AbsPath("/x").Do(CheckAttempts(t.Context(), func() error { return connRefuse }))
		if *attempts != 0 || !errors.Is(err, connRefuse) {
			t.Errorf("after %d attempts: %v", *attempts, err)
		}
	})
}

func TestR06_NestedChecksAllRun(t *testing.T) {
	var asked []string
	ask := func(name string, err error) func() error {
		return func() error { asked = append(asked, name); return err }
	}
	f, attempts := failing(0, 0, "", "", nil)
	ctx := CheckAttempts(CheckAttempts(t.Context(), ask("outer", errLeaseEnded)), ask("inner", nil))
	_, err := inMemory(t, Options{}, f).Request(VerbGet).AbsPath("/x").Do(ctx)
	if !errors.Is(err, errLeaseEnded) || *attempts != 0 || strings.Join(asked, " ") != "outer" {
		t.Errorf("%v after %d attempts, asked %v", err, *attempts, asked)
	}
}

// Every verb uses the context that it was given.
func TestR06_EveryVerbRunsTheCheck(t *testing.T) {
	f, attempts := failing(0, 0, "", "", nil)
	c := inMemory(t, Options{}, f)
	maps := For(c, wiretest.Must(Of[*corev1.ConfigMap]())(t))
	key := object.Key{Namespace: "shop", Name: "web"}
	obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	ctx := CheckAttempts(t.Context(), func() error { return errLeaseEnded })
	for name, call := range map[string]func(context.Context) error{
		"get":    func(ctx context.Context) error { _, err := maps.Get(ctx, key, GetOptions{}); return err },
		"create": func(ctx context.Context) error { _, err := maps.Create(ctx, obj, WriteOptions{}); return err },
		"update": func(ctx context.Context) error { _, err := maps.Update(ctx, obj, WriteOptions{}); return err },
		"delete": func(ctx context.Context) error { return maps.Delete(ctx, key, DeleteOptions{}) },
	} {
		if err := call(ctx); !errors.Is(err, errLeaseEnded) || *attempts != 0 {
			t.Errorf("%s: %v after %d attempts", name, err, *attempts)
		}
	}
}

// The connection is established after the first check, and here only after the lease has
// expired.
func TestR06_NoWriteOnAConnectionThatOutlastsTheLease(t *testing.T) {
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			var carriedOut atomic.Int32
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if _, err := io.ReadAll(r.Body); err != nil {
					return
				}
				carriedOut.Add(1)
				io.WriteString(w, "{}")
			}))
			s.EnableHTTP2 = http2
			s.StartTLS()
			t.Cleanup(s.Close)
			var ended atomic.Bool
			rt := s.Client().Transport.(*http.Transport).Clone()
			rt.ForceAttemptHTTP2 = http2
			dial := rt.DialContext
			rt.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
				ended.Store(true)
				return dial(ctx, network, addr)
			}
			c := wiretest.Must(NewWithTransport(wiretest.Must(url.Parse(s.URL))(t), rt, Options{}))(t)
			t.Cleanup(c.CloseIdleConnections)
			ctx := CheckAttempts(t.Context(), func() error {
				if ended.Load() {
					return errLeaseEnded
				}
				return nil
			})
			_, err := c.Request(VerbCreate).AbsPath("/x").Body(typeJSON, []byte("{}")).Do(ctx)
			if !errors.Is(err, errLeaseEnded) || carriedOut.Load() != 0 {
				t.Errorf("carried out %d times: %v", carriedOut.Load(), err)
			}
			ended.Store(false)
			if _, err := c.Request(VerbCreate).AbsPath("/x").Body(typeJSON, []byte("{}")).Do(t.Context()); err != nil || carriedOut.Load() != 1 {
				t.Errorf("without a check: %v", err)
			}
		})
	}
}
