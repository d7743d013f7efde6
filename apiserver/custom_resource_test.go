package apiserver_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/tarnproject/tarn/apiserver"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const lakeDefinition = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"lakes.example.com"},
"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"lakes","singular":"lake","kind":"Lake","shortNames":["lk"]},
"versions":[{"name":"v1","served":true,"storage":true,"subresources":{"status":{}},"selectableFields":[{"jsonPath":".spec.colour"}],
"additionalPrinterColumns":[{"name":"Depth","type":"integer","jsonPath":".spec.depth"},{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}]},
{"name":"v1beta1","served":true,"storage":false},{"name":"v1alpha1","served":false,"storage":false}]}}`

const (
	definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	lakePath    = "/apis/example.com/v1/namespaces/default/lakes"
)

func TestAPostedCRDIsServedUntilItIsDeleted(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{})
	if a := get(t, s, lakePath); a.code != http.StatusNotFound {
		t.Fatalf("before: %d", a.code)
	}
	a := do(t, s, http.MethodPost, definitions, lakeDefinition)
	if a.code != http.StatusCreated || !strings.Contains(a.raw, `"conditions":null`) {
		t.Fatalf("got %d %s", a.code, a.raw)
	}
	if a := get(t, s, definitions+"/lakes.example.com"); !strings.Contains(a.raw, `"type":"Established"`) {
		t.Fatalf("got %s", a.raw)
	}
	const blue = `{"apiVersion":"example.com/v1","kind":"Lake","metadata":{"name":"blue"},"spec":{"colour":"blue","depth":30},"status":{"full":true}}`
	if a := do(t, s, http.MethodPost, lakePath, blue); a.code != http.StatusCreated || strings.Contains(a.raw, "full") {
		t.Fatalf("got %d %s", a.code, a.raw)
	}
	beta := strings.Replace(lakePath, "v1", "v1beta1", 1)
	if a := get(t, s, beta+"/blue"); a.at("apiVersion") != "example.com/v1beta1" || a.at("spec", "depth") != "30" {
		t.Errorf("another version: %s", a.raw)
	}
	if a := get(t, s, beta); a.at("apiVersion") != "example.com/v1beta1" || !strings.Contains(a.raw, `"items":[{"apiVersion":"example.com/v1beta1"`) {
		t.Errorf("a list of another version: %s", a.raw)
	}
	w := watching(t, s, beta+"?watch=1&resourceVersion=16")
	green := strings.NewReplacer("blue", "green", "/v1", "/v1beta1").Replace(blue)
	if a := do(t, s, http.MethodPost, beta, green); a.code != http.StatusCreated || a.at("apiVersion") != "example.com/v1beta1" {
		t.Errorf("created by another version: %s", a.raw)
	}
	w.expect(t, "ADDED green 17")
	if a := get(t, s, lakePath+"?fieldSelector=spec.colour%3Dgreen"); strings.Join(a.names(), " ") != "green" {
		t.Errorf("selected %v", a.names())
	}
	if a := get(t, s, strings.Replace(lakePath, "v1", "v1alpha1", 1)); a.code != http.StatusNotFound {
		t.Errorf("a version that is not served: %d", a.code)
	}
	table := do(t, s, http.MethodGet, lakePath, "", "Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
	if !strings.Contains(table.raw, `"cells":["blue",30,"`) {
		t.Errorf("table: %s", table.raw)
	}
	if a := do(t, s, http.MethodGet, lakePath, "", "Accept", "application/vnd.kubernetes.protobuf"); a.code != http.StatusNotAcceptable {
		t.Errorf("custom resources have no protobuf: %d", a.code)
	}
	// A definition can be updated while objects exist.
	if a := do(t, s, http.MethodPatch, definitions+"/lakes.example.com", `{"spec":{"names":{"shortNames":["lk","tarn"]}}}`, "Content-Type", "application/merge-patch+json"); a.code != http.StatusOK {
		t.Fatalf("patched: %s", a.raw)
	}
	if a := get(t, s, lakePath); len(a.names()) != 2 {
		t.Errorf("after a change there are %v", a.names())
	}
	if a := get(t, s, "/apis/example.com/v1"); !strings.Contains(a.raw, `"shortNames":["lk","tarn"]`) {
		t.Errorf("discovery: %s", a.raw)
	}
	if a := do(t, s, http.MethodDelete, definitions+"/lakes.example.com", ""); a.code != http.StatusOK {
		t.Fatalf("deleted: %s", a.raw)
	}
	if a := get(t, s, lakePath); a.code != http.StatusNotFound {
		t.Errorf("afterwards: %d", a.code)
	}
	do(t, s, http.MethodPost, definitions, lakeDefinition)
	if a := get(t, s, lakePath); a.code != http.StatusOK || len(a.names()) != 0 {
		t.Errorf("defined again: %s", a.raw)
	}
}

func TestADeletedCRDRemainsUntilItsObjectsAreRemoved(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{})
	do(t, s, http.MethodPost, definitions, lakeDefinition)
	lake := func(name, finalizers string) string {
		return `{"apiVersion":"example.com/v1","kind":"Lake","metadata":{"name":"` + name + `","finalizers":[` + finalizers + `]}}`
	}
	do(t, s, http.MethodPost, lakePath, lake("blue", ""))
	do(t, s, http.MethodPost, lakePath, lake("green", `"example.com/f"`))
	for range 2 { // the second deletion changes nothing
		a := do(t, s, http.MethodDelete, definitions+"/lakes.example.com", "")
		if a.code != http.StatusOK || a.at("kind") != "CustomResourceDefinition" || a.at("metadata", "deletionTimestamp") == "" || !strings.Contains(a.raw, `"type":"Terminating"`) {
			t.Fatalf("deleted: %s", a.raw)
		}
	}
	if a := get(t, s, lakePath); strings.Join(a.names(), " ") != "green" {
		t.Errorf("there remain %v", a.names())
	}
	do(t, s, http.MethodPost, lakePath, lake("red", "")).refused(t, http.StatusForbidden, "Forbidden", "create not allowed while custom resource definition is terminating")
	do(t, s, http.MethodPost, definitions, lakeDefinition).refused(t, http.StatusConflict, "AlreadyExists", "object is being deleted")
	do(t, s, http.MethodPatch, lakePath+"/green", `{"metadata":{"finalizers":null}}`, "Content-Type", "application/merge-patch+json")
	for _, path := range []string{lakePath, definitions + "/lakes.example.com"} {
		if a := get(t, s, path); a.code != http.StatusNotFound {
			t.Errorf("%s: %s", path, a.raw)
		}
	}
}

func TestAnInvalidCRDIsRejected(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{})
	wrong := strings.Replace(lakeDefinition, `"name":"lakes.example.com"`, `"name":"ponds.example.com"`, 1)
	do(t, s, http.MethodPost, definitions, wrong).refused(t, http.StatusUnprocessableEntity, "Invalid", "spec.names.plural")
	for want, d := range map[string]apiserver.Definition{
		"are required": {}, "is a built-in resource": {Resource: deployments}, "lower case": {Resource: capital},
	} {
		if err := s.Define(d); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// A definition of a built-in resource is stored, as kube-apiserver does, and its deletion does not delete
// the resource.
func TestADefinitionOfABuiltInResourceHasNoEffect(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{})
	fill(t, s, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}})
	text := strings.NewReplacer("example.com", "apps", "lakes", "deployments", "Lake", "Deployment").Replace(lakeDefinition)
	do(t, s, http.MethodPost, definitions, text)
	do(t, s, http.MethodDelete, definitions+"/deployments.apps", "")
	s.Undefine("apps", "deployments")
	if a := get(t, s, "/apis/apps/v1/deployments"); a.code != http.StatusOK || len(a.names()) != 1 {
		t.Errorf("deployments: %s", a.raw)
	}
}
