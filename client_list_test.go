package tarn_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/apiserver"
)

// lagging delays what it reads from a watch, as a busy server does, until the request ends.
type lagging struct {
	io.ReadCloser
	ctx context.Context
}

func (l lagging) Read(p []byte) (int, error) {
	n, err := l.ReadCloser.Read(p)
	select {
	case <-time.After(10 * time.Millisecond):
	case <-l.ctx.Done():
	}
	return n, err
}

type laggingWatches struct{ http.RoundTripper }

func (l laggingWatches) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := l.RoundTripper.RoundTrip(req)
	if err == nil && strings.Contains(req.URL.RawQuery, "watch=") {
		resp.Body = lagging{resp.Body, req.Context()}
	}
	return resp, err
}

// Four workers list and write, each write takes 5 ms, and the cache lags 10 ms behind. A List waits
// for the writes of its own key only; if it waited for those of all keys, some write would always be
// pending.
func TestAListInAReconcileDoesNotWaitForOtherKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := apiserver.Start(t, apiserver.Options{AnyNamespace: true, Seed: 1})
		must(srv.Inject(apiserver.Fault{Kind: apiserver.Latency, Resource: "configmaps", Verb: "update", Wait: 5 * time.Millisecond}))
		config := srv.MemoryConfig()
		config.Wrap(func(rt http.RoundTripper) http.RoundTripper { return laggingWatches{rt} })
		r := &testCluster{Cluster: connect(t, tarn.WithConfig(config), tarn.WithLogger(slog.New(slog.DiscardHandler))), t: t, srv: srv}
		for i := range 100 {
			r.create(configMap(fmt.Sprint("m", i), nil))
		}
		maps := must(tarn.MirrorOf[*corev1.ConfigMap](r.Cluster))
		client := maps.Client()
		done := make(chan time.Time, 100)
		ctl := must(tarn.NewController(r.Cluster, "lists", func(ctx context.Context, key tarn.Key) (tarn.Result, error) {
			all, err := client.List(ctx)
			if err != nil {
				return tarn.Result{}, err
			}
			m, err := client.Get(ctx, key)
			if err != nil || m.Data["step"] == "5" {
				if err == nil {
					done <- time.Now()
				}
				return tarn.Result{}, err
			}
			n, _ := strconv.Atoi(m.Data["step"])
			m.Data = map[string]string{"step": fmt.Sprint(n + 1), "of": fmt.Sprint(len(all))}
			if _, err = client.Update(ctx, m); err != nil {
				return tarn.Result{}, err
			}
			again, err := client.List(ctx) // the cache lags, so this one waits, or shows the write
			if err == nil {
				for _, a := range again {
					if a.Name == m.Name && a.Data["step"] != m.Data["step"] {
						t.Errorf("%s: a list without its own write", key)
					}
				}
			}
			return tarn.Result{}, err
		}, tarn.For(maps), tarn.Workers(4)))
		start := time.Now()
		r.start()
		var last time.Time
		for range 100 {
			last = <-done
		}
		st := ctl.Status()
		t.Logf("%v: %d reconciles, %d stale", last.Sub(start), st.Reconciles, st.Stale)
		if st.Stale > 500 { // at most one for the second list of each write
			t.Errorf("%d reconciles waited for writes of other keys", st.Stale-500)
		}
	})
}
