package crd_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/apiserver/crd"
)

// startWith starts a server with n definitions and lists the objects of the last.
func startWith(t testing.TB, schemas apiserver.Schemas, definition string, n int) {
	t.Helper()
	s, err := apiserver.New(apiserver.Options{Schemas: schemas})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	path := "/api/v1/pods"
	for i := range n {
		plural := fmt.Sprintf("dams%d", i)
		u := decode(t, strings.NewReplacer(`"dams`, `"`+plural, `"Dam"`, fmt.Sprintf(`"Dam%d"`, i), `"dm"`, fmt.Sprintf(`"dm%d"`, i)).Replace(definition))
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

// plain is the definition without CEL rules, which take most of the time.
var plain = regexp.MustCompile(`"x-kubernetes-validations": \[[^\]]*\],?`).ReplaceAllString(strings.ReplaceAll(damDefinition, `"The river that it holds back.",`, `"The river that it holds back."`), "")

// starts are what TestStart and BenchmarkStart measure: schemas that are new or shared with
// an earlier server.
var starts = []struct {
	name       string
	definition string
	n          int
}{{"none", "", 0}, {"one", damDefinition, 1}, {"50 plain", plain, 50}, {"50 with rules", damDefinition, 50}}

// TestStart logs how long a server takes to its first answer.
func TestStart(t *testing.T) {
	startWith(t, nil, "", 0) // what the first server of a process initializes
	for _, c := range starts {
		schemas := crd.Schemas()
		for _, which := range []string{"new", "shared"} {
			began := time.Now()
			startWith(t, schemas, c.definition, c.n)
			t.Logf("%s definitions, %s schemas: %v", c.name, which, time.Since(began))
		}
	}
}

func BenchmarkStart(b *testing.B) {
	for _, c := range starts {
		b.Run("definitions="+c.name+"/schemas=new", func(b *testing.B) {
			for b.Loop() {
				startWith(b, crd.Schemas(), c.definition, c.n)
			}
		})
		b.Run("definitions="+c.name+"/schemas=shared", func(b *testing.B) {
			schemas := crd.Schemas()
			startWith(b, schemas, c.definition, c.n)
			for b.Loop() {
				startWith(b, schemas, c.definition, c.n)
			}
		})
	}
}
