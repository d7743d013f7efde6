package apiserver_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarnproject/tarn/apiserver"
)

func inject(t testing.TB, s *apiserver.Server, f apiserver.Fault) {
	t.Helper()
	if _, err := s.Inject(f); err != nil {
		t.Fatal(err)
	}
}

func TestFaultsThatRespondWithAnError(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{})
	for kind, code := range map[apiserver.FaultKind]int{
		apiserver.Unauthorized: 401, apiserver.Forbidden: 403, apiserver.NotServed: 404, apiserver.Gone: 410,
		apiserver.TooManyRequests: 429, apiserver.InternalError: 500, apiserver.Unavailable: 503,
	} {
		for _, path := range []string{pods, pods + "?watch=1"} {
			inject(t, s, apiserver.Fault{Kind: kind, Times: 1, Wait: 90 * time.Second})
			a := get(t, s, path)
			if a.code != code || a.at("kind") != "Status" {
				t.Errorf("%s: %d %s", kind, a.code, a.raw)
			}
			if retry := a.header.Get("Retry-After"); (code == 429 || code == 503) != (retry == "90") {
				t.Errorf("%s: Retry-After is %q", kind, retry)
			}
		}
	}
	if a := get(t, s, pods); a.code != http.StatusOK {
		t.Errorf("faults remain after Times requests: %d", a.code)
	}
}

func TestFaultsMatchResourceAndVerb(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{})
	inject(t, s, apiserver.Fault{Kind: apiserver.Unavailable, Resource: "deployments.apps", Verb: "list"})
	remove := must(s.Inject(apiserver.Fault{Kind: apiserver.Forbidden, Resource: "pods", Verb: "create"}))
	for path, code := range map[string]int{pods: 200, "/apis/apps/v1/deployments": 503, "/apis/apps/v1/namespaces/default/deployments/x": 404} {
		if a := get(t, s, path); a.code != code {
			t.Errorf("%s: %d", path, a.code)
		}
	}
	if a := do(t, s, http.MethodPost, pods, `{"metadata":{"name":"a"}}`); a.code != http.StatusForbidden {
		t.Errorf("create: %d", a.code)
	}
	remove()
	if a := do(t, s, http.MethodPost, pods, `{"metadata":{"name":"a"}}`); a.code != http.StatusCreated {
		t.Errorf("create: %d %s", a.code, a.raw)
	}
	if n := s.Injected(apiserver.Forbidden); n != 1 {
		t.Errorf("hit %d requests", n)
	}
	s.Clear()
	if len(s.Faults()) != 0 {
		t.Errorf("left: %v", s.Faults())
	}
	for _, f := range []apiserver.Fault{{}, {Kind: "meteor"}, {Kind: apiserver.Gone, Times: -1}} {
		if _, err := s.Inject(f); err == nil {
			t.Errorf("%+v was accepted", f)
		}
	}
}

func TestFaultsOfAWatch(t *testing.T) {
	for kind, want := range map[apiserver.FaultKind]string{
		apiserver.CutWatch:       "ADDED a,ADDED b,cut",
		apiserver.EndWatch:       "ADDED a,ADDED b,end",
		apiserver.GoneEvent:      "ADDED a,ADDED b,ERROR 410 Expired,end",
		apiserver.ErrorEvent:     "ADDED a,ADDED b,ERROR 500 InternalError,end",
		apiserver.TruncateFrame:  "ADDED a,ADDED b,cut",
		apiserver.CorruptFrame:   "ADDED a,ADDED b,garbage,end",
		apiserver.DuplicateEvent: "ADDED a,ADDED b,ADDED c,ADDED c,ADDED d,ADDED d,end",
		apiserver.StaleEvent:     "ADDED a,ADDED b,ADDED c,ADDED b,ADDED d,ADDED c,end",
	} {
		for _, http2 := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				s := apiserver.Start(t, apiserver.Options{HTTP2: http2})
				fill(t, s, pod("a"), pod("b"), pod("c"), pod("d"))
				inject(t, s, apiserver.Fault{Kind: kind, After: 2})
				w := watching(t, s, pods+"?watch=1&timeoutSeconds=60")
				var got []string
				for {
					ev := w.next()
					if fields := strings.Fields(ev); fields[0] == "ADDED" {
						ev = fields[0] + " " + fields[1]
					}
					got = append(got, ev)
					if ev == "cut" || ev == "end" {
						break
					}
				}
				text := strings.Join(got, ",")
				if kind == apiserver.TruncateFrame {
					text = strings.Replace(text, ",garbage", "", 1) // half a line
				}
				if text != want {
					t.Errorf("%s: got %s, want %s", kind, text, want)
				}
			})
		}
	}
}

func TestW13_AStalledWatchIsSilentAndStaysOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := apiserver.Start(t, apiserver.Options{})
		a := fill(t, s, pod("a"), pod("b"))
		inject(t, s, apiserver.Fault{Kind: apiserver.Stall, After: 1, Verb: "watch"})
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Hour)
		defer cancel()
		resp, err := send(ctx, s, http.MethodGet, pods+"?watch=1&allowWatchBookmarks=true&timeoutSeconds=60&resourceVersion=13", "")
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		raw, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 3*time.Hour || strings.Count(string(raw), "\n") != 1 {
			t.Errorf("until %s: %v after %v: %s", a, err, time.Since(began), raw)
		}
	})
}

func TestLatencyAndStallOfRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := apiserver.Start(t, apiserver.Options{})
		inject(t, s, apiserver.Fault{Kind: apiserver.Latency, Times: 1, Wait: 5 * time.Second})
		began := time.Now()
		if a := get(t, s, pods); a.code != http.StatusOK || time.Since(began) != 5*time.Second {
			t.Errorf("%d after %v", a.code, time.Since(began))
		}
		inject(t, s, apiserver.Fault{Kind: apiserver.Stall, Times: 1})
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if _, err := send(ctx, s, http.MethodGet, pods, ""); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a stalled request: %v", err)
		}
	})
}

func TestCutHitsStalledWatchesToo(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{})
	inject(t, s, apiserver.Fault{Kind: apiserver.Stall, Verb: "watch"})
	onPods := watching(t, s, pods+"?watch=1&resourceVersion=13")
	fill(t, s, pod("a")) // wakes the stalled watch, but is not sent
	if n := s.Cut("pods"); n != 1 {
		t.Errorf("cut %d", n)
	}
	onPods.expect(t, "cut")
}

func TestCutHitsOpenWatchesOfOneResource(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{})
	onPods := watching(t, s, pods+"?watch=1&resourceVersion=13")
	onNodes := watching(t, s, "/api/v1/nodes?watch=1&resourceVersion=13")
	if n := s.Cut("pods"); n != 1 {
		t.Errorf("cut %d", n)
	}
	onPods.expect(t, "cut")
	if s.Watches("nodes") != 1 {
		t.Errorf("%d watches of nodes", s.Watches("nodes"))
	}
	if n := s.Cut(""); n != 1 {
		t.Errorf("cut %d", n)
	}
	onNodes.expect(t, "cut")
}

func TestRefusedConnections(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{Address: "127.0.0.1:0"})
	if a := get(t, s, "/healthz"); a.code != http.StatusOK {
		t.Fatal(a.code)
	}
	s.RefuseConnections(true)
	for range 2 { // the first may use an open connection
		if _, err := send(t.Context(), s, http.MethodGet, "/healthz", ""); err == nil {
			t.Error("got a response")
		}
	}
	if _, err := send(t.Context(), s, http.MethodGet, "/healthz", ""); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("got %v", err)
	}
	tcp := &http.Transport{DisableKeepAlives: true}
	if _, err := tcp.RoundTrip(must(http.NewRequest(http.MethodGet, s.Config().Host+"/healthz", nil))); err == nil {
		t.Error("got a response over the network")
	}
	s.RefuseConnections(false)
	if a := get(t, s, "/healthz"); a.code != http.StatusOK {
		t.Errorf("afterwards: %d", a.code)
	}
}

func TestRandomFaultsRepeatWithTheirSeed(t *testing.T) {
	sequence := func(seed uint64) (codes []string) {
		s := apiserver.Start(t, apiserver.Options{})
		s.Random(seed, 0.5)
		for range 20 {
			resp, err := send(t.Context(), s, http.MethodPost, "/api/v1/namespaces/default/configmaps", `{"metadata":{"generateName":"x-"}}`)
			if err != nil {
				codes = append(codes, "lost")
				continue
			}
			_, err = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			codes = append(codes, fmt.Sprint(resp.StatusCode, err))
		}
		return codes
	}
	one, again, other := sequence(1), sequence(1), sequence(2)
	if !slices.Equal(one, again) {
		t.Errorf("the same seed gave\n%v\n%v", one, again)
	}
	if slices.Equal(one, other) {
		t.Errorf("another seed gave the same %v", one)
	}
	if !slices.ContainsFunc(one, func(c string) bool { return !strings.HasPrefix(c, "201 <nil>") }) {
		t.Errorf("no fault was injected: %v", one)
	}
}

func TestAdminPathIsOffByDefault(t *testing.T) {
	if a := get(t, apiserver.Start(t, apiserver.Options{}), "/tarn/faults"); a.code != http.StatusNotFound {
		t.Errorf("got %d", a.code)
	}
	s := apiserver.Start(t, apiserver.Options{Admin: true})
	if a := do(t, s, http.MethodPost, "/tarn/faults", `{"kind":"unavailable","resource":"pods"}`); a.code != http.StatusOK || !strings.Contains(a.raw, "unavailable") {
		t.Errorf("got %d %s", a.code, a.raw)
	}
	if a := get(t, s, pods); a.code != http.StatusServiceUnavailable {
		t.Errorf("got %d", a.code)
	}
	do(t, s, http.MethodDelete, "/tarn/faults", "")
	fill(t, s, pod("a"))
	w := watching(t, s, pods+"?watch=1&resourceVersion="+version(s))
	if a := do(t, s, http.MethodPost, "/tarn/cut?resource=pods", ""); a.at("cut") != "1" {
		t.Errorf("got %s", a.raw)
	}
	w.expect(t, "cut")
	if a := do(t, s, http.MethodPost, "/tarn/rewind?changes=1", ""); a.at("version") != "13" {
		t.Errorf("got %s", a.raw)
	}
	do(t, s, http.MethodPost, "/tarn/compact", "")
	watching(t, s, pods+"?watch=1&resourceVersion=12").expect(t, "ERROR 410 Expired")
	for path, body := range map[string]string{"/tarn/faults": `{"kind":"meteor"}`, "/tarn/random": ""} {
		if a := do(t, s, http.MethodPost, path, body); a.code != http.StatusBadRequest {
			t.Errorf("%s: %d", path, a.code)
		}
	}
}
