package crd_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/apiserver/crd"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestDefinitionsAreValidated(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{Schemas: crd.Schemas()})
	for change, want := range map[[2]string]string{
		{`"gates": {"type": "integer", "minimum": 0, "default": 2}`, `"gates": {"minimum": 0}`}: "spec.versions[0].schema.openAPIV3Schema.properties[spec].properties[gates].type: Required value: must not be empty for specified object fields",
		{"self.low <= self.high", "self.low <= self.top"}:                                       "undefined field 'top'",
		{`"default": "Gravity"`, `"default": "Earth"`}:                                          `properties[kind].default: Unsupported value: "Earth": supported values: "Arch", "Gravity"`,
		{`"storage": true`, `"storage": false`}:                                                 "must have exactly one version marked as storage version",
		{`"name": "dams.example.com"`, `"name": "ponds.example.com"`}:                           `metadata.name: Invalid value: "ponds.example.com": must be spec.names.plural+"."+spec.group`,
		{`"scope": "Namespaced"`, `"scope": "Galaxy"`}:                                          `spec.scope: Unsupported value: "Galaxy"`,
		{`"jsonPath": ".spec.river"}]`, `"jsonPath": ".spec.turbines"}]`}:                       "spec.versions[0].selectableFields[0].jsonPath: Invalid value",
	} {
		text := strings.Replace(damDefinition, change[0], change[1], 1)
		if text == damDefinition {
			t.Fatalf("%s is not in the definition", change[0])
		}
		do(t, s, http.MethodPost, definitions, text).refused(t, http.StatusUnprocessableEntity, want)
	}
	do(t, s, http.MethodPost, definitions, strings.Replace(damDefinition, `"scope"`, `"colour": "red", "scope"`, 1)).ok(t)
}

func TestDefinitionsAreDefaultedAndEstablished(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{Schemas: crd.Schemas()})
	r := do(t, s, http.MethodPost, definitions, strings.Replace(damDefinition, `"scope"`, `"colour": "red", "scope"`, 1)).ok(t)
	if want := `299 - "unknown field \"spec.colour\""`; r.warnings != want {
		t.Errorf("warnings are %s, want %s", r.warnings, want)
	}
	r.at(t, `{"kind":"","plural":""}`, "status", "acceptedNames") // until controllers have run
	r = do(t, s, http.MethodGet, definitions+"/dams.example.com", "").ok(t)
	const names = `{"kind":"Dam","listKind":"DamList","plural":"dams","shortNames":["dm"],"singular":"dam"}`
	r.at(t, names, "spec", "names")
	r.at(t, names, "status", "acceptedNames")
	r.at(t, `"None"`, "spec", "conversion", "strategy")
	r.at(t, `["v1"]`, "status", "storedVersions")
	if !strings.Contains(r.raw, `"type":"NamesAccepted"`) || !strings.Contains(r.raw, `"type":"Established"`) {
		t.Errorf("status is %v", r.Object["status"])
	}

	// The storage version may change. The old one must stay until it is removed from the status.
	moved := strings.NewReplacer(`"storage": true`, `"storage": false`, `"storage": false`, `"storage": true`).Replace(damDefinition)
	replaceDefinition(t, s, moved)
	path := definitions + "/dams.example.com"
	do(t, s, http.MethodGet, path, "").at(t, `["v1","v1beta1"]`, "status", "storedVersions")
	drop := `[{"op":"remove","path":"/spec/versions/0"}]`
	do(t, s, http.MethodPatch, path, drop, "Content-Type", "application/json-patch+json").
		refused(t, http.StatusUnprocessableEntity, `status.storedVersions[0]: Invalid value: "v1": missing from spec.versions`)
	do(t, s, http.MethodPatch, path+"/status", `{"status":{"storedVersions":["v1beta1"]}}`, "Content-Type", merge).ok(t)
	do(t, s, http.MethodPatch, path, drop, "Content-Type", "application/json-patch+json").ok(t)
	if r := do(t, s, http.MethodGet, dams, ""); r.code != http.StatusNotFound {
		t.Errorf("the removed version answers %d", r.code)
	}

	// Names cannot change once they are established.
	do(t, s, http.MethodPatch, path, `{"spec":{"names":{"kind":"Weir"}}}`, "Content-Type", merge).
		refused(t, http.StatusUnprocessableEntity, "spec.names.kind: Invalid value: \"Weir\": field is immutable")
}

// The manifest of a definition has no status, and that of an old controller-gen an empty one.
func TestLoadKeepsWhatTheServerRecordedOfADefinition(t *testing.T) {
	s := start(t)
	const empty = `"status": {"acceptedNames": {"kind": "", "plural": ""}, "conditions": [], "storedVersions": []}, "spec"`
	path := definitions + "/dams.example.com"
	moved := strings.NewReplacer(`"storage": true`, `"storage": false`, `"storage": false`, `"storage": true`).Replace(damDefinition)
	for i, write := range []func(*unstructured.Unstructured) error{
		func(u *unstructured.Unstructured) error { return s.LoadObjects(u) },
		func(u *unstructured.Unstructured) error { _, err := s.Update(u); return err },
	} {
		mine := fmt.Sprintf(`[{"op":"add","path":"/status/conditions/-","value":{"type":"Mine%d","status":"True","lastTransitionTime":"2024-01-01T00:00:00Z","reason":"x","message":"y"}}]`, i)
		do(t, s, http.MethodPatch, path+"/status", mine, "Content-Type", "application/json-patch+json").ok(t)
		for _, text := range []string{moved, strings.Replace(moved, `"spec"`, empty, 1)} {
			if err := write(decode(t, text)); err != nil {
				t.Fatal(err)
			}
			r := do(t, s, http.MethodGet, path, "").ok(t)
			r.at(t, `["v1","v1beta1"]`, "status", "storedVersions")
			if want := fmt.Sprintf(`"type":"Mine%d"`, i); !strings.Contains(r.raw, want) || strings.Count(r.raw, `"type":"Established"`) != 1 {
				t.Errorf("no condition %s in %v", want, r.Object["status"])
			}
		}
		without := decode(t, moved)
		versions, _, _ := unstructured.NestedSlice(without.Object, "spec", "versions")
		if err := unstructured.SetNestedSlice(without.Object, versions[1:], "spec", "versions"); err != nil {
			t.Fatal(err)
		}
		const want = `status.storedVersions[0]: Invalid value: "v1": missing from spec.versions`
		if err := write(without); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %s", err, want)
		}
	}
}

// envtest's option CRDs has this Go type, and most callers set no TypeMeta.
func TestLoadTypedDefinitions(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{Schemas: crd.Schemas()})
	typed := new(apiextensionsv1.CustomResourceDefinition)
	if err := json.Unmarshal([]byte(damDefinition), typed); err != nil {
		t.Fatal(err)
	}
	typed.TypeMeta = metav1.TypeMeta{}
	if err := s.LoadObjects(decode(t, dam("high", `{"river": "Rhine", "low": 1, "high": 2}`)), typed); err != nil {
		t.Fatal(err)
	}
	do(t, s, http.MethodGet, dams+"/high", "").ok(t).at(t, "2", "spec", "gates") // the default of the schema
	if _, err := s.Update(typed); err != nil {
		t.Error(err)
	}
	if err := s.LoadObjects((*apiextensionsv1.CustomResourceDefinition)(nil)); err == nil {
		t.Error("nil was loaded")
	}
}

// A definition is served once no other definition of its group has one of its names.
func TestNamesOfAGroupAreUnique(t *testing.T) {
	s := start(t)
	other := strings.NewReplacer(`"dams`, `"weirs`, `"Dam"`, `"Weir"`).Replace(damDefinition)
	do(t, s, http.MethodPost, definitions, other).ok(t)
	r := do(t, s, http.MethodGet, definitions+"/weirs.example.com", "").ok(t)
	r.at(t, `{"kind":"Weir","listKind":"WeirList","plural":"weirs","singular":"weir"}`, "status", "acceptedNames")
	for _, want := range []string{
		`"reason":"ShortNamesConflict","message":"\"dm\" is already in use"`, `"reason":"NotAccepted"`,
	} {
		if !strings.Contains(r.raw, want) {
			t.Errorf("%s not in %s", want, r.raw)
		}
	}
	weirs := strings.Replace(dams, "dams", "weirs", 1)
	if r := do(t, s, http.MethodGet, weirs, ""); r.code != http.StatusNotFound {
		t.Errorf("got %d before its names are accepted", r.code)
	}
	do(t, s, http.MethodDelete, definitions+"/dams.example.com", "").ok(t)
	do(t, s, http.MethodGet, definitions+"/weirs.example.com", "").ok(t).at(t, `["dm"]`, "status", "acceptedNames", "shortNames")
	do(t, s, http.MethodGet, weirs, "").ok(t)
}

func TestDeletingADefinitionDeletesItsObjects(t *testing.T) {
	s := start(t)
	// The storage version is no longer served.
	beta := strings.Replace(dams, "v1", "v1beta1", 1)
	do(t, s, http.MethodPost, dams, dam("a", `{"river":"Enns"}`)).ok(t)
	replaceDefinition(t, s, strings.Replace(damDefinition, `"served": true`, `"served": false`, 1))
	do(t, s, http.MethodGet, beta+"/a", "").ok(t)
	do(t, s, http.MethodDelete, definitions+"/dams.example.com", "").ok(t)
	if r := do(t, s, http.MethodGet, beta, ""); r.code != http.StatusNotFound {
		t.Errorf("got %d", r.code)
	}
	do(t, s, http.MethodPost, definitions, damDefinition).ok(t)
	do(t, s, http.MethodGet, dams, "").ok(t).at(t, "[]", "items")
}
