package conformance

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// hooks serves the webhooks that both servers call. The path says what they answer.
// TestAnswers sets it before the first request.
var hooks *httptest.Server

func startHooks(t *testing.T) {
	hooks = httptest.NewUnstartedServer(http.HandlerFunc(serveHook))
	hooks.Config.ErrorLog = log.New(io.Discard, "", 0) // a client does not trust it
	hooks.StartTLS()
	t.Cleanup(hooks.Close)
}

func hooksBundle() string {
	return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hooks.Certificate().Raw}))
}

func serveHook(w http.ResponseWriter, req *http.Request) {
	var r admissionv1.AdmissionReview
	if err := json.NewDecoder(req.Body).Decode(&r); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	asked := r.Request
	response := &admissionv1.AdmissionResponse{UID: asked.UID, Allowed: true}
	r.Request, r.Response = nil, response
	jsonPatch := admissionv1.PatchTypeJSONPatch
	patch := func(text string) { response.Patch, response.PatchType = []byte(text), &jsonPatch }
	deny := func(result *metav1.Status) { response.Allowed, response.Result = false, result }
	switch what := strings.TrimPrefix(req.URL.Path, "/"); what {
	case "deny":
		deny(&metav1.Status{Message: "not today"})
	case "unexplained":
		deny(nil)
	case "reason":
		deny(&metav1.Status{Reason: metav1.StatusReasonInvalid})
	case "status":
		deny(&metav1.Status{Code: 422, Reason: metav1.StatusReasonInvalid, Message: "bad", Details: &metav1.StatusDetails{Name: "n", Causes: []metav1.StatusCause{{Field: "spec", Message: "m"}}}})
	case "success":
		deny(&metav1.Status{Code: 200, Status: metav1.StatusSuccess})
	case "echo":
		deny(&metav1.Status{Message: echo(asked)})
	case "warn":
		response.Warnings = []string{"mind the gap", `a "quoted" one`}
	case "label":
		patch(`[{"op":"add","path":"/metadata/labels/patched","value":"yes"}]`)
	case "badlabel":
		patch(`[{"op":"add","path":"/metadata/labels/patched","value":"not a label"}]`)
	case "badtype":
		patch(`[{"op":"add","path":"/data","value":7}]`)
	case "nopath":
		patch(`[{"op":"add","path":"/absent/field","value":7}]`)
	case "nopatch":
		patch(`nonsense`)
	case "patchonly":
		response.Patch = []byte(`[]`)
	case "typeonly":
		response.PatchType = &jsonPatch
	case "uid":
		response.UID = "another"
	case "absent":
		r.Response = nil
	case "kind":
		r.Kind = "Other"
	case "500":
		http.Error(w, "broken", http.StatusInternalServerError)
		return
	case "404":
		http.NotFound(w, req)
		return
	case "slow":
		<-req.Context().Done()
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(r) // the server notices
}

// echo returns a request without what differs from server to server.
func echo(r *admissionv1.AdmissionRequest) string {
	raw, _ := json.Marshal(r) // it was just decoded
	var tree map[string]any
	_ = json.Unmarshal(raw, &tree)
	delete(tree, "uid")
	delete(tree["userInfo"].(map[string]any), "extra")
	for _, name := range []string{"object", "oldObject"} {
		if obj, ok := tree[name].(map[string]any); ok {
			m := obj["metadata"].(map[string]any)
			for _, field := range []string{"uid", "resourceVersion", "creationTimestamp"} {
				if m[field] != nil {
					m[field] = "some"
				}
			}
			if base, ok := m["generateName"].(string); ok && m["name"] != nil {
				m["name"], tree["name"] = base+"some", base+"some"
			}
			delete(m, "managedFields")
		}
	}
	raw, _ = json.Marshal(tree)
	return string(raw)
}

// hookNames are the webhooks: each is called for objects with the label hook of that value.
var hookNames = strings.Fields("deny unexplained reason status success echo warn label badlabel badtype nopath nopatch patchonly typeonly uid absent kind 500 404 slow untrusted refused service ignored effects")

// install returns a request that creates a configuration with all webhooks.
func install(kind, resource string, names ...string) exchange {
	var all []string
	for _, name := range names {
		client := fmt.Sprintf(`"url":"{hook}/%s","caBundle":"{ca}"`, name)
		more := ""
		switch name {
		case "untrusted":
			client = `"url":"{hook}/deny"`
		case "refused":
			client = `"url":"https://127.0.0.1:1/x","caBundle":"{ca}"`
		case "service":
			client = `"service":{"namespace":"{ns}","name":"absent","path":"/x"}`
		case "ignored":
			client, more = `"url":"{hook}/500","caBundle":"{ca}"`, `"failurePolicy":"Ignore",`
		case "slow":
			more = `"timeoutSeconds":1,`
		}
		effects := "None"
		if name == "effects" {
			effects = "NoneOnDryRun"
		}
		all = append(all, fmt.Sprintf(`{"name":"%s.example.com","clientConfig":{%s},%s"sideEffects":%q,"admissionReviewVersions":["v1"],`+
			`"rules":[{"operations":["*"],"apiGroups":["*"],"apiVersions":["*"],"resources":["*/*"]}],`+
			`"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"{ns}"}},"objectSelector":{"matchLabels":{"hook":%q}}}`, name, client, more, effects, name))
	}
	return exchange{name: "install " + kind, method: "POST", path: "/apis/admissionregistration.k8s.io/v1/" + resource,
		accept: metadataOnly,
		body:   fmt.Sprintf(`{"apiVersion":"admissionregistration.k8s.io/v1","kind":%q,"metadata":{"name":"{ns}"},"webhooks":[%s]}`, kind, strings.Join(all, ","))}
}

// hooked returns a request that creates an object with the label of a webhook.
func hooked(hook, name string) exchange {
	return exchange{name: hook + " " + name, method: "POST",
		body: fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"%s-%s","labels":{"hook":%q}}}`, name, hook, hook)}
}

var webhooks = slices.Concat(
	[]exchange{
		{name: "before", method: "POST", save: "old", body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"old","labels":{"hook":"echo"}}}`},
		{name: "a pod before", method: "POST", path: "/api/v1/namespaces/{ns}/pods", body: `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"old","labels":{"hook":"deny"}},"spec":{"containers":[{"name":"a","image":"b"}]}}`,
			accept: metadataOnly},
		install("ValidatingWebhookConfiguration", "validatingwebhookconfigurations", hookNames...),
		hooked("deny", "first").waits("denied"),
	},
	validated("validating"),
	[]exchange{
		{name: "echo a create", method: "POST", query: "fieldManager=me&fieldValidation=Strict", body: hooked("echo", "c").body},
		{name: "echo a generated name", method: "POST", body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"generateName":"g-","labels":{"hook":"echo"}}}`},
		{name: "echo a dry run", method: "POST", query: "dryRun=All", body: hooked("echo", "c").body},
		{name: "echo an update", method: "PUT", path: "old", query: "fieldManager=me", body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"old","labels":{"hook":"echo"}},"data":{"a":"b"}}`},
		{name: "echo an update of the label", method: "PUT", path: "old", body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"old"}}`},
		{name: "echo a patch", method: "PATCH", path: "old", typ: mergePatch, body: patchBody},
		{name: "echo an apply", method: "PATCH", path: "applied", typ: applyPatch, query: "fieldManager=me&force=true", body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"applied","labels":{"hook":"echo"}}}`},
		{name: "echo a deletion", method: "DELETE", path: "old", query: "propagationPolicy=Background"},
		{name: "echo a deletion of a collection", method: "DELETE", query: "labelSelector=hook%3Decho"},
		{name: "deny a status", method: "PATCH", path: "/api/v1/namespaces/{ns}/pods/old/status", typ: mergePatch, body: `{"status":{"phase":"Failed"}}`},
		{name: "deny a deletion", method: "DELETE", path: "/api/v1/namespaces/{ns}/pods/old"},
		{name: "deny a label of the namespace", method: "PATCH", path: "/api/v1/namespaces/{ns}", typ: mergePatch, body: `{"metadata":{"labels":{"hook":"deny"}}}`},
		{name: "an object without the label", method: "POST", body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"free"}}`},
		{name: "remove the configuration", method: "DELETE", path: "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/{ns}"},
		install("MutatingWebhookConfiguration", "mutatingwebhookconfigurations", hookNames...),
		{name: "label waits", method: "PATCH", path: "free", query: "dryRun=All", typ: mergePatch, body: `{"metadata":{"labels":{"hook":"label"}}}`, until: `"patched"`},
	},
	validated("mutating"),
	[]exchange{
		{name: "echo an update before", method: "PUT", path: "old", query: "fieldManager=me", body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"old","labels":{"hook":"echo"}},"data":{"a":"b"}}`},
		{name: "echo a generated name before", method: "POST", body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"generateName":"g-","labels":{"hook":"echo"}}}`},
		{name: "label an update", method: "PUT", path: "free", body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"free","labels":{"hook":"label"}},"data":{"a":"b"}}`},
		{name: "label a deletion", method: "DELETE", path: "free"},
		{name: "remove the other configuration", method: "DELETE", path: "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/{ns}"},
	},
)

// validated creates an object for each webhook.
func validated(phase string) (all []exchange) {
	for _, name := range hookNames {
		all = append(all, hooked(name, phase))
	}
	return all
}
