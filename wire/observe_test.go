package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tarnproject/tarn/wire/internal/wiretest"
)

// attempts records what an observer sees.
type attempts struct {
	mu    sync.Mutex // guards lines
	lines []string
}

type attemptsKey struct{}

func (a *attempts) add(format string, args ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lines = append(a.lines, fmt.Sprintf(format, args...))
}

func (a *attempts) observe(name string) Observer {
	return func(ctx context.Context, s AttemptStart) (context.Context, func(AttemptEnd)) {
		a.add("%s: %s %s %s %d", name, s.Method, s.Call, s.Host, s.Attempt)
		return context.WithValue(ctx, attemptsKey{}, name), func(e AttemptEnd) {
			a.add("%s: %d %v %v", name, e.Code, e.Duration, e.Err != nil)
		}
	}
}

func (a *attempts) want(t *testing.T, want ...string) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	if diff := cmp.Diff(want, a.lines); diff != "" {
		t.Error(diff)
	}
	a.lines = nil
}

func TestAnObserverSeesEachAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen attempts
		n := 0
		var in any
		c := inMemory(t, Options{Observers: []Observer{seen.observe("a"), seen.observe("b")}}, func(r *http.Request) (*http.Response, error) {
			in = r.Context().Value(attemptsKey{})
			<-time.After(time.Second)
			switch n++; n {
			case 1:
				return wiretest.Response(r, 429, tooMany, "Retry-After", "1"), nil
			case 2:
				return nil, connRefuse
			}
			return wiretest.Response(r, 200, "{}"), nil
		})
		if _, err := c.Request(VerbGet).AbsPath("/version").Do(t.Context()); err != nil {
			t.Fatal(err)
		}
		seen.want(t,
			"a: GET get /version server 1", "b: GET get /version server 1", "b: 429 1s true", "a: 429 1s true",
			"a: GET get /version server 2", "b: GET get /version server 2", "b: 0 1s true", "a: 0 1s true",
			"a: GET get /version server 3", "b: GET get /version server 3", "b: 200 1s false", "a: 200 1s false")
		if in != "b" {
			t.Errorf("the transport saw the context of %v", in)
		}
	})
}

func TestAnObserverIsNotCalledForWhatIsNotSent(t *testing.T) {
	var seen attempts
	c := inMemory(t, Options{Observers: []Observer{seen.observe("a")}}, func(r *http.Request) (*http.Response, error) {
		return wiretest.Response(r, 200, "{}"), nil
	})
	stopped := errors.New("stopped")
	ctx := CheckAttempts(t.Context(), func() error { return stopped })
	if _, err := c.Request(VerbGet).AbsPath("/version").Do(ctx); !errors.Is(err, stopped) {
		t.Fatal(err)
	}
	seen.want(t)
}

func TestAListEndsWithItsBodyAndAWatchWithItsHeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen attempts
		broken := false
		quiet := func(ctx context.Context, _ AttemptStart) (context.Context, func(AttemptEnd)) { return ctx, nil }
		c := inMemory(t, Options{Observers: []Observer{seen.observe("a"), quiet}}, func(r *http.Request) (*http.Response, error) {
			resp := wiretest.Response(r, 200, "")
			resp.Body = io.NopCloser(strings.NewReader("{}"))
			if broken {
				resp.Body = io.NopCloser(io.MultiReader(strings.NewReader("{"), failingReader{}))
			}
			return resp, nil
		})
		read := func(verb Verb) {
			t.Helper()
			resp, err := c.Request(verb).Resource(podResource).Stream(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			<-time.After(time.Second)
			_, _ = io.ReadAll(resp.Body)
			resp.Body.Close()
			resp.Body.Close()
		}
		read(VerbList)
		seen.want(t, "a: GET list pods server 1", "a: 200 1s false")
		read(VerbWatch)
		seen.want(t, "a: GET watch pods server 1", "a: 200 0s false")
		broken = true
		read(VerbList)
		seen.want(t, "a: GET list pods server 1", "a: 200 1s true")
	})
}

type failingReader struct{}

func (failingReader) Read([]byte) (int, error) { return 0, reset }
