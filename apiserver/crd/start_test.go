package crd_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/apiserver/crd"
)

// groups counts the groups of startWith, since the process keeps definitions that it has seen.
var groups atomic.Int64

// startWith starts a server, loads n definitions of a group and lists the objects of the last.
func startWith(t testing.TB, group, definition string, n int) {
	t.Helper()
	s, err := apiserver.New(apiserver.Options{Schemas: crd.Schemas()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	path := "/api/v1/pods"
	var all []runtime.Object
	for i := range n {
		plural := fmt.Sprintf("dams%d", i)
		all = append(all, decode(t, strings.NewReplacer(`"dams`, `"`+plural, `"Dam"`, fmt.Sprintf(`"Dam%d"`, i), `"dm"`, fmt.Sprintf(`"dm%d"`, i), "example.com", group).Replace(definition)))
		path = "/apis/" + group + "/v1/" + plural
	}
	if err := s.LoadObjects(all...); err != nil {
		t.Fatal(err)
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

// starts are what TestStart and BenchmarkStart measure: definitions that the process has not
// seen, and those of an earlier server.
var starts = []struct {
	name       string
	definition string
	n          int
}{{"none", "", 0}, {"one", damDefinition, 1}, {"50 plain", plain, 50}, {"50 with rules", damDefinition, 50}}

func newGroup() string { return fmt.Sprintf("g%d.example.com", groups.Add(1)) }

// TestStart logs how long a server takes to its first answer.
func TestStart(t *testing.T) {
	startWith(t, "", "", 0) // what the first server of a process initializes
	for _, c := range starts {
		group := newGroup()
		for _, which := range []string{"new", "known"} {
			began := time.Now()
			startWith(t, group, c.definition, c.n)
			t.Logf("%s definitions, %s: %v", c.name, which, time.Since(began))
		}
	}
}

func BenchmarkStart(b *testing.B) {
	for _, c := range starts {
		b.Run("definitions="+c.name+"/new", func(b *testing.B) {
			for b.Loop() {
				startWith(b, newGroup(), c.definition, c.n)
			}
		})
		b.Run("definitions="+c.name+"/known", func(b *testing.B) {
			group := newGroup()
			startWith(b, group, c.definition, c.n)
			for b.Loop() {
				startWith(b, group, c.definition, c.n)
			}
		})
	}
}

// A definition that one server has accepted is not validated or compiled again by another.
func TestServersOfAProcessShareSchemas(t *testing.T) {
	d := new(apiextensionsv1.CustomResourceDefinition)
	if err := json.Unmarshal([]byte(strings.ReplaceAll(damDefinition, "example.com", newGroup())), d); err != nil {
		t.Fatal(err)
	}
	compile := func() apiserver.Schema {
		schemas, err := crd.Schemas().Compile(d)
		if err != nil {
			t.Fatal(err)
		}
		return schemas["v1"]
	}
	first := compile()
	if compile() != first {
		t.Error("the definition was compiled twice")
	}
	d.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["added"] = apiextensionsv1.JSONSchemaProps{Type: "string"}
	if compile() == first {
		t.Error("a changed definition has the schema of the one before")
	}
}
