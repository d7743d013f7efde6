package apiserver_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"

	"github.com/tarnproject/tarn/apiserver"
)

func TestAPortInUseIsAnErrorOfNew(t *testing.T) {
	first := must(apiserver.New(apiserver.Options{Address: "127.0.0.1:0"}))
	if _, err := apiserver.New(apiserver.Options{Address: first.Addr().String()}); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("got %v", err)
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	if err := first.Run(t.Context()); err == nil {
		t.Errorf("run after close: %v", err)
	}
}

// Another process may take the port once it is free, but hardly ten times in a row.
func TestCloseGivesThePortBack(t *testing.T) {
	var failed error
	for range 10 {
		first := must(apiserver.New(apiserver.Options{Address: "127.0.0.1:0"}))
		addr := first.Addr().String()
		if err := first.Close(); err != nil {
			t.Fatal(err)
		}
		again, err := apiserver.New(apiserver.Options{Address: addr})
		if err == nil {
			if err := again.Close(); err != nil {
				t.Error(err)
			}
			return
		}
		failed = err
	}
	t.Error(failed)
}

func TestRunEndsWithItsContextAndOnlyOnce(t *testing.T) {
	s := must(apiserver.New(apiserver.Options{Address: "127.0.0.1:0"}))
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- s.Run(ctx) }()
	w := watching(t, s, pods+"?watch=1&resourceVersion=13")
	inject(t, s, apiserver.Fault{Kind: apiserver.Stall, Verb: "list"})
	stalled := make(chan error, 1)
	go func() {
		_, err := send(context.Background(), s, http.MethodGet, pods, "")
		stalled <- err
	}()
	for s.Injected(apiserver.Stall) == 0 {
		if a := get(t, s, "/healthz"); a.code != http.StatusOK {
			t.Fatal(a.code)
		}
	}
	cancel()
	if err := <-ran; err != nil {
		t.Error(err)
	}
	if got := w.next(); got != "end" && got != "cut" {
		t.Errorf("the watch got %s", got)
	}
	if err := <-stalled; err == nil {
		t.Error("got a response before Run")
	}
	if err := s.Run(t.Context()); err == nil {
		t.Errorf("again: %v", err)
	}
	if s.Watches("") != 0 {
		t.Errorf("%d watches are left", s.Watches(""))
	}
	if _, err := send(t.Context(), s, http.MethodGet, pods, ""); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("afterwards: %v", err)
	}
}

func TestTheServerWorksAsAHandler(t *testing.T) {
	s := must(apiserver.New(apiserver.Options{}))
	defer s.Close()
	rec := httptest.NewRecorder()
	s.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/api/v1/namespaces?limit=1", nil))
	if rec.Code != http.StatusOK || !strings.Contains(rec.Body.String(), `"remainingItemCount":3`) {
		t.Errorf("got %d %s", rec.Code, rec.Body)
	}
}

func TestASeedMakesNamesAndUIDsReproducible(t *testing.T) {
	names := func(seed uint64) (out []string) {
		s := must(apiserver.New(apiserver.Options{Seed: seed}))
		defer s.Close()
		for range 3 {
			p := pod("")
			p.GenerateName = "x-"
			m := must(s.Create(p)).(interface {
				GetName() string
			})
			out = append(out, m.GetName())
		}
		return out
	}
	if one, two := strings.Join(names(1), " "), strings.Join(names(1), " "); one != two {
		t.Errorf("%s, %s", one, two)
	}
	if one, other := strings.Join(names(1), " "), strings.Join(names(2), " "); one == other {
		t.Errorf("another seed also gave %s", one)
	}
}
