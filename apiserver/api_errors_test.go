package apiserver_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/tarnproject/tarn/apiserver"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const maps = "/api/v1/namespaces/default/configmaps"

// The expected responses were verified against a real server by e2e/conformance.
func TestErrorsMatchTheRealServer(t *testing.T) {
	const (
		merge = "application/merge-patch+json"
		apply = "application/apply-patch+yaml"
	)
	s := apiserver.Start(t, apiserver.Options{})
	if a := do(t, s, http.MethodPost, maps, `{"metadata":{"name":"a","finalizers":["example.com/f"]}}`); a.code != http.StatusCreated {
		t.Fatal(a.raw)
	}
	for _, c := range []struct {
		method, path, body, contentType string
		code                            int
		reason, message                 string
	}{
		{"POST", maps, ``, "", 400, "BadRequest", "must be of type ConfigMap): couldn't get version/kind"},
		{"POST", maps, `{}`, "text/plain", 415, "UnsupportedMediaType", "accepted media types include: application/json"},
		{"POST", maps, `{"apiVersion":"v2","kind":"ConfigMap"}`, "", 400, "BadRequest", `ConfigMap in version "v2" cannot be handled as a ConfigMap`},
		{"POST", maps + "?fieldValidation=Some", `{"metadata":{"name":"b"}}`, "", 422, "Invalid", "CreateOptions.meta.k8s.io"},
		{"POST", maps + "?fieldManager=a%0Ab", `{"metadata":{"name":"b"}}`, "", 422, "Invalid", "fieldManager"},
		{"POST", maps + "?dryRun=Some", `{"metadata":{"name":"b"}}`, "", 422, "Invalid", "dryRun"},
		{"POST", maps + "/a", `{}`, "", 405, "MethodNotAllowed", "does not allow this method"},
		{"POST", "/api/v1/configmaps", `{"metadata":{"name":"b"}}`, "", 405, "MethodNotAllowed", "does not allow this method"},
		{"DELETE", "/api/v1/configmaps", ``, "", 405, "MethodNotAllowed", "does not allow this method"},
		{"HEAD", maps + "/a", ``, "", 405, "", ""},
		{"PUT", maps + "/a", `{}`, "", 400, "BadRequest", "name must be provided"},
		{"PUT", maps + "/a", `{"metadata":{"name":"a","uid":"other","resourceVersion":"1"}}`, "", 409, "Conflict", "UID in precondition: other"},
		{"PATCH", maps + "/a", `{`, merge, 400, "BadRequest", "error decoding patch: "},
		{"PATCH", maps + "/a", `[]`, merge, 400, "BadRequest", "error decoding patch: "},
		{"PATCH", maps + "/a", `{"data":5}`, merge, 422, "Invalid", "patch: Invalid value"},
		{"PATCH", maps + "/a", `{"metadata":{"uid":"other"}}`, merge, 422, "Invalid", "metadata.uid: Invalid value"},
		{"PATCH", maps + "/a", `{"metadata":{"name":"b"}}`, merge, 400, "BadRequest", "the name of the object (b) does not match the name on the URL (a)"},
		{"PATCH", maps + "/a?force=true", `{}`, merge, 422, "Invalid", "may not be specified for non-apply patch"},
		{"PATCH", maps + "/a", `{}`, "application/json", 415, "UnsupportedMediaType", "415: Unsupported Media Type"},
		{"PATCH", maps + "/a", `{"kind":"Secret","apiVersion":"v1"}`, apply, 422, "Invalid", "is required for apply patch"},
		{"PATCH", maps + "/a?fieldManager=m", `{"kind":"Secret","apiVersion":"v1"}`, apply, 400, "BadRequest", "invalid object type: /v1, Kind=Secret"},
		{"DELETE", maps + "/a", `{"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"Some"}`, "", 422, "Invalid", "DeleteOptions.meta.k8s.io"},
		{"DELETE", maps + "/a", `{"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"Orphan","orphanDependents":true}`, "", 422, "Invalid", "cannot be both set"},
		{"DELETE", maps + "/a", `{"kind":"DeleteOptions","apiVersion":"v1","dryRun":["Some"]}`, "", 422, "Invalid", "dryRun"},
		{"DELETE", maps + "/a", `{"kind":"ConfigMap","apiVersion":"v1"}`, "", 400, "BadRequest", `no kind "ConfigMap" is registered`},
		{"DELETE", maps + "/a", `{"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"uid":"other"}}`, "", 409, "Conflict", `on ConfigMap "a": the UID in the precondition (other)`},
		{"DELETE", maps + "/a", `{"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"resourceVersion":"1"}}`, "", 409, "Conflict", "the ResourceVersion in the precondition (1)"},
		{"GET", maps + "?fieldSelector=a%3Db", "", "", 400, "BadRequest", `"a" is not a known field selector: only "metadata.name"`},
		{"GET", maps + "?continue=nonsense", "", "", 400, "BadRequest", "invalid continue token: continue key is not valid: invalid character"},
		{"GET", "/apis/nothing.example.com/v1/things", "", "", 404, "", ""},
		{"GET", "/apis/apps/v1/things", "", "", 404, "NotFound", "could not find the requested resource"},
	} {
		t.Run(c.method+" "+c.path+" "+c.body, func(t *testing.T) {
			headers := []string{}
			if c.contentType != "" {
				headers = append(headers, "Content-Type", c.contentType)
			}
			do(t, s, c.method, c.path, c.body, headers...).refused(t, c.code, c.reason, c.message)
		})
	}
	const (
		list = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
		one  = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
	)
	do(t, s, http.MethodGet, maps, "", "Accept", one).refused(t, http.StatusNotAcceptable, "NotAcceptable", "is a list")
	do(t, s, http.MethodGet, maps+"/a", "", "Accept", list).refused(t, http.StatusNotAcceptable, "NotAcceptable", "is not a list")
	do(t, s, http.MethodGet, maps+"?watch=1", "", "Accept", "application/yaml").refused(t, http.StatusNotAcceptable, "", "")
	do(t, s, http.MethodGet, maps+"?includeObject=Half", "", "Accept", asTable).refused(t, http.StatusBadRequest, "BadRequest", "Unable to convert to Table")
	if got := get(t, s, maps+"/a").at("metadata", "name"); got != "a" {
		t.Error("a rejected request was executed")
	}
	// A single object cannot be watched except through the deprecated path.
	if got := get(t, s, maps+"/a?watch=1").at("kind"); got != "ConfigMap" {
		t.Errorf("got a %s", got)
	}
	do(t, s, http.MethodDelete, maps+"/a", "")
	do(t, s, http.MethodPost, maps, `{"metadata":{"name":"a"}}`).refused(t, http.StatusConflict, "AlreadyExists", "object is being deleted: ")
	do(t, s, http.MethodPut, maps+"/a", `{"metadata":{"name":"a","finalizers":["example.com/f","example.com/g"]}}`).
		refused(t, http.StatusUnprocessableEntity, "Invalid", `found new finalizers []string{"example.com/g"}`)
}

func TestPatchesWarnOfUnknownFields(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{})
	fill(t, s, pod("a"))
	a := do(t, s, http.MethodPatch, pods+"/a", `{"colour":"red"}`, "Content-Type", "application/merge-patch+json")
	if got := a.header.Get("Warning"); a.code != http.StatusOK || !strings.Contains(got, "colour") {
		t.Errorf("got %d, %q", a.code, got)
	}
	do(t, s, http.MethodPatch, pods+"/a?fieldValidation=Strict", `{"colour":"red"}`, "Content-Type", "application/merge-patch+json").
		refused(t, http.StatusUnprocessableEntity, "Invalid", "unknown field")
}

// L07: the page after a full page may be empty.
func TestL07_TheLastPageOfASelectionMayBeEmpty(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{})
	fill(t, s, pod("a", "app", "x"), pod("b"))
	first := get(t, s, pods+"?limit=1&labelSelector=app")
	if first.at("metadata", "continue") == "" {
		t.Fatal("no continue token after a full page")
	}
	second := get(t, s, pods+"?limit=1&labelSelector=app&continue="+first.at("metadata", "continue"))
	if len(second.names()) != 0 || second.at("metadata", "continue") != "" {
		t.Errorf("got %s", second.raw)
	}
}

// W02: a streaming list at a version that is not reached fails inside the stream.
func TestW02_AFutureVersionFailsInTheStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := apiserver.Start(t, apiserver.Options{})
		w := watching(t, s, pods+"?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&resourceVersion=999999")
		w.expect(t, "ERROR 504 "+string(metav1.StatusReasonTimeout), "end")
	})
}

// An endpoint slice has no spec. All of its fields count, and its labels as well.
func TestGenerationOfEndpointSlices(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{})
	const slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
	do(t, s, http.MethodPost, slices, `{"metadata":{"name":"a"},"addressType":"IPv4","endpoints":null}`)
	for _, c := range []struct{ patch, want string }{
		{`{}`, "1"}, {`{"metadata":{"annotations":{"a":"b"}}}`, "1"}, {`{"metadata":{"labels":{"a":"b"}}}`, "2"}, {`{"endpoints":[{"addresses":["10.0.0.1"]}]}`, "3"},
	} {
		if got := do(t, s, http.MethodPatch, slices+"/a", c.patch, "Content-Type", mergePatch).at("metadata", "generation"); got != c.want {
			t.Errorf("after %s: generation %q, want %s", c.patch, got, c.want)
		}
	}
}

func TestGenerationIncrementsOnSpecChanges(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{})
	if got := get(t, s, "/api/v1/namespaces/default").at("metadata", "generation"); got != "" {
		t.Errorf("a namespace has generation %s", got)
	}
	if got := do(t, s, http.MethodPost, maps, `{"metadata":{"name":"a","generation":7}}`).at("metadata", "generation"); got != "7" {
		t.Errorf("generation of a config map = %q", got)
	}
}
