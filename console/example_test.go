package console_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tarnproject/tarn/console"
	"github.com/tarnproject/tarn/console/metrics"
	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/informer"
)

func print(h http.Handler, path string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	fmt.Println(w.Code)
	fmt.Print(w.Body)
}

func ExampleMux() {
	pods := &mirror{informer.Status{Name: "pods", Running: true}} // an informer
	cluster := metrics.Static([]metrics.Informer{pods}, nil)
	mux := console.Mux(console.Options{Cluster: cluster, Metrics: prometheus.NewRegistry(), Profiling: true})
	mux.HandleFunc("GET /version", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "v1.2.3") })
	print(mux, "/readyz")
	print(mux, "/version")
	// Output:
	// 503
	// [+]ping ok
	// [-]informer/pods failed: not synced: listing
	// readyz check failed
	// 200
	// v1.2.3
}

func ExampleReadyz() {
	pods := &mirror{informer.Status{Name: "pods", Synced: true}} // an informer
	database := console.Check{Name: "database", Run: func(context.Context) error { return errors.New("connection refused") }}
	print(console.Readyz(metrics.Static([]metrics.Informer{pods}, nil), database), "/readyz")
	// Output:
	// 503
	// [+]ping ok
	// [+]informer/pods ok
	// [-]database failed: connection refused
	// readyz check failed
}

func ExampleHealthz() {
	web := &worker{controller.Status{Name: "web"}} // a controller
	print(console.Healthz(metrics.Static(nil, []metrics.Controller{web})), "/healthz?verbose")
	// Output:
	// 200
	// [+]ping ok
	// [+]controller/web ok
	// healthz check passed
}

// A guard protects pages of the program too.
func ExampleGuard() {
	page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "details") })
	print(console.Guard{Token: "s3cret"}.Wrap(page), "/details")
	// Output:
	// 401
	// this page requires a bearer token
}

// A server of the program's own listens on a loopback address.
func ExampleOnLoopback() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	server := &http.Server{Handler: console.OnLoopback(console.Mux(console.Options{Profiling: true}))}
	go server.Serve(listener)
	defer server.Close()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + listener.Addr().String() + "/debug/pprof/")
	if err != nil {
		fmt.Println(err)
		return
	}
	resp.Body.Close()
	fmt.Println(resp.Status)
	// Output: 200 OK
}

// A server runs beside informers and controllers.
func ExampleServer() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	server := &console.Server{Listener: listener, Handler: console.Mux(console.Options{})}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	done := make(chan error, 1)
	go func() { done <- controller.Run(ctx, server) }()

	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + listener.Addr().String() + "/healthz")
	if err != nil {
		fmt.Println(err)
		return
	}
	body, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	fmt.Println(resp.Status, string(body))
	stop()
	fmt.Println(<-done)
	// Output:
	// 200 OK ok
	// <nil>
}

func ExampleServe() {
	ctx, stop := context.WithCancel(context.Background())
	stop() // a program serves until it is interrupted
	fmt.Println(console.Serve(ctx, "127.0.0.1:0", console.Mux(console.Options{})))
	// Output: <nil>
}
