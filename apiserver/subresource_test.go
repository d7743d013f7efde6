package apiserver_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/object"
	appsv1 "k8s.io/api/apps/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	mergePatch = "application/merge-patch+json"
	applyPatch = "application/apply-patch+yaml"
	jsonPatch  = "application/json-patch+json"
)

func TestScaleIsPatchedAndApplied(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{})
	two := int32(2)
	fill(t, s, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default"}, Spec: appsv1.DeploymentSpec{Replicas: &two}})
	const web = "/apis/apps/v1/namespaces/default/deployments/web"
	replicas := func() string { return get(t, s, web).at("spec", "replicas") }
	for i, patch := range []struct{ typ, body string }{
		{mergePatch, `{"spec":{"replicas":3}}`}, {jsonPatch, `[{"op":"replace","path":"/spec/replicas","value":4}]`},
		{"application/strategic-merge-patch+json", `{"spec":{"replicas":5}}`},
	} {
		a := do(t, s, http.MethodPatch, web+"/scale", patch.body, "Content-Type", patch.typ)
		if want := fmt.Sprint(3 + i); a.at("kind") != "Scale" || a.at("spec", "replicas") != want || replicas() != want {
			t.Errorf("%s: %v, the deployment has %s replicas", patch.typ, a.body, replicas())
		}
	}
	scale := func(n int) string {
		return fmt.Sprintf(`{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"web"},"spec":{"replicas":%d}}`, n)
	}
	apply := func(manager, body string) response {
		return do(t, s, http.MethodPatch, web+"/scale?fieldManager="+manager, body, "Content-Type", applyPatch)
	}
	apply("one", scale(6)).refused(t, http.StatusConflict, "Conflict", "Apply failed with 1 conflict")
	if a := apply("one&force=true", scale(6)); a.code != http.StatusOK || replicas() != "6" {
		t.Fatalf("apply: %v", a.body)
	}
	owners := field(get(t, s, web).body, "metadata", "managedFields")
	if !strings.Contains(owners, "one") || !strings.Contains(owners, "f:replicas") || !strings.Contains(owners, "apps/v1") {
		t.Errorf("the deployment's replicas have the owners %s", owners)
	}
	apply("two", scale(7)).refused(t, http.StatusConflict, "Conflict", `Apply failed with 1 conflict: conflict with "one" with subresource "scale": .spec.replicas`)
	do(t, s, http.MethodPatch, web+"?fieldManager=three", `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"},"spec":{"replicas":8}}`, "Content-Type", applyPatch).
		refused(t, http.StatusConflict, "Conflict", `Apply failed with 1 conflict: conflict with "one" with subresource "scale": .spec.replicas`)
	before := version(s)
	if a := apply("two&force=true&dryRun=All", scale(9)); a.at("spec", "replicas") != "9" || replicas() != "6" || version(s) != before {
		t.Errorf("dry run: %v", a.body)
	}
	do(t, s, http.MethodPatch, web+"/scale", `{"spec":{"replicas":-1}}`, "Content-Type", mergePatch).
		refused(t, http.StatusUnprocessableEntity, "Invalid", `Scale.autoscaling "web" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0`)
}

// The managers of an object may have written it in any version of its definition.
func TestScaleKeepsTheManagersOfOtherVersions(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{})
	do(t, s, http.MethodPost, definitions, `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"lakes.example.com"},
		"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"lakes","kind":"Lake"},"versions":[
		{"name":"v1","served":true,"storage":true,"subresources":{"scale":{"specReplicasPath":".spec.size","statusReplicasPath":".status.size"}}},
		{"name":"v2","served":true,"subresources":{"scale":{"specReplicasPath":".spec.replicas","statusReplicasPath":".status.replicas"}}},
		{"name":"v3","served":true}]}}`)
	at := func(version string) string { return "/apis/example.com/" + version + "/namespaces/default/lakes/blue" }
	for version, spec := range map[string]string{"v1": `"depth":1`, "v2": `"replicas":2`, "v3": `"colour":"blue"`} {
		a := do(t, s, http.MethodPatch, at(version)+"?fieldManager=of-"+version, `{"apiVersion":"example.com/`+version+`","kind":"Lake","metadata":{"name":"blue"},"spec":{`+spec+`}}`, "Content-Type", applyPatch)
		if a.code >= 300 {
			t.Fatalf("applying %s: %s", version, a.raw)
		}
	}
	if a := do(t, s, http.MethodPatch, at("v2")+"/scale?fieldManager=scaler", `{"spec":{"replicas":3}}`, "Content-Type", mergePatch); a.code != http.StatusOK || a.at("spec", "replicas") != "3" {
		t.Fatalf("scaling: %s", a.raw)
	}
	owners := field(get(t, s, at("v2")).body, "metadata", "managedFields")
	for _, want := range []string{"of-v1", "of-v3", "scaler"} {
		if !strings.Contains(owners, want) {
			t.Errorf("%s is not among the managers %s", want, owners)
		}
	}
}

func TestStatusOfBuiltInKindsTakesMetadata(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{})
	p := pod("a", "tier", "web")
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "x", UID: "y"}}
	fill(t, s, p)
	a := do(t, s, http.MethodPatch, pods+"/a/status", `{"metadata":{"labels":{"tier":"db"},"ownerReferences":null},"spec":{"nodeName":"n"},"status":{"phase":"Running"}}`, "Content-Type", mergePatch)
	if a.at("metadata", "labels", "tier") != "db" || a.at("status", "phase") != "Running" || a.at("spec", "nodeName") != "" || a.at("metadata", "ownerReferences") == "" {
		t.Errorf("got %v", a.body)
	}
}

func TestSigningRequestsAreApprovedBySubresource(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{})
	api := clientset(t, s).CertificatesV1().CertificateSigningRequests()
	csr, err := api.Create(t.Context(), &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Spec: certificatesv1.CertificateSigningRequestSpec{SignerName: "example.com/s"}}, metav1.CreateOptions{})
	if err != nil || csr.Spec.Username != "admin" || len(csr.Spec.Groups) != 2 {
		t.Fatalf("created by an administrator: %+v %v", csr, err)
	}
	csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Test"})
	csr.Status.Certificate, csr.Spec.SignerName = []byte("ignored"), "example.com/other"
	csr, err = api.UpdateApproval(t.Context(), "c", csr, metav1.UpdateOptions{})
	if err != nil || len(csr.Status.Conditions) != 1 || csr.Status.Certificate != nil || csr.Spec.SignerName != "example.com/s" || csr.Status.Conditions[0].LastUpdateTime.IsZero() {
		t.Fatalf("approval: %+v %v", csr, err)
	}
	csr.Status.Certificate = []byte("signed")
	if csr, err = api.UpdateStatus(t.Context(), csr, metav1.UpdateOptions{}); err != nil || string(csr.Status.Certificate) != "signed" || len(csr.Status.Conditions) != 1 {
		t.Errorf("status: %+v %v", csr, err)
	}
}

func TestASigningRequestRecordsItsCreator(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{})
	api := clientsetOf(t, s.ConfigFor("ann", "builders")).CertificatesV1().CertificateSigningRequests()
	csr := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: "c"}}
	csr.Spec = certificatesv1.CertificateSigningRequestSpec{SignerName: "example.com/s", Username: "bob", UID: "7", Groups: []string{"system:masters"}}
	csr, err := api.Create(t.Context(), csr, metav1.CreateOptions{})
	if err != nil || csr.Spec.Username != "ann" || csr.Spec.UID != "" || strings.Join(csr.Spec.Groups, " ") != "builders system:authenticated" || len(csr.Spec.Extra) != 1 {
		t.Errorf("got %+v %v", csr, err)
	}
}

func TestEvictionHonoursDisruptionBudgets(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{})
	api := clientset(t, s)
	running := func(name string, labels ...string) *corev1.Pod {
		p := pod(name, labels...)
		p.Spec.NodeName, p.Status.Phase = "n1", corev1.PodRunning
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		return p
	}
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default"},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "web"}}},
		Status:     policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 1, DisruptionsAllowed: 1, CurrentHealthy: 2, DesiredHealthy: 1},
	}
	fill(t, s, running("a", "tier", "web"), running("b", "tier", "web"), running("free"), budget)
	evict := func(name string, opts *metav1.DeleteOptions) error {
		return api.PolicyV1().Evictions("default").Evict(t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, DeleteOptions: opts})
	}
	before := version(s)
	if err := evict("a", &metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}); err != nil || version(s) != before {
		t.Errorf("a dry run wrote something: %v", err)
	}
	if err := evict("a", nil); err != nil {
		t.Fatal(err)
	}
	a, err := api.CoreV1().Pods("default").Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil || a.DeletionTimestamp == nil || a.Status.Conditions[1].Type != corev1.DisruptionTarget {
		t.Errorf("the evicted pod: %+v %v", a, err)
	}
	pdb, err := api.PolicyV1().PodDisruptionBudgets("default").Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil || pdb.Status.DisruptionsAllowed != 0 || len(pdb.Status.DisruptedPods) != 1 {
		t.Errorf("the budget: %+v %v", pdb, err)
	}
	pdb.Status.CurrentHealthy = 1
	if _, err := api.PolicyV1().PodDisruptionBudgets("default").UpdateStatus(t.Context(), pdb, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	err = evict("b", nil)
	if !apierrors.IsTooManyRequests(err) || !apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause) ||
		apierrors.APIStatus(err.(*apierrors.StatusError)).Status().Details.Causes[0].Message != "The disruption budget web needs 1 healthy pods and has 1 currently" {
		t.Errorf("the second eviction: %v", err)
	}
	if err := evict("free", nil); err != nil {
		t.Errorf("a pod without a budget: %v", err)
	}
}

func TestABindingAssignsAPodOnce(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{})
	fill(t, s, pod("a"))
	bind := func(query, node string) response {
		return do(t, s, http.MethodPost, pods+"/a/binding"+query, `{"apiVersion":"v1","kind":"Binding","metadata":{"name":"a","annotations":{"by":"me"}},"target":{"kind":"Node","name":"`+node+`"}}`)
	}
	before := version(s)
	if a := bind("?dryRun=All", "n1"); a.code != http.StatusCreated || version(s) != before {
		t.Errorf("dry run: %v", a.body)
	}
	if a := bind("", "n1"); a.code != http.StatusCreated {
		t.Fatalf("got %v", a.body)
	}
	if a := get(t, s, pods+"/a"); a.at("spec", "nodeName") != "n1" || a.at("metadata", "annotations", "by") != "me" || a.at("metadata", "generation") != "1" || !strings.Contains(a.at("status", "conditions"), "PodScheduled") {
		t.Errorf("got %v", a.body)
	}
	bind("", "n2").refused(t, http.StatusConflict, "Conflict", `Operation cannot be fulfilled on pods/binding "a": pod a is already assigned to node "n1"`)
}

func TestPodContainersChangeBySubresource(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{})
	fill(t, s, pod("a"))
	patch := func(subresource, body string) response {
		return do(t, s, http.MethodPatch, pods+"/a/"+subresource, body, "Content-Type", "application/strategic-merge-patch+json")
	}
	a := patch("ephemeralcontainers", `{"metadata":{"labels":{"ignored":"yes"}},"spec":{"nodeName":"ignored","ephemeralContainers":[{"name":"debug","image":"i"}]}}`)
	if a.at("spec", "ephemeralContainers") == "" || a.at("spec", "nodeName") != "" || a.at("metadata", "labels", "ignored") != "" || a.at("metadata", "generation") != "2" {
		t.Errorf("ephemeral containers: %v", a.body)
	}
	a = patch("resize", `{"spec":{"containers":[{"name":"main","image":"ignored","resources":{"requests":{"cpu":"2"}}}]}}`)
	if c := a.at("spec", "containers"); !strings.Contains(c, "cpu") || strings.Contains(c, "ignored") {
		t.Errorf("resize: %v", a.body)
	}
}

func TestNamespacesAreFinalizedBySubresource(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{})
	a := do(t, s, http.MethodPut, "/api/v1/namespaces/default/finalize", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"default"},"spec":{"finalizers":["example.com/f"]},"status":{"phase":"ignored"}}`)
	if a.at("spec", "finalizers") == "" || a.at("status", "phase") != "Active" {
		t.Errorf("got %v", a.body)
	}
	a = do(t, s, http.MethodPut, "/api/v1/namespaces/default", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"default"},"spec":{"finalizers":[]}}`)
	if a.at("spec", "finalizers") == "" {
		t.Errorf("an update changed the finalizers of the spec: %v", a.body)
	}
}

func TestWarnings(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{})
	if err := s.Define(apiserver.Definition{Resource: object.Resource{Group: "example.com", Version: "v1", Kind: "Widget", Resource: "widgets", Namespaced: true}}); err != nil {
		t.Fatal(err)
	}
	const prefer = `: prefer a domain-qualified finalizer name`
	for name, c := range map[string]struct{ method, path, body, typ, want string }{
		"deprecated":      {http.MethodGet, "/api/v1/endpoints", "", "", `299 - "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"`},
		"not deprecated":  {http.MethodGet, "/api/v1/pods", "", "", ""},
		"unknown field":   {http.MethodPost, "/api/v1/namespaces/default/configmaps", `{"metadata":{"name":"a"},"colour":"red"}`, "", `299 - "unknown field \"colour\""`},
		"duplicate field": {http.MethodPost, "/api/v1/namespaces/default/configmaps", `{"metadata":{"name":"b","name":"b"}}`, "", `299 - "duplicate field \"metadata.name\""`},
		"finalizer": {http.MethodPost, "/apis/example.com/v1/namespaces/default/widgets", `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a","finalizers":["f","example.com/f"]}}`, "",
			`299 - "metadata.finalizers: \"f\"` + prefer + ` to avoid accidental conflicts with other finalizer writers"`},
	} {
		resp := open(t, s, c.method, c.path, c.body, "Content-Type", "application/json")
		resp.Body.Close()
		if got := strings.Join(resp.Header.Values("Warning"), "; "); got != c.want || resp.StatusCode >= 300 {
			t.Errorf("%s: %d %s", name, resp.StatusCode, got)
		}
	}
}
