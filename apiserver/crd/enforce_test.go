package crd_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/apiserver/crd"
	"github.com/tarnproject/tarn/object"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestObjectsArePrunedAndDefaulted(t *testing.T) {
	s := start(t)
	const spec = `{"river":"Enns","depth":3,"any":{"x":1},"owner":null}`
	for _, r := range []response{
		do(t, s, http.MethodPost, dams, dam("a", spec)).ok(t),
		do(t, s, http.MethodPut, dams+"/a", strings.Replace(dam("a", spec), `"name"`, `"resourceVersion":"`+do(t, s, http.MethodGet, dams+"/a", "").GetResourceVersion()+`","name"`, 1)).ok(t),
		do(t, s, http.MethodPatch, dams+"/a", `{"spec":{"depth":4}}`, "Content-Type", merge).ok(t),
	} {
		r.at(t, `{"any":{"x":1},"gates":2,"high":100,"kind":"Gravity","low":0,"river":"Enns"}`, "spec")
		if want := `299 - "unknown field \"spec.depth\""`; r.warnings != want {
			t.Errorf("warnings are %s, want %s", r.warnings, want)
		}
	}
	applied := do(t, s, http.MethodPatch, dams+"/b?fieldManager=x", dam("b", `{"river":"Enns"}`), "Content-Type", apply).ok(t)
	applied.at(t, `"Gravity"`, "spec", "kind")
	do(t, s, http.MethodPatch, dams+"/b?fieldManager=x", dam("b", spec), "Content-Type", apply).refused(t, http.StatusInternalServerError, ".spec.depth: field not declared in schema")
	do(t, s, http.MethodPost, dams+"?fieldValidation=Strict", dam("c", `{"river":"Enns","depth":3,"low":1,"low":2}`)).
		refused(t, http.StatusBadRequest, `unknown field "spec.depth"`, `duplicate field "spec.low"`)
	if r := do(t, s, http.MethodPost, dams+"?fieldValidation=Ignore", dam("c", spec)).ok(t); r.warnings != "" {
		t.Errorf("warnings are %s, want none", r.warnings)
	}
}

func TestObjectsAreValidated(t *testing.T) {
	s := start(t)
	for spec, want := range map[string]string{
		`{}`:                                          "spec.river: Required value",
		`{"river":1}`:                                 `spec.river: Invalid value: "integer": spec.river in body must be of type string: "integer"`,
		`{"river":"Enns","kind":"Earth"}`:             `spec.kind: Unsupported value: "Earth": supported values: "Arch", "Gravity"`,
		`{"river":"Enns","gates":-1}`:                 "spec.gates in body should be greater than or equal to 0",
		`{"river":"Enns","low":9,"high":3}`:           "spec: Invalid value: low must not be above high",
		`{"river":"Enns","tags":["a","a"]}`:           `spec.tags[1]: Duplicate value: "a"`,
		`{"river":"` + strings.Repeat("e", 21) + `"}`: "spec.river: Too long: may not be more than 20 bytes",
		`{"river":"Enns","turbines":[{"name":"a"},{"name":"a"}]}`: `spec.turbines[1]: Duplicate value: {"name":"a"}`,
	} {
		do(t, s, http.MethodPost, dams, dam("bad", spec)).refused(t, http.StatusUnprocessableEntity, want)
	}
	do(t, s, http.MethodPost, dams, dam("a", `{"river":"Enns"}`)).ok(t)
	do(t, s, http.MethodPatch, dams+"/a", `{"spec":{"river":"Inn"}}`, "Content-Type", merge).refused(t, http.StatusUnprocessableEntity, "a dam cannot be moved")
	do(t, s, http.MethodPatch, dams+"/a/status", `{"status":{"level":101}}`, "Content-Type", merge).refused(t, http.StatusUnprocessableEntity, "status.level: Invalid value: 101: level in body should be less than or equal to 100")
	do(t, s, http.MethodPatch, dams+"/a/scale", `{"spec":{"replicas":7}}`, "Content-Type", merge).ok(t).at(t, "7", "spec", "replicas")

	// In-process writes are validated too, and so is the status that they include.
	for _, broken := range []string{dam("b", `{}`), strings.Replace(dam("b", `{"river":"Enns"}`), `"spec"`, `"status":{"level":101},"spec"`, 1)} {
		if _, err := s.Create(decode(t, broken)); err == nil {
			t.Errorf("%s was created", broken)
		}
	}
	got, err := s.Create(decode(t, dam("b", `{"river":"Enns"}`)))
	if err != nil {
		t.Fatal(err)
	}
	u := got.DeepCopyObject().(*unstructured.Unstructured)
	u.Object["status"] = map[string]any{"level": int64(101)}
	if _, err := s.Update(u); err == nil {
		t.Error("an invalid status was stored")
	}
}

// An update may keep what the schema no longer allows, as long as it does not change it.
func TestUpdatesAreRatcheted(t *testing.T) {
	s := start(t)
	do(t, s, http.MethodPost, dams, dam("a", `{"river":"Enns","kind":"Arch","low":5,"high":50}`)).ok(t)
	stricter := strings.NewReplacer(`["Arch", "Gravity"]`, `["Gravity"]`, "self.low <= self.high", "self.low > self.high").Replace(damDefinition)
	replaceDefinition(t, s, stricter)
	do(t, s, http.MethodPatch, dams+"/a", `{"metadata":{"labels":{"a":"b"}}}`, "Content-Type", merge).ok(t)
	do(t, s, http.MethodPatch, dams+"/a", `{"spec":{"gates":3}}`, "Content-Type", merge).refused(t, http.StatusUnprocessableEntity, "low must not be above high")
	do(t, s, http.MethodPatch, dams+"/a", `{"spec":{"gates":3,"low":60}}`, "Content-Type", merge).ok(t).at(t, `"Arch"`, "spec", "kind")
}

func replaceDefinition(t *testing.T, s *apiserver.Server, text string) {
	t.Helper()
	u := decode(t, text)
	u.SetResourceVersion(do(t, s, http.MethodGet, definitions+"/"+u.GetName(), "").ok(t).GetResourceVersion())
	raw, err := u.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	do(t, s, http.MethodPut, definitions+"/"+u.GetName(), string(raw)).ok(t)
}

// Objects are stored by the schema of the storage version and served by that of the
// requested one.
func TestEachVersionHasItsSchema(t *testing.T) {
	s := start(t)
	beta := strings.Replace(dams, "v1", "v1beta1", 1)
	do(t, s, http.MethodPost, dams, dam("a", `{"river":"Enns","owner":"me"}`)).ok(t)
	r := do(t, s, http.MethodGet, beta+"/a", "").ok(t)
	r.at(t, `{"colour":"grey","gates":2,"river":"Enns"}`, "spec")
	r.at(t, `"example.com/v1beta1"`, "apiVersion")
	if want := `299 - "example.com/v1beta1 Dam is deprecated; use example.com/v1 Dam"`; r.warnings != want {
		t.Errorf("warnings are %s, want %s", r.warnings, want)
	}
	// v1beta1 has neither the owner nor a status subresource. A write through it drops the owner.
	r = do(t, s, http.MethodPatch, beta+"/a", `{"spec":{"colour":"red"},"status":{"level":1}}`, "Content-Type", merge).ok(t)
	r.at(t, `{"colour":"grey","gates":2,"river":"Enns"}`, "spec") // v1 cannot store the colour
	do(t, s, http.MethodGet, dams+"/a", "").at(t, `{"gates":2,"high":100,"kind":"Gravity","low":0,"river":"Enns"}`, "spec")
	do(t, s, http.MethodGet, beta+"/a/status", "").refused(t, http.StatusNotFound, `dams.example.com "a" not found`)
	do(t, s, http.MethodGet, beta+"/a/scale", "").refused(t, http.StatusNotFound, `dams.example.com "a" not found`)
	do(t, s, http.MethodGet, beta+"?fieldSelector=spec.river%3DEnns", "").refused(t, http.StatusBadRequest, "field label not supported: spec.river")
	if r := do(t, s, http.MethodGet, dams+"?fieldSelector=spec.river%3DEnns", "").ok(t); !strings.Contains(r.raw, `"name":"a"`) {
		t.Errorf("selected %s", r.raw)
	}
	// A new default applies to objects that are stored already.
	replaceDefinition(t, s, strings.Replace(damDefinition, `"owner": {"type": "string"}`, `"owner": {"type": "string", "default": "city"}`, 1))
	do(t, s, http.MethodGet, dams+"/a", "").at(t, `"city"`, "spec", "owner")
	stored, err := s.Get(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "dams"}, object.Key{Namespace: "default", Name: "a"})
	if err != nil {
		t.Fatal(err)
	}
	if owner, _, _ := unstructured.NestedString(stored.(*unstructured.Unstructured).Object, "spec", "owner"); owner != "city" {
		t.Errorf("owner is %q, want city", owner)
	}
}

func TestStatusAndScale(t *testing.T) {
	s := start(t)
	do(t, s, http.MethodPost, dams, strings.Replace(dam("a", `{"river":"Enns"}`), `"spec"`, `"status":{"level":5},"spec"`, 1)).ok(t).at(t, "null", "status")
	r := do(t, s, http.MethodPatch, dams+"/a/status", `{"spec":{"gates":9},"status":{"level":5,"gates":1,"selector":"a=b","more":1}}`, "Content-Type", merge).ok(t)
	r.at(t, `{"gates":1,"level":5,"selector":"a=b"}`, "status")
	r.at(t, "2", "spec", "gates")
	r.at(t, "1", "metadata", "generation")
	r = do(t, s, http.MethodGet, dams+"/a/scale", "").ok(t)
	r.at(t, `{"replicas":2}`, "spec")
	r.at(t, `{"replicas":1,"selector":"a=b"}`, "status")
	do(t, s, http.MethodPatch, dams+"/a/scale", `{"spec":{"replicas":5}}`, "Content-Type", merge).ok(t)
	r = do(t, s, http.MethodGet, dams+"/a", "").ok(t)
	r.at(t, "5", "spec", "gates")
	r.at(t, "2", "metadata", "generation")
}

func TestPrinterColumns(t *testing.T) {
	s := start(t)
	do(t, s, http.MethodPost, dams, dam("a", `{"river":"Enns"}`)).ok(t)
	do(t, s, http.MethodPatch, dams+"/a/status", `{"status":{"conditions":[{"type":"Full","status":"False"},{"type":"Open","status":"True"}]}}`, "Content-Type", merge).ok(t)
	r := do(t, s, http.MethodGet, dams, "", "Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").ok(t)
	for _, want := range []string{`"cells":["a","Enns","True",2]`, `"description":"where it is"`} {
		if !strings.Contains(r.raw, want) {
			t.Errorf("%s not in %s", want, r.raw)
		}
	}
}

// Lists are merged by their list type, and fields that are not declared are refused.
func TestServerSideApplyFollowsTheSchema(t *testing.T) {
	s := start(t)
	// Ownership cannot be converted to a version that does not have a field of the object.
	replaceDefinition(t, s, strings.Replace(damDefinition, `, "colour": {"type": "string", "default": "grey"}`, "", 1))
	by := func(manager, version, spec string) response {
		t.Helper()
		body := strings.Replace(dam("a", spec), "/v1", "/"+version, 1)
		return do(t, s, http.MethodPatch, strings.Replace(dams, "v1", version, 1)+"/a?fieldManager="+manager, body, "Content-Type", apply)
	}
	by("x", "v1", `{"river":"Enns","tags":["x"],"turbines":[{"name":"one","power":1}]}`).ok(t)
	r := by("y", "v1", `{"tags":["y"],"turbines":[{"name":"two","power":2}]}`).ok(t)
	r.at(t, `["x","y"]`, "spec", "tags")
	r.at(t, `[{"name":"one","power":1},{"name":"two","power":2}]`, "spec", "turbines")
	by("y", "v1", `{"turbines":[{"name":"one","power":3}]}`).refused(t, http.StatusConflict, `.spec.turbines[name="one"].power`)
	r = by("x", "v1", `{"river":"Enns","turbines":[{"name":"one","power":4}]}`).ok(t)
	r.at(t, `["y"]`, "spec", "tags")
	// Ownership follows an object through its versions.
	by("z", "v1beta1", `{"river":"Inn"}`).refused(t, http.StatusConflict, `conflict with "x"`)
	r = by("z", "v1beta1", `{"river":"Enns","gates":4}`).ok(t)
	if len(r.GetManagedFields()) != 3 {
		t.Errorf("managed fields are %v", r.GetManagedFields())
	}
	if got := r.GetManagedFields()[2].APIVersion; got != "example.com/v1beta1" {
		t.Errorf("the last apply was in %s", got)
	}
}

func TestExplain(t *testing.T) {
	s := start(t)
	if r := do(t, s, http.MethodGet, "/openapi/v3", "").ok(t); !strings.Contains(r.raw, `"apis/example.com/v1beta1"`) {
		t.Errorf("paths are %s", r.raw)
	}
	r := do(t, s, http.MethodGet, "/openapi/v3/apis/example.com/v1", "").ok(t)
	for _, want := range []string{
		"The river that it holds back.", "Dam holds back a river.", `"/apis/example.com/v1/namespaces/{namespace}/dams/{name}/scale"`,
		`"io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"`, `"x-kubernetes-list-map-keys"`,
	} {
		if !strings.Contains(r.raw, want) {
			t.Errorf("%s not in the document", want)
		}
	}
}

func TestWithoutSchemasObjectsAreStoredAsSent(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{})
	do(t, s, http.MethodPost, definitions, damDefinition).ok(t)
	do(t, s, http.MethodPost, dams, dam("a", `{"depth":3}`)).ok(t).at(t, `{"depth":3}`, "spec")
}

// One value may serve any number of servers, also in different bubbles.
func TestServersShareSchemas(t *testing.T) {
	shared := crd.Schemas()
	for range 2 {
		synctest.Test(t, func(t *testing.T) {
			s := apiserver.Start(t, apiserver.Options{Schemas: shared})
			do(t, s, http.MethodPost, definitions, damDefinition).ok(t)
			do(t, s, http.MethodPost, dams, dam("a", `{"river":"Enns"}`)).ok(t).at(t, "2", "spec", "gates")
			do(t, s, http.MethodPatch, dams+"/a?fieldManager=x", dam("a", `{"river":"Enns"}`), "Content-Type", apply).ok(t)
			do(t, s, http.MethodPost, dams, dam("b", `{"river":"Enns","low":2,"high":1}`)).refused(t, http.StatusUnprocessableEntity, "low must not be above high")
			// An accepted definition is accepted for any server, its metadata is checked for each.
			do(t, s, http.MethodPost, definitions, strings.Replace(damDefinition, `"metadata": {`, `"metadata": {"labels":{"-":"-"},`, 1)).
				refused(t, http.StatusUnprocessableEntity, "metadata.labels: Invalid value")
		})
	}
}
