package apiserver_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/internal/soak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func patchMap(t testing.TB, s *apiserver.Server, media, body string) response {
	t.Helper()
	return do(t, s, http.MethodPatch, configMaps+"/a", body, "Content-Type", media)
}

func TestJSONPatchGrowthIsLimited(t *testing.T) {
	soak.Measures(t)
	s := apiserver.Start(t, apiserver.Options{})
	fill(t, s, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Data: map[string]string{"x": strings.Repeat("x", 1000)}})
	const media = "application/json-patch+json"
	// Each operation doubles the object.
	var steps []string
	for i := range 13 {
		steps = append(steps, fmt.Sprintf(`{"op":"copy","from":"/data","path":"/data/c%d"}`, i))
	}
	patchMap(t, s, media, "["+strings.Join(steps, ",")+"]").refused(t, http.StatusUnprocessableEntity, "Invalid", "")
	patchMap(t, s, media, "["+strings.Repeat(`{"op":"test","path":"/kind","value":"ConfigMap"},`, 10_000)+`{"op":"remove","path":"/data"}]`).
		refused(t, http.StatusRequestEntityTooLarge, "RequestEntityTooLarge", "maximum operations in a JSON patch is 10000, got 10001")
	// Moves copy nothing, but the tree must not become too deep to encode.
	nest := func(depth int) string { return strings.Repeat(`{"a":`, depth) + "1" + strings.Repeat("}", depth) }
	nested := fmt.Sprintf(`{"op":"add","path":"/x","value":%s},{"op":"add","path":"/y","value":%s},{"op":"move","from":"/x","path":"/y%s"}`, nest(9990), nest(20), strings.Repeat("/a", 19))
	if a := patchMap(t, s, media, "["+nested+"]"); a.code != http.StatusUnprocessableEntity {
		t.Errorf("a deep tree: %d %.200s", a.code, a.raw)
	}
	if a := patchMap(t, s, media, `[{"op":"copy","from":"/data/x","path":"/data/y"}]`); a.code != http.StatusOK {
		t.Errorf("a small copy: %d %s", a.code, a.raw)
	}
}

func TestObjectsTooLargeForEtcdAreRejected(t *testing.T) {
	soak.Measures(t)
	s := apiserver.Start(t, apiserver.Options{})
	if err := s.Define(apiserver.Definition{Resource: lakes}); err != nil {
		t.Fatal(err)
	}
	large := strings.Repeat("x", 800_000)
	fill(t, s, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Data: map[string]string{"x": large}})
	for _, media := range []string{"application/merge-patch+json", "application/strategic-merge-patch+json"} {
		patchMap(t, s, media, `{"data":{"y":"`+large+`"}}`).refused(t, http.StatusInternalServerError, "", "etcdserver: request is too large")
	}
	do(t, s, http.MethodPatch, configMaps+"/a?fieldManager=m", `{"apiVersion":"v1","kind":"ConfigMap","data":{"y":"`+large+`"}}`, "Content-Type", "application/apply-patch+yaml").
		refused(t, http.StatusInternalServerError, "", "etcdserver: request is too large")
	do(t, s, http.MethodPost, configMaps, `{"metadata":{"name":"b"},"data":{"x":"`+large+large+`"}}`).refused(t, http.StatusInternalServerError, "", "etcdserver: request is too large")
	do(t, s, http.MethodPost, "/apis/example.com/v1/namespaces/default/lakes", `{"apiVersion":"example.com/v1","kind":"Lake","metadata":{"name":"b"},"x":"`+large+large+`"}`).
		refused(t, http.StatusInternalServerError, "", "etcdserver: request is too large")
	do(t, s, http.MethodPost, configMaps, `{"metadata":{"name":"b"},"data":{"x":"`+large+large+large+large+`"}}`).
		refused(t, http.StatusRequestEntityTooLarge, "RequestEntityTooLarge", "limit is 3145728")
}

func TestYAMLAliasExpansionIsLimited(t *testing.T) {
	soak.Measures(t)
	s := apiserver.Start(t, apiserver.Options{})
	body := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b, annotations: {x: &x " + strings.Repeat("x", 10_000)
	for i := range 2000 {
		body += fmt.Sprintf(", y%d: *x", i)
	}
	body += "}}\n"
	for _, a := range []response{
		do(t, s, http.MethodPost, configMaps, body, "Content-Type", "application/yaml"),
		do(t, s, http.MethodPatch, configMaps+"/b?fieldManager=m", body, "Content-Type", "application/apply-patch+yaml"),
	} {
		a.refused(t, http.StatusRequestEntityTooLarge, "RequestEntityTooLarge", "aliases")
	}
}

func TestTheHistoryIsBoundedByBytes(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{HistoryBytes: 1 << 17})
	first := fill(t, s, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Data: map[string]string{"x": strings.Repeat("x", 11_000)}})
	for i := range 12 {
		patchMap(t, s, "application/merge-patch+json", fmt.Sprintf(`{"data":{"n":"%d"}}`, i))
	}
	last := version(s)
	if a := get(t, s, configMaps+"?resourceVersionMatch=Exact&resourceVersion="+first); a.code != http.StatusGone {
		t.Errorf("a list at the beginning: %d", a.code)
	}
	watching(t, s, configMaps+"?watch=1&resourceVersion="+first).expect(t, "ERROR 410 Expired")
	// Changes that fit are kept.
	recent := fmt.Sprint(s.Version() - 8)
	if a := get(t, s, configMaps+"?resourceVersionMatch=Exact&resourceVersion="+recent); a.code != http.StatusOK {
		t.Errorf("a list of %s, now %s: %d", recent, last, a.code)
	}
}
