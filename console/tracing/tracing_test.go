package tracing_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/console/tracing"
	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/internal/sim/simtest"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire"
	"github.com/tarnproject/tarn/wire/stream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newTracer returns a tracer and the spans that it ends.
func newTracer() (*tracing.Tracer, *tracetest.SpanRecorder) {
	spans := tracetest.NewSpanRecorder()
	return tracing.New(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))), spans
}

// describe returns the name, kind, status and attributes of a span.
func describe(s sdktrace.ReadOnlySpan) string {
	var attrs []string
	for _, a := range s.Attributes() {
		attrs = append(attrs, fmt.Sprintf("%s=%v", a.Key, a.Value.AsInterface()))
	}
	slices.Sort(attrs)
	text := fmt.Sprintf("%s %s %s", s.Name(), s.SpanKind(), strings.Join(attrs, " "))
	if s.Status().Code != codes.Unset {
		text += fmt.Sprintf(" %s: %s", s.Status().Code, s.Status().Description)
	}
	return text
}

func want(t *testing.T, spans *tracetest.SpanRecorder, want ...string) {
	t.Helper()
	var got []string
	for _, s := range spans.Ended() {
		got = append(got, describe(s))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// run reconciles one key and returns when that is done.
func run[K comparable](t *testing.T, key K, reconcile controller.Func[K], opts controller.Options[K]) {
	t.Helper()
	keys := make(chan K, 1)
	c, err := controller.New("web", reconcile, opts, controller.Channel("keys", keys))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	keys <- key
	simtest.Advance(time.Minute)
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestARequestIsAChildOfItsReconcile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tracer, spans := newTracer()
		server := apiserver.Start(t, apiserver.Options{Bookmarks: time.Hour})
		client, err := wire.New(server.Config(), wire.Options{Observers: []wire.Observer{tracer.Request}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := server.Inject(apiserver.Fault{Kind: apiserver.TooManyRequests, Verb: "create", Times: 1, Wait: time.Second}); err != nil {
			t.Fatal(err)
		}
		pods := wire.For(client, wire.MustOf[*corev1.Pod]())
		var log bytes.Buffer
		run(t, object.Key{Namespace: "default", Name: "web"}, func(ctx context.Context, key object.Key) (controller.Result, error) {
			controller.Logger(ctx).Info("creating")
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
			if _, err := pods.Create(ctx, pod, wire.WriteOptions{}); err != nil {
				return controller.Result{}, err
			}
			_, _, err := stream.List(ctx, pods, object.ListOptions{})
			return controller.Result{RequeueAfter: time.Hour}, err
		}, controller.Options[object.Key]{
			Observers: []controller.Observer{tracer.Reconcile}, Logger: slog.New(tracing.Handler(slog.NewTextHandler(&log, nil))),
		})
		host, port, _ := strings.Cut(client.Host(), ":")
		at := " server.address=" + host
		if port != "" {
			at += " server.port=" + port
		}
		want(t, spans,
			"CREATE pods client http.request.method=POST http.response.status_code=429 k8s.namespace.name=default"+at+
				" Error: create pods in default: "+strings.TrimPrefix(spans.Ended()[0].Status().Description, "create pods in default: "),
			"CREATE pods client http.request.method=POST http.request.resend_count=1 http.response.status_code=201 k8s.namespace.name=default"+at,
			"LIST pods client http.request.method=GET http.response.status_code=200"+at,
			"reconcile web internal controller.attempt=1 controller.key=default/web controller.name=web controller.outcome=requeue_after k8s.namespace.name=default k8s.object.name=web",
		)
		parent := spans.Ended()[3].SpanContext()
		for _, s := range spans.Ended()[:3] {
			if s.Parent().SpanID() != parent.SpanID() {
				t.Errorf("the parent of %s is %v, want %v", s.Name(), s.Parent().SpanID(), parent.SpanID())
			}
		}
		if ids := fmt.Sprintf("trace_id=%s span_id=%s", parent.TraceID(), parent.SpanID()); !strings.Contains(log.String(), ids) {
			t.Errorf("log: %s\nwant %s", log.String(), ids)
		}
	})
}

func TestOnlyFailuresHaveTheStatusError(t *testing.T) {
	for outcome, tt := range map[string]struct {
		err  error
		want string
	}{
		"terminal": {controller.Terminal(errors.New("oops")), " Error: not to be retried: oops"},
		"stale":    {fmt.Errorf("get: %w", controller.ErrStaleCache), ""},
		"success":  {nil, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			tracer, spans := newTracer()
			first := true
			run(t, 7, func(context.Context, int) (controller.Result, error) {
				if !first {
					return controller.Result{}, nil
				}
				first = false
				return controller.Result{}, tt.err
			}, controller.Options[int]{Observers: []controller.Observer{tracer.Reconcile}})
			got := describe(spans.Ended()[0])
			if want := "reconcile web internal controller.attempt=1 controller.key=7 controller.name=web controller.outcome=" + outcome + tt.want; got != want {
				t.Errorf("%s\nwant %s", got, want)
			}
		})
	}
}

func TestSpansOfRequestsAreNamedByResource(t *testing.T) {
	tracer, spans := newTracer()
	for _, start := range []wire.AttemptStart{
		{Method: "GET", Host: "cluster.example", Attempt: 1, Call: wire.Call{Verb: "get", Path: "/version"}},
		{Method: "PUT", Host: "[::1]:6443", Attempt: 1, Call: wire.Call{
			Verb: "update", Resource: object.Resource{Group: "apps", Resource: "deployments"}, Subresource: "status",
			Key: object.Key{Namespace: "shop", Name: "web"},
		}},
	} {
		_, end := tracer.Request(t.Context(), start)
		end(wire.AttemptEnd{Err: errors.New("refused")})
	}
	want(t, spans,
		"GET client http.request.method=GET server.address=cluster.example url.path=/version Error: refused",
		"UPDATE deployments.apps/status client http.request.method=PUT k8s.namespace.name=shop k8s.object.name=web server.address=::1 server.port=6443 Error: refused")
}

func TestRecordsWithoutASpanAreUnchanged(t *testing.T) {
	var log bytes.Buffer
	l := slog.New(tracing.Handler(slog.NewTextHandler(&log, nil)))
	l.Info("plain")
	if strings.Contains(log.String(), "trace_id") {
		t.Error(log.String())
	}
	log.Reset()
	ctx := trace.ContextWithSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}}))
	l.With("a", 1).WithGroup("g").InfoContext(ctx, "in a group", "b", 2)
	if want := "a=1 g.b=2 g.trace_id=01000000000000000000000000000000 g.span_id=0200000000000000\n"; !strings.HasSuffix(log.String(), want) {
		t.Errorf("%s\nwant %s", log.String(), want)
	}
}
