package crd_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/apiserver/crd"
)

// startWith starts a server with n definitions and lists the objects of the last.
func startWith(t testing.TB, schemas apiserver.Schemas, n int) {
	s, err := apiserver.New(apiserver.Options{Schemas: schemas})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	path := "/api/v1/pods"
	for i := range n {
		plural := fmt.Sprintf("dams%d", i)
		u := decode(t, strings.NewReplacer(`"dams`, `"`+plural, `"Dam"`, fmt.Sprintf(`"Dam%d"`, i), `"dm"`, fmt.Sprintf(`"dm%d"`, i)).Replace(damDefinition))
		if _, err := s.Create(u); err != nil {
			t.Fatal(err)
		}
		path = "/apis/example.com/v1/" + plural
	}
	w := &discard{header: http.Header{}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if s.ServeHTTP(w, req); w.code != http.StatusOK {
		t.Fatalf("%s: %d", path, w.code)
	}
}

// discard is an [http.ResponseWriter] that keeps the status only.
type discard struct {
	header http.Header
	code   int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }
func (d *discard) WriteHeader(code int)        { d.code = code }

// TestStart logs how long a server takes to its first answer.
func TestStart(t *testing.T) {
	for _, n := range []int{0, 0, 1, 50, 50} {
		began := time.Now()
		startWith(t, crd.Schemas(), n)
		t.Logf("%d definitions: %v", n, time.Since(began))
	}
}

func BenchmarkStart(b *testing.B) {
	for _, n := range []int{0, 1, 50} {
		b.Run(fmt.Sprintf("definitions=%d", n), func(b *testing.B) {
			for b.Loop() {
				startWith(b, crd.Schemas(), n)
			}
		})
	}
}
