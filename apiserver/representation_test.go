package apiserver_test

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/tarnproject/tarn/apiserver"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const asTable = "application/json;as=Table;v=v1;g=meta.k8s.io"

func TestTableColumnsOfCommonKinds(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{})
	p := pod("web")
	p.Spec.NodeName, p.Status.Phase = "n1", corev1.PodRunning
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Ready: true, RestartCount: 2}}
	p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "a"}, {ConditionType: "b"}}
	p.Status.Conditions = []corev1.PodCondition{{Type: "b", Status: corev1.ConditionTrue}, {Type: "a", Status: corev1.ConditionFalse}}
	fill(t, s, p, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "cm"}, Data: map[string]string{"a": "b"}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "key"}, StringData: map[string]string{"a": "b"}},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "svc"}},
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "sa"}})
	const ns = "/api/v1/namespaces/default/"
	for path, want := range map[string]string{
		pods: "web 1/1 Running 2 … <none> n1 <none> 1/2", ns + "pods/web": "web 1/1 Running 2", ns + "configmaps": "cm 1", ns + "secrets": "key Opaque 1",
		"/api/v1/nodes": "n1 Unknown <none>", ns + "services": "svc  <none>", ns + "serviceaccounts": "sa", "/api/v1/namespaces/default": "default Active",
	} {
		a := do(t, s, http.MethodGet, path, "", "Accept", asTable)
		var table metav1.Table
		if err := json.Unmarshal([]byte(a.raw), &table); err != nil || len(table.Rows) != 1 {
			t.Fatalf("%s: %v %s", path, err, a.raw)
		}
		if len(table.Rows[0].Cells) != len(table.ColumnDefinitions) {
			t.Errorf("%s: %d cells for %d columns", path, len(table.Rows[0].Cells), len(table.ColumnDefinitions))
		}
		var cells []string
		for _, c := range table.Rows[0].Cells {
			cells = append(cells, field(c))
		}
		begin, end, _ := strings.Cut(want, "…") // … stands for the age
		if got := strings.Join(cells, " "); !strings.HasPrefix(got, begin) || !strings.HasSuffix(got, end) {
			t.Errorf("%s: got %s, want %s", path, got, want)
		}
		if !strings.Contains(string(table.Rows[0].Object.Raw), `"kind":"PartialObjectMetadata"`) {
			t.Errorf("%s: the row has %s", path, table.Rows[0].Object.Raw)
		}
	}
	resp := open(t, s, http.MethodGet, pods+"?watch=1&includeObject=Object", "", "Accept", asTable)
	defer resp.Body.Close()
	var ev struct{ Object metav1.Table }
	events := json.NewDecoder(resp.Body)
	for first := true; ; first = false {
		if err := events.Decode(&ev); err != nil || len(ev.Object.Rows) != 1 || (len(ev.Object.ColumnDefinitions) > 0) != first {
			t.Fatalf("%v %+v", err, ev)
		}
		if !first {
			break
		}
		relabel(t, s, "web", "x")
		ev.Object = metav1.Table{}
	}
	if !strings.Contains(string(ev.Object.Rows[0].Object.Raw), `"kind":"Pod"`) {
		t.Errorf("the row has %s", ev.Object.Rows[0].Object.Raw)
	}
}

func TestLongResponsesAreCompressedIfAccepted(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{})
	big := pod("big")
	big.Annotations = map[string]string{"fill": strings.Repeat("abc", 70_000)}
	fill(t, s, big)
	plain := do(t, s, http.MethodGet, pods, "", "Accept-Encoding", "identity")
	if plain.header.Get("Content-Encoding") != "" || len(plain.raw) < 200_000 {
		t.Errorf("got %v", plain.header)
	}
	resp := open(t, s, http.MethodGet, pods, "", "Accept-Encoding", "gzip")
	defer resp.Body.Close()
	if resp.Header.Get("Content-Encoding") != "gzip" {
		t.Fatalf("got %v", resp.Header)
	}
	unpacked := must(gzip.NewReader(resp.Body))
	if raw := must(io.ReadAll(unpacked)); string(raw) != plain.raw {
		t.Errorf("got %d bytes, want %d", len(raw), len(plain.raw))
	}
	if short := do(t, s, http.MethodGet, "/api/v1/nodes", "", "Accept-Encoding", "gzip"); short.header.Get("Content-Encoding") != "" {
		t.Errorf("short response: %v", short.header)
	}
}

func TestContentNegotiation(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{})
	yaml := do(t, s, http.MethodPost, pods, "metadata:\n  name: a\nspec:\n  nodeName: n1\n", "Content-Type", "application/yaml", "Accept", "application/yaml")
	if yaml.code != http.StatusCreated || !strings.Contains(yaml.raw, "\n  nodeName: n1\n") {
		t.Errorf("got %d %s", yaml.code, yaml.raw)
	}
	if a := get(t, s, pods+"/a?pretty=true"); !strings.Contains(a.raw, "\n  \"kind\": \"Pod\"") {
		t.Errorf("got %s", a.raw)
	}
	do(t, s, http.MethodGet, pods, "", "Accept", "image/png").refused(t, http.StatusNotAcceptable, "NotAcceptable", "Available representations")
	const typo = `{"metadata":{"name":"b"},"spec":{"nodename":"n1"}}`
	do(t, s, http.MethodPost, pods+"?fieldValidation=Strict", typo).refused(t, http.StatusBadRequest, "BadRequest", `unknown field "spec.nodename"`)
	if a := do(t, s, http.MethodPost, pods, typo); a.code != http.StatusCreated || !strings.Contains(a.header.Get("Warning"), "spec.nodename") {
		t.Errorf("got %d %v", a.code, a.header)
	}
	review := do(t, s, http.MethodPost, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", `{"spec":{"resourceAttributes":{"verb":"list"}}}`)
	if review.at("status", "allowed") != "true" {
		t.Errorf("got %s", review.raw)
	}
	for path, method := range map[string]string{pods: http.MethodPut, pods + "/a": http.MethodPost, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews": http.MethodGet} {
		do(t, s, method, path, "{}").refused(t, http.StatusMethodNotAllowed, "MethodNotAllowed", "")
	}
	for _, path := range []string{"/nothing", "/api/v2/pods", "/api/v1/pods/a", "/api/v1/namespaces/default/nodes", pods + "/a/log", "/apis/apps", "/apis/apps/v1/"} {
		if a := get(t, s, path); (a.code == http.StatusNotFound) == strings.HasPrefix(path, "/apis/apps") {
			t.Errorf("%s: %d %s", path, a.code, a.raw)
		}
	}
}
