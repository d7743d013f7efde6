package crd_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/apiserver/crd"
	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	dams        = "/apis/example.com/v1/namespaces/default/dams"
)

// damDefinition has two versions; v1beta1 has no spec.owner.
const damDefinition = `{
"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "dams.example.com"},
"spec": {
  "group": "example.com", "scope": "Namespaced",
  "names": {"plural": "dams", "kind": "Dam", "shortNames": ["dm"]},
  "versions": [
    {"name": "v1", "served": true, "storage": true,
     "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.gates", "statusReplicasPath": ".status.gates", "labelSelectorPath": ".status.selector"}},
     "selectableFields": [{"jsonPath": ".spec.river"}],
     "additionalPrinterColumns": [
       {"name": "River", "type": "string", "jsonPath": ".spec.river", "description": "where it is"},
       {"name": "Open", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Open\")].status"},
       {"name": "Gates", "type": "integer", "jsonPath": ".spec.gates"}],
     "schema": {"openAPIV3Schema": {"type": "object", "description": "Dam holds back a river.", "properties": {
       "spec": {"type": "object", "required": ["river"],
         "x-kubernetes-validations": [{"rule": "self.low <= self.high", "message": "low must not be above high"}],
         "properties": {
           "river": {"type": "string", "maxLength": 20, "description": "The river that it holds back.",
             "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "a dam cannot be moved"}]},
           "kind": {"type": "string", "enum": ["Arch", "Gravity"], "default": "Gravity"},
           "gates": {"type": "integer", "minimum": 0, "default": 2},
           "low": {"type": "integer", "default": 0},
           "high": {"type": "integer", "default": 100},
           "owner": {"type": "string"},
           "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
           "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
           "turbines": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
             "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "power": {"type": "integer"}}}}}},
       "status": {"type": "object", "properties": {
         "gates": {"type": "integer"}, "selector": {"type": "string"}, "level": {"type": "integer", "maximum": 100},
         "conditions": {"type": "array", "items": {"type": "object", "properties": {"type": {"type": "string"}, "status": {"type": "string"}}}}}}}}}},
    {"name": "v1beta1", "served": true, "storage": false, "deprecated": true,
     "schema": {"openAPIV3Schema": {"type": "object", "properties": {
       "spec": {"type": "object", "properties": {"river": {"type": "string"}, "gates": {"type": "integer"}, "colour": {"type": "string", "default": "grey"}}}}}}}
  ]}}`

// response is an HTTP response, decoded from JSON.
type response struct {
	*unstructured.Unstructured
	code     int
	raw      string
	warnings string
}

func do(t testing.TB, s *apiserver.Server, method, path, body string, headers ...string) response {
	t.Helper()
	cfg := s.MemoryConfig()
	req, err := http.NewRequestWithContext(t.Context(), method, cfg.Host+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := cfg.Transport.RoundTrip(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	r := response{Unstructured: new(unstructured.Unstructured), code: resp.StatusCode, raw: string(raw), warnings: strings.Join(resp.Header.Values("Warning"), "; ")}
	_ = json.Unmarshal(raw, &r.Object) // some responses are not JSON
	return r
}

// ok checks that a request succeeded.
func (r response) ok(t testing.TB) response {
	t.Helper()
	if r.code/100 != 2 {
		t.Fatalf("got %d %s", r.code, r.raw)
	}
	return r
}

// refused checks that the response is an API error with a message.
func (r response) refused(t testing.TB, code int, messages ...string) {
	t.Helper()
	got, _, _ := unstructured.NestedString(r.Object, "message")
	for _, want := range messages {
		if r.code != code || !strings.Contains(got, want) {
			t.Errorf("got %d %q, want %d and %q", r.code, got, code, want)
		}
	}
}

// at checks a field, as JSON.
func (r response) at(t testing.TB, want string, path ...string) {
	t.Helper()
	v, _, _ := unstructured.NestedFieldNoCopy(r.Object, path...)
	got, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is %s, want %s", strings.Join(path, "."), got, want)
	}
}

func start(t testing.TB) *apiserver.Server {
	t.Helper()
	s := apiserver.Start(t, apiserver.Options{Schemas: crd.Schemas()})
	do(t, s, http.MethodPost, definitions, damDefinition).ok(t)
	return s
}

func dam(name, spec string) string {
	return `{"apiVersion":"example.com/v1","kind":"Dam","metadata":{"name":"` + name + `"},"spec":` + spec + `}`
}

const merge, apply = "application/merge-patch+json", "application/apply-patch+yaml"

func decode(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	u := new(unstructured.Unstructured)
	if err := u.UnmarshalJSON([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return u
}
