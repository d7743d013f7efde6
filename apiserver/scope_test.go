package apiserver_test

import (
	"net/http"
	"testing"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/object"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A cluster-scoped object loses the namespace that a client sends, by whatever verb.
func TestAClusterScopedObjectHasNoNamespace(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{})
	peaks := apiserver.Definition{Resource: object.Resource{Group: "example.com", Version: "v1", Resource: "peaks", Kind: "Peak"}, Status: true}
	if err := s.Define(peaks); err != nil {
		t.Fatal(err)
	}
	for path, kind := range map[string]string{
		"/api/v1/nodes": `"apiVersion":"v1","kind":"Node"`, "/apis/example.com/v1/peaks": `"apiVersion":"example.com/v1","kind":"Peak"`,
		"/apis/rbac.authorization.k8s.io/v1/clusterroles": `"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole"`,
	} {
		body := func(name, more string) string {
			return `{` + kind + `,"metadata":{"name":"` + name + `","namespace":"shop","labels":{"by":"` + more + `"}}}`
		}
		expect := func(what string, a response, code int) {
			if a.code != code || a.at("metadata", "namespace") != "" {
				t.Errorf("%s of %s: %d %s", what, path, a.code, a.raw)
			}
		}
		made := do(t, s, http.MethodPost, path, body("a", "create"))
		expect("create", made, http.StatusCreated)
		versioned := `{` + kind + `,"metadata":{"name":"a","namespace":"shop","resourceVersion":"` + made.at("metadata", "resourceVersion") + `"}}`
		expect("update", do(t, s, http.MethodPut, path+"/a", versioned), http.StatusOK)
		expect("patch", do(t, s, http.MethodPatch, path+"/a", body("a", "patch"), "Content-Type", mergePatch), http.StatusOK)
		expect("apply", do(t, s, http.MethodPatch, path+"/a?fieldManager=m&force=true", body("a", "apply"), "Content-Type", applyPatch), http.StatusOK)
		expect("apply of a new one", do(t, s, http.MethodPatch, path+"/b?fieldManager=m", body("b", "apply"), "Content-Type", applyPatch), http.StatusCreated)
	}
	expect := `{"apiVersion":"v1","kind":"Node","metadata":{"name":"a","namespace":"shop"},"status":{"phase":"Running"}}`
	if a := do(t, s, http.MethodPatch, "/api/v1/nodes/a/status", expect, "Content-Type", mergePatch); a.code != http.StatusOK || a.at("metadata", "namespace") != "" {
		t.Errorf("status: %d %s", a.code, a.raw)
	}
	if obj, err := s.Create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "shop"}}); err != nil || obj.(*corev1.Node).Namespace != "" {
		t.Errorf("in process: %v %v", obj, err)
	}
	// That of a namespaced object must be that of the path.
	for _, a := range []response{
		do(t, s, http.MethodPost, configMaps, `{"metadata":{"name":"a","namespace":"shop"}}`),
		do(t, s, http.MethodPatch, configMaps+"/a?fieldManager=m", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"shop"}}`, "Content-Type", applyPatch),
		do(t, s, http.MethodPost, "/apis/authorization.k8s.io/v1/namespaces/default/localsubjectaccessreviews", `{"metadata":{"namespace":"shop"},"spec":{"user":"u"}}`),
	} {
		a.refused(t, http.StatusBadRequest, "BadRequest", "does not match the namespace")
	}
}
