package apiserver_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/tarnproject/tarn/apiserver"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const shop = "/api/v1/namespaces/shop"

// terminating returns a server with a namespace shop that is terminating, because a config map
// in it has a finalizer.
func terminating(t *testing.T) *apiserver.Server {
	t.Helper()
	s := apiserver.Start(t, apiserver.Options{})
	fill(t, s, namespace("shop"), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "held", Finalizers: []string{"example.com/f"}}})
	a := do(t, s, http.MethodDelete, shop, "")
	if a.code != http.StatusOK || a.at("spec", "finalizers") != "[kubernetes]" || a.at("status", "phase") != "Terminating" ||
		a.at("metadata", "finalizers") != "" || a.at("metadata", "deletionTimestamp") == "" || a.at("metadata", "deletionGracePeriodSeconds") != "" {
		t.Fatalf("deleted: %s", a.raw)
	}
	return s
}

func TestTheNamespacesOfTheServerCannotBeDeleted(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{})
	for _, name := range []string{"default", "kube-system", "kube-public"} {
		for _, query := range []string{"", "?dryRun=All"} {
			do(t, s, http.MethodDelete, "/api/v1/namespaces/"+name+query, "").
				refused(t, http.StatusForbidden, "Forbidden", `namespaces "`+name+`" is forbidden: this namespace may not be deleted`)
		}
	}
	if a := do(t, s, http.MethodDelete, "/api/v1/namespaces/kube-node-lease", ""); a.code != http.StatusOK {
		t.Errorf("kube-node-lease: %s", a.raw)
	}
	do(t, s, http.MethodDelete, "/api/v1/namespaces/default", `{"preconditions":{"uid":"other"}}`).
		refused(t, http.StatusConflict, "Conflict", `Precondition failed: UID in precondition: other, UID in object meta: `)
}

// Only the last of the finalizers in the metadata and the spec removes a namespace.
func TestATerminatingNamespaceIsReleasedByFinalize(t *testing.T) {
	s := terminating(t)
	held := func(when string) {
		t.Helper()
		if a := get(t, s, shop); a.code != http.StatusOK || a.at("spec", "finalizers") != "[kubernetes]" {
			t.Fatalf("%s: %s", when, a.raw)
		}
	}
	do(t, s, http.MethodPatch, shop, `{"metadata":{"finalizers":null},"spec":{"finalizers":null}}`, "Content-Type", mergePatch)
	held("after a patch of the finalizers")
	do(t, s, http.MethodDelete, shop, "")
	held("after a second deletion")
	a := do(t, s, http.MethodPut, shop+"/finalize", `{"metadata":{"name":"shop"},"spec":{"finalizers":[]}}`)
	if a.code != http.StatusOK || a.at("spec", "finalizers") != "" {
		t.Errorf("finalize: %s", a.raw)
	}
	if a := get(t, s, shop); a.code != http.StatusNotFound {
		t.Errorf("the namespace stays: %s", a.raw)
	}
	if a := get(t, s, shop+"/configmaps/held"); a.code != http.StatusOK {
		t.Errorf("its content: %s", a.raw)
	}
}

func TestATerminatingNamespaceIsReleasedByItsLastObject(t *testing.T) {
	s := terminating(t)
	do(t, s, http.MethodPatch, shop+"/configmaps/held", `{"metadata":{"finalizers":null}}`, "Content-Type", mergePatch)
	if a := get(t, s, shop); a.code != http.StatusNotFound {
		t.Errorf("the namespace stays: %s", a.raw)
	}
}

// Other finalizers of the spec, and those of the metadata, outlast the content.
func TestANamespaceWaitsForAllFinalizers(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{})
	ns := namespace("shop")
	ns.Finalizers, ns.Spec.Finalizers = []string{"example.com/m"}, []corev1.FinalizerName{"example.com/s"}
	fill(t, s, ns)
	if _, err := s.Update(ns); err != nil { // does not write the finalizers of the spec
		t.Fatal(err)
	}
	if a := do(t, s, http.MethodDelete, shop+"?dryRun=All", ""); a.at("status", "phase") != "Terminating" {
		t.Errorf("dry run: %s", a.raw)
	}
	do(t, s, http.MethodDelete, shop, "")
	if a := get(t, s, shop); a.at("spec", "finalizers") != "[example.com/s]" || !strings.Contains(a.at("metadata", "finalizers"), "example.com/m") {
		t.Fatalf("deleted: %s", a.raw)
	}
	do(t, s, http.MethodPut, shop+"/finalize", `{"metadata":{"name":"shop","finalizers":["example.com/m"]}}`)
	if a := get(t, s, shop); a.code != http.StatusOK || a.at("spec", "finalizers") != "" {
		t.Fatalf("finalized: %s", a.raw)
	}
	do(t, s, http.MethodPatch, shop, `{"metadata":{"finalizers":null}}`, "Content-Type", mergePatch)
	if a := get(t, s, shop); a.code != http.StatusNotFound {
		t.Errorf("the namespace stays: %s", a.raw)
	}
}
