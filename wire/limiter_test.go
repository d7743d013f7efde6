package wire

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarnproject/tarn/wire/internal/wiretest"
)

func TestALimiterIsSharedByClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := NewLimiter(10, 2)
		sent := 0
		ok := func(r *http.Request) (*http.Response, error) { sent++; return wiretest.Response(r, 200, ""), nil }
		a, b := inMemory(t, Options{Limiter: limiter}, ok), inMemory(t, Options{Limiter: limiter}, ok)
		start := time.Now()
		for range 6 {
			for _, c := range []*Client{a, b} {
				if _, err := c.Request(VerbGet).AbsPath("/x").Do(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
		// Two at once, then ten more at ten per second.
		if d := time.Since(start); d != time.Second || sent != 12 {
			t.Errorf("%d requests took %v", sent, d)
		}
	})
}

func TestALimiterEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent := 0
		c := inMemory(t, Options{Limiter: NewLimiter(0.1, 1)}, func(r *http.Request) (*http.Response, error) {
			sent++
			return wiretest.Response(r, 200, ""), nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		if _, err := c.Request(VerbGet).AbsPath("/x").Do(ctx); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Second, cancel)
		if _, err := c.Request(VerbGet).AbsPath("/x").Do(ctx); !errors.Is(err, context.Canceled) || sent != 1 {
			t.Errorf("after %d requests: %v", sent, err)
		}
		// A deadline that the limiter cannot meet is an error at once.
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		if _, err := c.Request(VerbGet).AbsPath("/x").Do(ctx); err == nil || sent != 1 || time.Since(start) != 0 {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
	})
}
