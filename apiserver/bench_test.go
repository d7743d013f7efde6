package apiserver_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/tarnproject/tarn/apiserver"
)

// BenchmarkStart measures startup, the first request and shutdown, in memory and over TLS.
func BenchmarkStart(b *testing.B) {
	for name, opts := range map[string]apiserver.Options{"memory": {}, "tls": {Address: "127.0.0.1:0", TLS: true}} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				s, stop := running(opts)
				resp, err := send(context.Background(), s, http.MethodGet, "/api/v1/namespaces", "")
				if err != nil {
					b.Fatal(err)
				}
				if _, err := io.Copy(io.Discard, resp.Body); err != nil {
					b.Fatal(err)
				}
				resp.Body.Close()
				stop()
			}
		})
	}
}

// BenchmarkList lists a thousand pods, which are encoded for every list.
func BenchmarkList(b *testing.B) {
	for _, accept := range []string{"application/json", "application/vnd.kubernetes.protobuf"} {
		b.Run(accept, func(b *testing.B) {
			s := apiserver.Start(b, apiserver.Options{})
			for i := range 1000 {
				fill(b, s, pod(fmt.Sprintf("p%04d", i), "tier", "web"))
			}
			for b.Loop() {
				a := do(b, s, http.MethodGet, "/api/v1/pods", "", "Accept", accept)
				b.SetBytes(int64(len(a.raw)))
			}
			b.ReportMetric(float64(b.N)*1000/b.Elapsed().Seconds(), "objects/s")
		})
	}
}

// BenchmarkWatch writes a pod and reads its event, with a number of other watches open.
func BenchmarkWatch(b *testing.B) {
	for _, others := range []int{0, 100} {
		b.Run(fmt.Sprint(others, " others"), func(b *testing.B) {
			s := apiserver.Start(b, apiserver.Options{})
			fill(b, s, pod("a"))
			path := pods + "?watch=1&resourceVersion=" + version(s)
			for range others {
				resp := open(b, s, http.MethodGet, path, "")
				go io.Copy(io.Discard, resp.Body)
				b.Cleanup(func() { resp.Body.Close() })
			}
			resp := open(b, s, http.MethodGet, path, "")
			defer resp.Body.Close()
			lines := bufio.NewReader(resp.Body)
			n := 0
			for b.Loop() {
				n++
				relabel(b, s, "a", fmt.Sprint("n", n))
				if _, err := lines.ReadSlice('\n'); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

// BenchmarkWrite creates a pod, patches its label and its status, and deletes it.
func BenchmarkWrite(b *testing.B) {
	s := apiserver.Start(b, apiserver.Options{Strict: true})
	const body = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","labels":{"app":"x"}},"spec":{"containers":[{"name":"x","image":"x:1",` +
		`"env":[{"name":"A","value":"b"}],"ports":[{"containerPort":80}],"resources":{"requests":{"cpu":"1"}}}]}}`
	const status = `{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`
	for b.Loop() {
		for _, a := range []response{
			do(b, s, http.MethodPost, pods, body),
			do(b, s, http.MethodPatch, pods+"/a", `{"metadata":{"labels":{"app":"y"}}}`, "Content-Type", mergePatch),
			do(b, s, http.MethodPatch, pods+"/a/status", status, "Content-Type", mergePatch),
			do(b, s, http.MethodDelete, pods+"/a", ""),
		} {
			if a.code >= 300 {
				b.Fatal(a.raw)
			}
		}
	}
	b.ReportMetric(float64(b.N)*4/b.Elapsed().Seconds(), "writes/s")
}
