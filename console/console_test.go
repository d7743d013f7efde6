package console_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime/trace"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/tarnproject/tarn/console"
	"github.com/tarnproject/tarn/console/metrics"
	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
	"github.com/tarnproject/tarn/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type mirror struct{ status informer.Status }

func (m *mirror) Name() string            { return m.status.Name }
func (m *mirror) Status() informer.Status { return m.status }

type worker struct{ status controller.Status }

func (w *worker) Name() string              { return w.status.Name }
func (w *worker) Status() controller.Status { return w.status }

// get requests a page from this machine.
func get(h http.Handler, target string, edit ...func(*http.Request)) (int, string) {
	r := httptest.NewRequest(http.MethodGet, "http://localhost:8080"+target, nil)
	r.RemoteAddr = "127.0.0.1:4000"
	for _, e := range edit {
		e(r)
	}
	w := httptest.NewRecorder()
	console.OnLoopback(h).ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

func want(t *testing.T, h http.Handler, target string, code int, body string) {
	t.Helper()
	if gotCode, got := get(h, target); gotCode != code || got != body {
		t.Errorf("%s: %d %q\nwant %d %q", target, gotCode, got, code, body)
	}
}

func TestReadyzListsWhyInformersAreNotSynced(t *testing.T) {
	pods := &mirror{informer.Status{Name: "pods"}}
	nodes := &mirror{informer.Status{Name: "nodes", Synced: true}}
	h := console.Mux(console.Options{Cluster: metrics.Static([]metrics.Informer{pods, nodes}, nil)})
	failed := func(cause string) string {
		return "[+]ping ok\n[-]informer/pods failed: not synced: " + cause + "\n[+]informer/nodes ok\nreadyz check failed\n"
	}
	want(t, h, "/readyz", 503, failed("not started"))
	pods.status.Running = true
	want(t, h, "/readyz", 503, failed("listing"))
	pods.status.Sources = []informer.SourceStatus{{Reflector: reflector.Status{LastError: errors.New("list pods:\n  forbidden")}}}
	want(t, h, "/readyz", 503, failed("list pods: forbidden"))
	want(t, h, "/healthz", 200, "ok")
	pods.status.Synced = true
	want(t, h, "/readyz", 200, "ok")
	want(t, h, "/readyz?verbose", 200, "[+]ping ok\n[+]informer/pods ok\n[+]informer/nodes ok\nreadyz check passed\n")
	pods.status = informer.Status{Name: "pods", Stopped: true}
	want(t, h, "/readyz", 503, failed("stopped"))
}

func TestReadyzReportsASharedCauseOnce(t *testing.T) {
	down := func(verb string) []informer.SourceStatus {
		return []informer.SourceStatus{{Reflector: reflector.Status{LastError: &wire.TransportError{Call: wire.Call{Verb: verb}, Err: &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("refused")}}}}}
	}
	h := console.Mux(console.Options{Cluster: metrics.Static([]metrics.Informer{
		&mirror{informer.Status{Name: "pods", Running: true, Sources: down("list pods")}}, &mirror{informer.Status{Name: "nodes", Running: true, Sources: down("list nodes")}},
		&mirror{informer.Status{Name: "jobs", Running: true}},
	}, nil)})
	code, body := get(h, "/readyz")
	for _, line := range []string{"dial tcp: refused\n", "[-]informer/nodes failed: see informer/pods\n", "[-]informer/jobs failed: not synced: listing\n"} {
		if code != 503 || strings.Count(body, line) != 1 {
			t.Errorf("%d %s, want once %q", code, body, line)
		}
	}
}

func TestHealthzFailsWithTheRunOfAController(t *testing.T) {
	web := &worker{controller.Status{Name: "web"}}
	var down error
	h := console.Mux(console.Options{
		Cluster: metrics.Static(nil, []metrics.Controller{web}),
		Healthz: []console.Check{{Name: "database", Run: func(context.Context) error { return down }}},
	})
	want(t, h, "/healthz?verbose", 200, "[+]ping ok\n[+]controller/web ok\n[+]database ok\nhealthz check passed\n")
	web.status.Err = errors.New("source pods: stopped")
	down = errors.New("refused")
	want(t, h, "/healthz", 503, "[+]ping ok\n[-]controller/web failed: source pods: stopped\n[-]database failed: refused\nhealthz check failed\n")
	want(t, h, "/readyz", 200, "ok")
}

// Clients of the probes are not authenticated, and what a function panicked with may be an object.
func TestProbesShowNoKeysAndNoValuesOfPanics(t *testing.T) {
	thrown := object.PanicError{Value: "the password of shop/web"}
	of := &controller.PanicError{PanicError: thrown, Controller: "web", Function: "Queue.Group", Where: "Queue.Group of shop/web"}
	web := &worker{controller.Status{Name: "web"}}
	pods := &mirror{informer.Status{Name: "pods", Synced: true}}
	h := console.Mux(console.Options{Cluster: metrics.Static([]metrics.Informer{pods}, []metrics.Controller{web})})
	check := func(path, text string) {
		t.Helper()
		if _, body := get(h, path); !strings.Contains(body, text) || strings.Contains(body, "shop") {
			t.Errorf("%s: %s, want %q", path, body, text)
		}
	}
	web.status.FunctionPanics, web.status.LastFunctionPanic = 3, of
	check("/readyz", "[!]controller/web ok, but: 3 panics of the program's functions, the last: panic in Queue.Group\n")
	web.status.FunctionPanics, web.status.Err = 0, fmt.Errorf("ended: %w", of)
	check("/healthz", "[-]controller/web failed: panic in Queue.Group\n")
	web.status.Err = &controller.UnfinishedError[string]{Controller: "web", Running: []string{"shop/web"}}
	check("/healthz", "[-]controller/web failed: reconciles did not stop\n")
	web.status.Running = []controller.Running{{Key: "shop/web", Since: time.Now().Add(-time.Hour)}}
	check("/readyz", "[!]controller/web ok, but: a reconcile has run for 1h")
	pods.status = informer.Status{Name: "pods", Running: true, Sources: []informer.SourceStatus{{Reflector: reflector.Status{LastError: &thrown}}}}
	check("/readyz", "[-]informer/pods failed: panic in a function of the program\n")
}

func TestPagesThatAreNotChosenAreNotFound(t *testing.T) {
	h := console.Mux(console.Options{})
	for _, page := range []string{"/", "/metrics", "/debug/pprof/", "/debug/pprof/heap"} {
		if code, _ := get(h, page); code != 404 {
			t.Errorf("%s: %d", page, code)
		}
	}
	if code, _ := get(h, "/healthz", func(r *http.Request) { r.Method = http.MethodPost }); code != 405 {
		t.Errorf("POST /healthz: %d", code)
	}
	if code, _ := get(http.DefaultServeMux, "/debug/pprof/"); code != 404 {
		t.Errorf("the default mux has /debug/pprof/: %d", code)
	}
}

func TestMetricsAreExported(t *testing.T) {
	reg := prometheus.NewRegistry()
	m, err := metrics.New(reg)
	if err != nil {
		t.Fatal(err)
	}
	m.AddCluster(metrics.Static([]metrics.Informer{&mirror{informer.Status{Name: "pods", Synced: true}}}, nil))
	code, body := get(console.Mux(console.Options{Metrics: reg}), "/metrics")
	if code != 200 || !strings.Contains(body, "tarn_informer_synced{informer=\"pods\"} 1\n") {
		t.Errorf("%d %s", code, body)
	}
}

func TestTheGuardRejectsOtherMachinesAndWebPages(t *testing.T) {
	remote := func(addr string) func(*http.Request) { return func(r *http.Request) { r.RemoteAddr = addr } }
	host := func(host string) func(*http.Request) { return func(r *http.Request) { r.Host = host } }
	header := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	for name, tt := range map[string]struct {
		token string
		edit  func(*http.Request)
		code  int
	}{
		"this machine":            {"", remote("127.0.0.1:1"), 200},
		"this machine over IPv6":  {"", remote("[::1]:1"), 200},
		"another machine":         {"", remote("10.0.0.1:1"), 403},
		"no address":              {"", remote("@"), 403},
		"DNS rebinding":           {"", host("evil.example:8080"), 403},
		"own origin":              {"", header("Origin", "http://localhost:8080"), 200},
		"another port":            {"", header("Origin", "http://localhost:3000"), 403},
		"another origin":          {"", header("Origin", "https://evil.example"), 403},
		"no origin":               {"", header("Origin", "null"), 403},
		"another site":            {"", header("Sec-Fetch-Site", "cross-site"), 403},
		"typed into a browser":    {"", header("Sec-Fetch-Site", "none"), 200},
		"no token":                {"s3cret", remote("127.0.0.1:1"), 401},
		"wrong token":             {"s3cret", header("Authorization", "Bearer s3cre"), 401},
		"another scheme":          {"s3cret", header("Authorization", "Basic s3cret"), 401},
		"token":                   {"s3cret", header("Authorization", "Bearer s3cret"), 200},
		"token as a password":     {"s3cret", func(r *http.Request) { r.SetBasicAuth("x", "s3cret") }, 200},
		"a wrong password":        {"s3cret", func(r *http.Request) { r.SetBasicAuth("s3cret", "") }, 401},
		"a password for a page":   {"s3cret", func(r *http.Request) { r.SetBasicAuth("x", "s3cret"); r.Header.Set("Sec-Fetch-Site", "same-site") }, 401},
		"token, lower case":       {"s3cret", header("Authorization", "bearer s3cret"), 200},
		"empty token without one": {"", header("Authorization", "Bearer "), 200},
		"token from elsewhere": {"s3cret", func(r *http.Request) {
			r.RemoteAddr, r.Host = "10.0.0.1:1", "pod.example"
			r.Header.Set("Authorization", "Bearer s3cret")
		}, 200},
	} {
		h := console.Mux(console.Options{Profiling: true, Guard: console.Guard{Token: tt.token}})
		if code, body := get(h, "/debug/pprof/", tt.edit); code != tt.code {
			t.Errorf("%s: %d %s, want %d", name, code, body, tt.code)
		}
	}
}

func TestProfilesAreRecorded(t *testing.T) {
	h := console.Mux(console.Options{Profiling: true})
	if code, body := get(h, "/debug/pprof/"); code != 200 || !strings.Contains(body, "goroutine ") {
		t.Errorf("index: %d %s", code, body)
	}
	if code, body := get(h, "/debug/pprof/goroutine?debug=1"); code != 200 || !strings.HasPrefix(body, "goroutine profile: total") {
		t.Errorf("goroutine: %d %s", code, body)
	}
	for _, page := range []string{"heap?gc=1", "allocs", "profile?seconds=1", "trace?seconds=1"} {
		cancelled := func(r *http.Request) {
			ctx, cancel := context.WithCancel(r.Context())
			cancel() // a recording ends at once
			*r = *r.WithContext(ctx)
		}
		if code, body := get(h, "/debug/pprof/"+page, cancelled); code != 200 || body == "" {
			t.Errorf("%s: %d with %d bytes", page, code, len(body))
		}
	}
	for page, code := range map[string]int{
		"nonsense": 404, "profile?seconds=0": 400, "profile?seconds=1000": 400, "trace?seconds=x": 400, "heap?debug=x": 400,
	} {
		if got, body := get(h, "/debug/pprof/"+page); got != code {
			t.Errorf("%s: %d %s, want %d", page, got, body, code)
		}
	}
}

func TestOneRecordingAtATime(t *testing.T) {
	if err := trace.Start(io.Discard); err != nil {
		t.Skip(err) // the test itself is being traced
	}
	defer trace.Stop()
	if code, body := get(console.Mux(console.Options{Profiling: true}), "/debug/pprof/trace"); code != 409 {
		t.Errorf("a second trace: %d %s", code, body)
	}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestAServerLetsRequestsFinish(t *testing.T) {
	l := listen(t)
	ctx, stop := context.WithCancel(context.Background())
	inside := make(chan struct{})
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(inside)
		<-r.Context().Done()
		_, _ = io.WriteString(w, "finished")
	})
	done := make(chan error, 1)
	go func() { done <- (&console.Server{Listener: l, Handler: h}).Run(ctx) }()
	go func() { <-inside; stop() }()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if string(body) != "finished" || err != nil {
		t.Errorf("%q, %v", body, err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if _, err := client.Get("http://" + l.Addr().String()); err == nil {
		t.Error("the server still accepts requests")
	}
}

func TestAServerThatCannotListenSaysWhy(t *testing.T) {
	l := listen(t)
	defer l.Close()
	err := console.Serve(t.Context(), l.Addr().String(), nil)
	if err == nil || !strings.HasPrefix(err.Error(), "console: listen tcp "+l.Addr().String()) {
		t.Error(err)
	}
	closed := listen(t)
	closed.Close()
	if err := (&console.Server{Listener: closed}).Run(t.Context()); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}

func TestAServerWhoseContextIsDoneStopsAtOnce(t *testing.T) {
	ctx, stop := context.WithCancel(context.Background())
	stop()
	if err := console.Serve(ctx, "127.0.0.1:0", nil); err != nil {
		t.Error(err)
	}
}

func TestAStuckRequestDoesNotBlockShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		ctx, stop := context.WithCancel(context.Background())
		free := make(chan struct{})
		h := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-free })
		done := make(chan error, 1)
		go func() {
			done <- (&console.Server{Listener: &once{conn: far, closed: make(chan struct{})}, Handler: h}).Run(ctx)
		}()
		go func() { _, _ = io.WriteString(near, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n") }()
		synctest.Wait()
		begin := time.Now()
		stop()
		if err := <-done; err != nil || time.Since(begin) != 5*time.Second {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
		close(free)
		near.Close()
	})
}

// quiet is a cluster without mirrors.
type quiet struct{}

func (quiet) Status() console.Status                    { return console.Status{Time: time.Now(), Running: true} }
func (quiet) MirrorNamed(string) console.Mirror         { return nil }
func (quiet) ControllerNamed(string) console.Controller { return nil }

// The server limits the time of requests and responses to a minute. Events outlast that, but not a
// client that does not read.
func TestEventsOutlastTheTimeoutsOfTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		ctx, stop := context.WithCancel(context.Background())
		done := make(chan error, 1)
		h := console.Handler(quiet{}, console.HandlerOptions{Guard: console.Guard{Token: "t"}})
		go func() {
			done <- (&console.Server{Listener: &once{conn: far, closed: make(chan struct{})}, Handler: h}).Run(ctx)
		}()
		if _, err := io.WriteString(near, "GET /events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer t\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		response, err := http.ReadResponse(bufio.NewReader(near), nil)
		if err != nil || response.StatusCode != http.StatusOK {
			t.Fatal(response, err)
		}
		lines := bufio.NewScanner(response.Body)
		for n := 0; n < 600; {
			if !lines.Scan() {
				t.Fatalf("the stream ended after %v and %d events: %v", time.Since(begin), n, lines.Err())
			}
			if lines.Text() == "event: status" {
				n++
			}
		}
		if took := time.Since(begin); took < 9*time.Minute || took > 11*time.Minute {
			t.Errorf("600 events in %v", took)
		}
		<-time.After(time.Minute)
		if _, err := io.Copy(io.Discard, near); err != nil {
			t.Error(err)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		near.Close()
	})
}

// A response to HEAD has no body whose end would free the slot of the stream.
func TestHeadOfEventsTakesNoSlot(t *testing.T) {
	h := console.Handler(quiet{}, console.HandlerOptions{Guard: console.Guard{Token: "t"}})
	ask := func(method string) *http.Response {
		ctx, cancel := context.WithCancel(t.Context())
		t.Cleanup(cancel)
		r := httptest.NewRequestWithContext(ctx, method, "/events", nil)
		r.Header.Set("Authorization", "Bearer t")
		w := httptest.NewRecorder()
		if method == http.MethodGet {
			cancel()
		}
		h.ServeHTTP(w, r)
		return w.Result()
	}
	for range 40 {
		if got := ask(http.MethodHead); got.StatusCode != 200 || got.Header.Get("Content-Type") != "text/event-stream" {
			t.Fatalf("%+v", got)
		}
	}
	if got := ask(http.MethodGet); got.StatusCode != 200 {
		t.Errorf("GET after 40 HEAD: %s", got.Status)
	}
}

// once is a listener with one connection.
type once struct {
	conn   net.Conn
	closed chan struct{}
}

func (l *once) Accept() (net.Conn, error) {
	if c := l.conn; c != nil {
		l.conn = nil
		return c, nil
	}
	<-l.closed
	return nil, net.ErrClosed
}

func (l *once) Close() error   { close(l.closed); return nil }
func (l *once) Addr() net.Addr { return &net.TCPAddr{} }
