package apiserver

import (
	"io"
	"net/http"
	"testing"
	"testing/synctest"
)

func TestAProcessForgetsClosedConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Start(t, Options{})
		p := s.Process("controller")
		client := &http.Client{Transport: p.transport}
		ask := func(last bool) {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, memoryHost+"/version", nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Close = last
			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
		open := func(want int) {
			t.Helper()
			synctest.Wait()
			p.mu.Lock()
			defer p.mu.Unlock()
			if got := len(p.conns); got != want {
				t.Errorf("%d connections are held, want %d", got, want)
			}
		}
		for range 20 {
			ask(true)
		}
		open(0)
		ask(false)
		open(1)
		p.Kill()
		open(0)
	})
}
