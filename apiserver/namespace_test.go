package apiserver_test

import (
	"encoding/json"
	"fmt"
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

// The conditions are those of the namespace controller of Kubernetes 1.36, which deletes pods first.
func TestATerminatingNamespaceHasConditions(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{})
	held := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "shop", Name: name, Finalizers: []string{"example.com/f"}}
	}
	web := pod("web")
	web.ObjectMeta = held("web")
	fill(t, s, namespace("shop"), web, &corev1.ConfigMap{ObjectMeta: held("a")}, &corev1.ConfigMap{ObjectMeta: held("b")},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "free"}})
	conditions := func() string {
		var ns corev1.Namespace
		_ = json.Unmarshal([]byte(get(t, s, shop).raw), &ns)
		var text []string
		for _, c := range ns.Status.Conditions {
			text = append(text, fmt.Sprintf("%s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message))
		}
		return strings.Join(text, "\n")
	}
	const fine = "NamespaceDeletionDiscoveryFailure=False ResourcesDiscovered: All resources successfully discovered\n" +
		"NamespaceDeletionGroupVersionParsingFailure=False ParsedGroupVersions: All legacy kube types successfully parsed\n" +
		"NamespaceDeletionContentFailure=False ContentDeleted: All content successfully deleted, may be waiting on finalization\n"
	do(t, s, http.MethodDelete, shop, "")
	if got, want := conditions(), fine+"NamespaceContentRemaining=False ContentRemoved: All content successfully removed\n"+
		"NamespaceFinalizersRemaining=False ContentHasNoFinalizers: All content-preserving finalizers finished"; got != want {
		t.Errorf("while a pod remains:\n%s\nwant\n%s", got, want)
	}
	if a := get(t, s, shop+"/secrets/free"); a.code != http.StatusOK {
		t.Errorf("a secret was deleted before a pod: %s", a.raw)
	}
	release := func(path string) {
		do(t, s, http.MethodPatch, shop+path, `{"metadata":{"finalizers":null}}`, "Content-Type", mergePatch)
	}
	remain := func(n int) string {
		return fine + fmt.Sprintf("NamespaceContentRemaining=True SomeResourcesRemain: Some resources are remaining: configmaps. has %d resource instances\n"+
			"NamespaceFinalizersRemaining=True SomeFinalizersRemain: Some content in the namespace has finalizers remaining: example.com/f in %d resource instances", n, n)
	}
	release("/pods/web")
	if got, want := conditions(), remain(2); got != want {
		t.Errorf("without the pod:\n%s\nwant\n%s", got, want)
	}
	if a := get(t, s, shop+"/secrets/free"); a.code != http.StatusNotFound {
		t.Errorf("the secret stays: %s", a.raw)
	}
	release("/configmaps/a")
	if got, want := conditions(), remain(1); got != want {
		t.Errorf("without one config map:\n%s\nwant\n%s", got, want)
	}
	const why = "unable to create new content in namespace shop because it is being terminated"
	for _, a := range []response{
		do(t, s, http.MethodPost, shop+"/configmaps", `{"metadata":{"name":"b"}}`), // exists
		do(t, s, http.MethodPost, shop+"/configmaps", `{"metadata":{"generateName":"No Name"}}`),
		do(t, s, http.MethodPost, shop+"/pods/web/eviction", `{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"web"}}`),
		do(t, s, http.MethodPost, shop+"/serviceaccounts/default/token", `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest"}`),
	} {
		if a.refused(t, http.StatusForbidden, "Forbidden", why); !strings.Contains(a.raw, `"causes":[{"reason":"NamespaceTerminating","message":"namespace shop is being terminated","field":"metadata.namespace"}]`) {
			t.Errorf("the cause: %s", a.raw)
		}
	}
	release("/configmaps/b")
	if a := get(t, s, shop); a.code != http.StatusNotFound {
		t.Errorf("the namespace stays: %s", a.raw)
	}
}
