package apiserver_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/tarnproject/tarn/apiserver"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
)

func TestCreateSetsServerManagedFields(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{})
	api := clientset(t, s).CoreV1()
	p := pod("")
	p.GenerateName = "web-"
	p.UID, p.Generation, p.Status.Phase = "mine", 7, corev1.PodRunning
	made, err := api.Pods("default").Create(t.Context(), p, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(made.Name, "web-") || len(made.Name) != 9 || len(made.UID) != 36 || made.Generation != 1 ||
		made.CreationTimestamp.IsZero() || made.ResourceVersion != version(s) || made.Status.Phase != corev1.PodPending {
		t.Errorf("got %+v", made)
	}
	_, err = api.Pods("default").Create(t.Context(), pod(made.Name), metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		t.Errorf("again: %v", err)
	}
	_, err = api.Pods("nowhere").Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{})
	if !apierrors.IsNotFound(err) || !strings.Contains(err.Error(), `namespaces "nowhere" not found`) {
		t.Errorf("in a missing namespace: %v", err)
	}
	for want, p := range map[string]*corev1.Pod{"name or generateName is required": pod(""), "RFC 1123": pod("No Name")} {
		if _, err := s.Create(p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	do(t, s, http.MethodPost, pods, `{"metadata":{"name":"a","namespace":"kube-system"}}`, "Content-Type", "application/json").
		refused(t, http.StatusBadRequest, "BadRequest", "does not match the namespace")
	do(t, s, http.MethodPost, pods, `{"metadata":{"name":"a","resourceVersion":"5"}}`).refused(t, http.StatusInternalServerError, "", "resourceVersion should not be set")
	do(t, s, http.MethodPost, pods, `{"kind":"Node","apiVersion":"v1","metadata":{"name":"a"}}`).refused(t, http.StatusBadRequest, "BadRequest", "cannot be handled as a Pod")
	do(t, s, http.MethodPost, pods, `{"metadata":`).refused(t, http.StatusBadRequest, "BadRequest", "must be of type Pod")
	dry, err := api.Pods("default").Create(t.Context(), pod("dry"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil || dry.UID == "" {
		t.Errorf("dry run: %v %v", dry, err)
	}
	if a := get(t, s, pods+"/dry"); a.code != http.StatusNotFound {
		t.Errorf("a dry run left %s", a.raw)
	}
}

func TestUpdateDetectsConflictsAndIncrementsGeneration(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{})
	api := clientset(t, s).AppsV1().Deployments("default")
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	made, err := api.Create(t.Context(), d, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	labelled := made.DeepCopy()
	labelled.Labels = map[string]string{"a": "b"}
	labelled.Status.Replicas = 9 // ignored without the subresource
	labelled, err = api.Update(t.Context(), labelled, metav1.UpdateOptions{})
	if err != nil || labelled.Generation != 1 || labelled.Status.Replicas != 0 || labelled.ResourceVersion == made.ResourceVersion {
		t.Fatalf("labels: %+v %v", labelled, err)
	}
	if _, err := api.Update(t.Context(), made, metav1.UpdateOptions{}); !apierrors.IsConflict(err) || !strings.Contains(err.Error(), "the object has been modified") {
		t.Errorf("an old version: %v", err)
	}
	before := version(s)
	if same, err := api.Update(t.Context(), labelled, metav1.UpdateOptions{}); err != nil || same.ResourceVersion != labelled.ResourceVersion || version(s) != before {
		t.Errorf("no-op update used a version: %v %v", same, err)
	}
	three := int32(3)
	labelled.Spec.Replicas = &three
	scaled, err := api.Update(t.Context(), labelled, metav1.UpdateOptions{})
	if err != nil || scaled.Generation != 2 {
		t.Fatalf("spec: %+v %v", scaled, err)
	}
	scaled.Status.Replicas, scaled.Spec.Replicas, scaled.Labels["a"] = 2, nil, "c"
	status, err := api.UpdateStatus(t.Context(), scaled, metav1.UpdateOptions{})
	if err != nil || status.Generation != 2 || status.Status.Replicas != 2 || *status.Spec.Replicas != 3 || status.Labels["a"] != "c" {
		t.Fatalf("status: %+v %v", status, err)
	}
	scale, err := api.GetScale(t.Context(), "web", metav1.GetOptions{})
	if err != nil || scale.Spec.Replicas != 3 || scale.Status.Replicas != 2 {
		t.Fatalf("scale: %+v %v", scale, err)
	}
	scale.Spec.Replicas = 5
	if scale, err = api.UpdateScale(t.Context(), "web", scale, metav1.UpdateOptions{}); err != nil || scale.Spec.Replicas != 5 {
		t.Errorf("scale: %+v %v", scale, err)
	}
	stale := &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Name: "web", ResourceVersion: made.ResourceVersion}}
	if _, err := api.UpdateScale(t.Context(), "web", stale, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("stale scale: %v", err)
	}
	other := made.DeepCopy()
	other.UID, other.ResourceVersion = "another", ""
	if _, err := api.Update(t.Context(), other, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("another UID: %v", err)
	}
	other.Name = "absent"
	if _, err := api.Update(t.Context(), other, metav1.UpdateOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("absent: %v", err)
	}
}

func TestPatchTypes(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{})
	api := clientset(t, s).CoreV1().Pods("default")
	p := pod("a", "tier", "web")
	p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "side", Image: "side:1"})
	fill(t, s, p)
	patch := func(how types.PatchType, body string, opts metav1.PatchOptions) (*corev1.Pod, error) {
		return api.Patch(t.Context(), "a", how, []byte(body), opts)
	}
	got, err := patch(types.StrategicMergePatchType, `{"spec":{"containers":[{"name":"side","image":"side:2"}]}}`, metav1.PatchOptions{})
	if err != nil || len(got.Spec.Containers) != 2 || got.Spec.Containers[1].Image != "side:2" || got.Generation != 2 {
		t.Fatalf("strategic: %+v %v", got, err)
	}
	got, err = patch(types.MergePatchType, `{"metadata":{"labels":{"tier":null,"new":"yes"}}}`, metav1.PatchOptions{})
	if err != nil || len(got.Labels) != 1 || got.Labels["new"] != "yes" {
		t.Fatalf("merge: %+v %v", got, err)
	}
	got, err = patch(types.JSONPatchType, `[{"op":"test","path":"/metadata/labels/new","value":"yes"},
		{"op":"add","path":"/metadata/labels/a~1b","value":"c"},{"op":"remove","path":"/spec/containers/0"},
		{"op":"copy","from":"/metadata/labels/new","path":"/metadata/labels/copied"},{"op":"move","from":"/metadata/labels/new","path":"/metadata/labels/moved"}]`, metav1.PatchOptions{})
	if err != nil || len(got.Spec.Containers) != 1 || got.Labels["a/b"] != "c" || got.Labels["copied"] != "yes" || got.Labels["moved"] != "yes" || got.Labels["new"] != "" {
		t.Fatalf("json: %+v %v", got, err)
	}
	if _, err = patch(types.JSONPatchType, `[{"op":"test","path":"/metadata/labels/moved","value":"no"}]`, metav1.PatchOptions{}); err == nil {
		t.Error("patch with a failing test was applied")
	}
	if _, err = patch(types.MergePatchType, `{"metadata":{"resourceVersion":"1"}}`, metav1.PatchOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("a patch of an old version: %v", err)
	}
	if _, err = patch("text/plain", `x`, metav1.PatchOptions{}); !apierrors.IsUnsupportedMediaType(err) {
		t.Errorf("an unknown patch: %v", err)
	}
	if _, err = patch(types.MergePatchType, `{"metadata":{"name":"b"}}`, metav1.PatchOptions{}); !apierrors.IsBadRequest(err) {
		t.Errorf("a patch of the name: %v", err)
	}
}

func TestServerSideApplyMergesAndFindsConflicts(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{})
	api := clientset(t, s).CoreV1().Pods("default")
	apply := func(manager, spec string, force bool) (*corev1.Pod, error) {
		return api.Patch(t.Context(), "a", types.ApplyPatchType, []byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},`+spec+`}`),
			metav1.PatchOptions{FieldManager: manager, Force: &force})
	}
	got, err := apply("one", `"spec":{"containers":[{"name":"x","image":"x:1"}]}`, false)
	if err != nil || len(got.ManagedFields) != 1 || got.UID == "" {
		t.Fatalf("created: %+v %v", got, err)
	}
	got, err = apply("two", `"spec":{"containers":[{"name":"y","image":"y:1"}]}`, false)
	if err != nil || len(got.Spec.Containers) != 2 {
		t.Fatalf("two managers, two containers: %+v %v", got, err)
	}
	if _, err = apply("two", `"spec":{"containers":[{"name":"x","image":"x:2"}]}`, false); !apierrors.IsConflict(err) || !strings.Contains(err.Error(), `conflict with "one"`) {
		t.Errorf("another's field: %v", err)
	}
	got, err = apply("two", `"spec":{"containers":[{"name":"x","image":"x:2"}]}`, true)
	if err != nil || len(got.Spec.Containers) != 1 || got.Spec.Containers[0].Image != "x:2" {
		t.Fatalf("forced, and y was given up: %+v %v", got, err)
	}
	before := version(s)
	if _, err = apply("two", `"spec":{"containers":[{"name":"x","image":"x:2"}]}`, true); err != nil || version(s) != before {
		t.Errorf("no-op apply used a version: %v", err)
	}
	got.Spec.Containers[0].Image = "x:3"
	if got, err = api.Update(t.Context(), got, metav1.UpdateOptions{FieldManager: "three"}); err != nil || len(got.ManagedFields) != 3 {
		t.Errorf("an update takes ownership: %+v %v", got.ManagedFields, err)
	}
	got, err = api.ApplyStatus(t.Context(), applycorev1.Pod("a", "default").WithStatus(applycorev1.PodStatus().WithPhase(corev1.PodRunning)), metav1.ApplyOptions{FieldManager: "kubelet"})
	bySubresource := func(e metav1.ManagedFieldsEntry) bool { return e.Manager == "kubelet" && e.Subresource == "status" }
	if err != nil || got.Status.Phase != corev1.PodRunning || len(got.Spec.Containers) != 1 || !slices.ContainsFunc(got.ManagedFields, bySubresource) {
		t.Errorf("the status: %+v %v", got, err)
	}
	do(t, s, http.MethodPatch, pods+"/a", "{}", "Content-Type", "application/apply-patch+yaml").refused(t, http.StatusUnprocessableEntity, "Invalid", "fieldManager")
	if err := s.Define(apiserver.Definition{Resource: lakes}); err != nil {
		t.Fatal(err)
	}
	const yaml = "apiVersion: example.com/v1\nkind: Lake\nmetadata: {name: blue}\nspec: {depth: 3}\n"
	for _, code := range []int{http.StatusCreated, http.StatusOK} {
		a := do(t, s, http.MethodPatch, "/apis/example.com/v1/namespaces/default/lakes/blue?fieldManager=me", yaml, "Content-Type", "application/apply-patch+yaml")
		if a.code != code || a.at("spec", "depth") != "3" || !strings.Contains(a.raw, `"f:depth"`) {
			t.Errorf("got %d %s", a.code, a.raw)
		}
	}
}

func TestDeletePreconditionsFinalizersAndGracePeriod(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{})
	api := clientset(t, s).CoreV1().Pods("default")
	kept := pod("kept")
	kept.Finalizers = []string{"example.com/wait"}
	running := pod("running")
	running.Spec.NodeName = "n1"
	fill(t, s, pod("plain"), kept, running)
	wrong, right := types.UID("wrong"), must(api.Get(t.Context(), "plain", metav1.GetOptions{})).UID
	if err := api.Delete(t.Context(), "plain", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &wrong}}); !apierrors.IsConflict(err) {
		t.Errorf("a wrong UID: %v", err)
	}
	if err := api.Delete(t.Context(), "plain", metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
		t.Errorf("dry run: %v", err)
	}
	if err := api.Delete(t.Context(), "plain", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &right}}); err != nil {
		t.Errorf("the right UID: %v", err)
	}
	if err := api.Delete(t.Context(), "plain", metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("twice: %v", err)
	}

	w := watching(t, s, pods+"?watch=1&fieldSelector=metadata.name%3Dkept&resourceVersion="+version(s))
	if err := api.Delete(t.Context(), "kept", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	marked := must(api.Get(t.Context(), "kept", metav1.GetOptions{}))
	if marked.DeletionTimestamp == nil || *marked.DeletionGracePeriodSeconds != 0 {
		t.Errorf("not marked: %+v", marked)
	}
	before := version(s)
	if err := api.Delete(t.Context(), "kept", metav1.DeleteOptions{}); err != nil || version(s) != before {
		t.Errorf("deleting a terminating object: %v", err)
	}
	marked.Finalizers = append(marked.Finalizers, "example.com/late")
	if _, err := api.Update(t.Context(), marked, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("new finalizer on a terminating object: %v", err)
	}
	marked.Finalizers = nil
	if _, err := api.Update(t.Context(), marked, metav1.UpdateOptions{}); err != nil {
		t.Error(err)
	}
	// The update that removes the last finalizer is not sent as an event.
	w.expect(t, "MODIFIED kept "+before, "DELETED kept "+version(s))

	if err := api.Delete(t.Context(), "running", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if p := must(api.Get(t.Context(), "running", metav1.GetOptions{})); p.DeletionTimestamp == nil || *p.DeletionGracePeriodSeconds != 30 {
		t.Errorf("running pod without grace period: %+v", p)
	}
	if err := api.Delete(t.Context(), "running", *metav1.NewDeleteOptions(0)); err != nil {
		t.Fatal(err)
	}
	if a := get(t, s, pods+"/running"); a.code != http.StatusNotFound {
		t.Errorf("without grace it is still there: %s", a.raw)
	}
	fill(t, s, pod("x", "n", "1"), pod("y", "n", "1"), pod("z"))
	if err := api.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "n=1"}); err != nil {
		t.Fatal(err)
	}
	if a := get(t, s, pods); strings.Join(a.names(), " ") != "z" {
		t.Errorf("left are %v", a.names())
	}
	if err := api.EvictV1(t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "z", Namespace: "default"}}); err != nil {
		t.Error(err)
	}
	if a := get(t, s, pods); len(a.names()) != 0 {
		t.Errorf("after the eviction there are %v", a.names())
	}
}

func owned(name, kind, owner string, uid types.UID) *corev1.ConfigMap {
	yes := true
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "v1", Kind: kind, Name: owner, UID: uid, BlockOwnerDeletion: &yes}}}}
}

func TestGarbageCollection(t *testing.T) {
	const maps = "/api/v1/namespaces/default/configmaps"
	for policy, want := range map[metav1.DeletionPropagation]string{
		metav1.DeletePropagationBackground: "shared", metav1.DeletePropagationForeground: "shared", metav1.DeletePropagationOrphan: "child grandchild shared",
	} {
		s := apiserver.Start(t, apiserver.Options{CollectGarbage: true})
		api := clientset(t, s).CoreV1()
		fill(t, s, pod("root"))
		root := must(api.Pods("default").Get(t.Context(), "root", metav1.GetOptions{}))
		fill(t, s, owned("child", "Pod", "root", root.UID))
		child := must(api.ConfigMaps("default").Get(t.Context(), "child", metav1.GetOptions{}))
		fill(t, s, owned("grandchild", "ConfigMap", "child", child.UID))
		// One of two owners remains.
		shared := owned("shared", "Pod", "root", root.UID)
		other := owned("x", "Namespace", "default", must(api.Namespaces().Get(t.Context(), "default", metav1.GetOptions{})).UID)
		shared.OwnerReferences = append(shared.OwnerReferences, other.OwnerReferences...)
		shared.OwnerReferences[0].BlockOwnerDeletion = nil
		fill(t, s, shared)
		if err := api.Pods("default").Delete(t.Context(), "root", metav1.DeleteOptions{PropagationPolicy: &policy}); err != nil {
			t.Fatal(err)
		}
		if a := get(t, s, maps); strings.Join(a.names(), " ") != want {
			t.Errorf("%s: left are %v", policy, a.names())
		}
		if a := get(t, s, pods); len(a.names()) != 0 {
			t.Errorf("%s: the root is still there: %s", policy, a.raw)
		}
	}
}

func TestDeletingANamespaceDeletesItsContent(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{})
	kept := pod("kept")
	kept.Namespace, kept.Finalizers = "shop", []string{"example.com/wait"}
	gone := pod("gone")
	gone.Namespace = "shop"
	fill(t, s, namespace("shop"), kept, gone)
	api := clientset(t, s).CoreV1()
	if err := api.Namespaces().Delete(t.Context(), "shop", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if ns := must(api.Namespaces().Get(t.Context(), "shop", metav1.GetOptions{})); ns.Status.Phase != corev1.NamespaceTerminating {
		t.Errorf("got %+v", ns)
	}
	if _, err := api.Pods("shop").Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "late"}}, metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("creating in it: %v", err)
	}
	list := must(api.Pods("shop").List(t.Context(), listAll))
	if len(list.Items) != 1 {
		t.Fatalf("left are %d pods", len(list.Items))
	}
	list.Items[0].Finalizers = nil
	must(api.Pods("shop").Update(t.Context(), &list.Items[0], metav1.UpdateOptions{}))
	if _, err := api.Namespaces().Get(t.Context(), "shop", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the namespace is still there: %v", err)
	}
}
