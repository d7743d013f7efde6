package wire

import (
	"context"
	"errors"
	"net/http"
	"sync"
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

func TestABackoffIsSharedByClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &Backoff{Base: 8 * time.Second, Cap: time.Minute}
		code := 503
		f := func(r *http.Request) (*http.Response, error) { return wiretest.Response(r, code, ""), nil }
		one, two := inMemory(t, Options{Backoff: b}, f), inMemory(t, Options{Backoff: b}, f)
		if _, err := one.Request(VerbGet).AbsPath("/x").Do(t.Context()); err == nil {
			t.Fatal("no error")
		}
		code = 200
		start := time.Now()
		if _, err := two.Request(VerbGet).AbsPath("/x").Do(t.Context()); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(start); d < 4*time.Second || d > 8*time.Second {
			t.Errorf("the other client waited %v", d)
		}
		start = time.Now()
		if _, err := one.Request(VerbGet).AbsPath("/x").Do(t.Context()); err != nil || time.Since(start) != 0 {
			t.Errorf("after a good answer there is a wait of %v, %v", time.Since(start), err)
		}
		if d := b.left("elsewhere"); d != 0 {
			t.Errorf("another host waits %v", d)
		}
	})
}

func TestABackoffGrowsToItsCapAndEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Backoff
		for i := range 12 {
			b.observe("server", true)
			b.observe("server", true) // does not double the delay again
			full := min(time.Second<<i, time.Minute)
			if d := b.left("server"); d < full/2 || d > full {
				t.Errorf("failure %d: a delay of %v, want up to %v", i+1, d, full)
			}
			if err := sleep(t.Context(), b.left("server")); err != nil {
				t.Fatal(err)
			}
		}
		b.observe("server", true)
		c := inMemory(t, Options{Backoff: &b}, func(r *http.Request) (*http.Response, error) {
			t.Error("sent")
			return wiretest.Response(r, 200, ""), nil
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.Request(VerbGet).AbsPath("/x").Do(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the error is %v", err)
		}
	})
}

func TestABackoffIsSafeForConcurrentUse(t *testing.T) {
	var b Backoff
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 100 {
				b.observe("server", (i+j)%3 == 0)
				b.left("server")
			}
		})
	}
	wg.Wait()
}
