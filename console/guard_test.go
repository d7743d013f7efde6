package console_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarnproject/tarn/console"
)

// serve runs a server with the console and profiles until the test ends, and returns its port and what
// it logs. Read that when no request is running.
func serve(t *testing.T, address string, guard console.Guard) (port string, log *bytes.Buffer) {
	t.Helper()
	return serveHandler(t, address, console.Mux(console.Options{Console: quiet{}, Profiling: true, Guard: guard, AdminToken: "admin"}))
}

func serveHandler(t *testing.T, address string, h http.Handler) (port string, log *bytes.Buffer) {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Skip(err) // such as IPv6, which not every machine has
	}
	log = &bytes.Buffer{}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- (&console.Server{Listener: l, Handler: h, Logger: slog.New(slog.NewTextHandler(log, nil))}).Run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	_, port, _ = net.SplitHostPort(l.Addr().String())
	return port, log
}

// ask requests a path from this machine, as a proxy on it does for others.
func ask(t *testing.T, port, path string, edit ...func(*http.Request)) *http.Response {
	t.Helper()
	r, err := http.NewRequest(http.MethodGet, "http://127.0.0.1:"+port+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = "localhost"
	for _, e := range edit {
		e(r)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Error(err)
	}
	resp.Body.Close()
	return resp
}

func set(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

var guarded = []string{"/debug/tarn/status", "/debug/tarn/explain?key=a", "/debug/pprof/", "/debug/pprof/heap"}

// A proxy beside the program makes requests of other machines look like those of this one.
func TestAServerBeyondLoopbackRequiresATokenThatItLogsOnce(t *testing.T) {
	port, log := serve(t, "0.0.0.0:0", console.Guard{})
	if got := ask(t, port, "/healthz").StatusCode; got != 200 {
		t.Errorf("/healthz: %d", got)
	}
	if log.Len() > 0 {
		t.Errorf("logged before anybody asked: %s", log)
	}
	for _, path := range guarded {
		if got := ask(t, port, path); got.StatusCode != 401 || len(got.Cookies()) > 0 {
			t.Errorf("%s without the token: %d", path, got.StatusCode)
		}
	}
	found := regexp.MustCompile(`console-token=(\S{20,})`).FindAllStringSubmatch(log.String(), -1)
	if len(found) != 1 {
		t.Fatalf("logged %d tokens: %s", len(found), log)
	}
	token := found[0][1]
	for _, path := range guarded {
		got := ask(t, port, path, set("Authorization", "Bearer "+token))
		if got.StatusCode != 200 || len(got.Cookies()) != 1 {
			t.Fatalf("%s with the token: %d", path, got.StatusCode)
		}
		c := got.Cookies()[0]
		if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || strings.Contains(c.Value, token) {
			t.Errorf("the cookie is %s", c)
		}
		if c.MaxAge != 12*60*60 {
			t.Errorf("the browser keeps the cookie for %d s", c.MaxAge)
		}
		cookie := set("Cookie", c.Name+"="+c.Value)
		for want, edit := range map[int]func(*http.Request){200: cookie, 401: set("Cookie", c.Name+"="+c.Value+"0")} {
			if got := ask(t, port, path, edit).StatusCode; got != want {
				t.Errorf("%s with a cookie: %d, want %d", path, got, want)
			}
		}
		for _, foreign := range []func(*http.Request){set("Sec-Fetch-Site", "cross-site"), set("Sec-Fetch-Site", "same-site"), set("Origin", "http://localhost:1"), set("Origin", "null")} {
			if got := ask(t, port, path, cookie, foreign).StatusCode; got != 401 {
				t.Errorf("%s with the cookie, from another site: %d", path, got)
			}
		}
		if got := ask(t, port, "/debug/tarn/admin/pause?controller=x", cookie, set("Content-Type", "application/json"), func(r *http.Request) { r.Method = http.MethodPost }).StatusCode; got != 401 {
			t.Errorf("the cookie allows changes: %d", got)
		}
	}
	if n := strings.Count(log.String(), token); n != 1 {
		t.Errorf("the token was logged %d times", n)
	}
}

// The server, not the browser, has to end what a copied cookie allows.
func TestTheCookieExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := console.Guard{Token: "given"}.Wrap(http.NotFoundHandler())
		ask := func(name, value string) *http.Response {
			w := httptest.NewRecorder()
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.Header.Set(name, value)
			h.ServeHTTP(w, r)
			return w.Result()
		}
		c := ask("Authorization", "Bearer given").Cookies()[0]
		later, err := strconv.ParseInt(c.Value[:8], 16, 64)
		if err != nil {
			t.Fatal(err)
		}
		forged := fmt.Sprintf("%08x", later+3600) + c.Value[8:]
		for _, hour := range []int{0, 11, 12, 13} {
			<-time.After(time.Duration(hour)*time.Hour + time.Second - time.Since(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)))
			want := http.StatusNotFound // of the page
			if hour >= 12 {
				want = http.StatusUnauthorized
			}
			if got := ask("Cookie", c.Name+"="+c.Value).StatusCode; got != want {
				t.Errorf("after %d hours: %d, want %d", hour, got, want)
			}
			for _, value := range []string{forged, c.Value[:8], c.Value[8:], "", "zzzzzzzz" + c.Value[8:]} {
				if got := ask("Cookie", c.Name+"="+value).StatusCode; got != http.StatusUnauthorized {
					t.Errorf("%q: %d", value, got)
				}
			}
		}
	})
}

func TestAGivenTokenIsTheOnlyOne(t *testing.T) {
	port, log := serve(t, "0.0.0.0:0", console.Guard{Token: "given"})
	for path, want := range map[string]int{guarded[0]: 401, guarded[2]: 401} {
		if got := ask(t, port, path).StatusCode; got != want {
			t.Errorf("%s: %d", path, got)
		}
		if got := ask(t, port, path, set("Authorization", "Bearer given")).StatusCode; got != 200 {
			t.Errorf("%s with the token: %d", path, got)
		}
	}
	if log.Len() > 0 {
		t.Errorf("logged: %s", log)
	}
}

func TestAServerOnLoopbackRequiresNoToken(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "localhost:0"} {
		port, _ := serve(t, address, console.Guard{})
		for _, path := range guarded {
			if got := ask(t, port, path).StatusCode; got != 200 {
				t.Errorf("%s: %d", path, got)
			}
			if got := ask(t, port, path, func(r *http.Request) { r.Host = "evil.example" }).StatusCode; got != 403 {
				t.Errorf("%s of another host: %d", path, got)
			}
		}
	}
}

// A server of the program's own says nothing about its listener.
func TestAnUnknownServerIsNotTakenForLoopback(t *testing.T) {
	l := listen(t)
	server := &http.Server{Handler: console.Mux(console.Options{Console: quiet{}, Profiling: true})}
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	for _, path := range guarded {
		if got := ask(t, port, path).StatusCode; got != 403 {
			t.Errorf("%s: %d", path, got)
		}
	}
	server.Close()
	<-done
}

// A program may pass a handler that declares to be on loopback to a Server that knows that it is not.
func TestT05_AServerBeyondLoopbackIgnoresADeclaration(t *testing.T) {
	port, _ := serveHandler(t, "0.0.0.0:0", console.OnLoopback(console.Mux(console.Options{Console: quiet{}, Profiling: true})))
	for _, path := range guarded {
		if got := ask(t, port, path).StatusCode; got != http.StatusUnauthorized {
			t.Errorf("%s: %d", path, got)
		}
	}
}
