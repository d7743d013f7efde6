package wire_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/tarnproject/tarn/wire"
)

type transport func(*http.Request) *http.Response

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r), nil }

// An observer is called around each attempt. Packages console/metrics and console/tracing have
// observers for Prometheus and OpenTelemetry.
func ExampleObserver() {
	observer := func(ctx context.Context, start wire.AttemptStart) (context.Context, func(wire.AttemptEnd)) {
		return ctx, func(end wire.AttemptEnd) {
			fmt.Println(start.Method, start.Call, start.Host, start.Attempt, end.Code, end.Err)
		}
	}
	server := transport(func(r *http.Request) *http.Response {
		return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("ok")), Request: r}
	})
	c, err := wire.NewWithTransport(&url.URL{Scheme: "https", Host: "cluster.example"}, server, wire.Options{Observers: []wire.Observer{observer}})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, _ = c.Request(wire.VerbGet).AbsPath("/readyz").Do(context.Background())
	// Output: GET get /readyz cluster.example 1 200 <nil>
}
