package apiserver_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/object"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

const lakesCRD = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: lakes.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: lakes, kind: Lake}
  versions: [{name: v1, served: true, storage: true}]
`

func TestLoadCreatesWhatOthersNeedFirst(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{})
	files := fstest.MapFS{
		"a/objects.yaml": {Data: []byte("# the objects\n---\napiVersion: example.com/v1\nkind: Lake\nmetadata: {name: blue, namespace: shop}\n---\n" +
			`{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "shop"}, "status": {"phase": "Running"}}]}`)},
		"b/crd.yml":        {Data: []byte(lakesCRD)},
		"c/namespace.json": {Data: []byte(`{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}`)},
		"README.md":        {Data: []byte("not: {an object")},
	}
	if err := s.Load(files); err != nil {
		t.Fatal(err)
	}
	if err := s.LoadYAML([]byte("apiVersion: v1\nkind: Namespace\nmetadata: {name: default, labels: {a: b}}\n")); err != nil {
		t.Errorf("a namespace that exists: %v", err)
	}
	key := object.Key{Namespace: "shop", Name: "web"}
	if p := must(s.Get(corev1.SchemeGroupVersion.WithResource("pods"), key)).(*corev1.Pod); p.Status.Phase != corev1.PodRunning {
		t.Errorf("%+v", p.Status)
	}
	want := "apiVersion: example.com/v1\nkind: Lake\nmetadata:\n  name: blue\n  namespace: shop\n"
	if got := string(s.Dump("lakes.example.com")); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// An export of a cluster has objects that every server has, and some of them twice.
func TestLoadReplacesExistingObjects(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{Strict: true, RBAC: true})
	const export = `apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Namespace, metadata: {name: default, uid: a, resourceVersion: "7", labels: {team: a}}, status: {phase: Active}}
- apiVersion: v1
  kind: Service
  metadata: {name: kubernetes, namespace: default, uid: b, resourceVersion: "8", creationTimestamp: "2024-01-01T00:00:00Z", labels: {provider: theirs}}
  spec: {clusterIP: 10.96.0.1, clusterIPs: [10.96.0.1], ports: [{name: https, port: 443, protocol: TCP, targetPort: 6443}], type: ClusterIP}
- {apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: view, uid: c, resourceVersion: "9", labels: {provider: theirs}}}
- {apiVersion: v1, kind: ServiceAccount, metadata: {name: default, uid: d, resourceVersion: "10"}}
- {apiVersion: v1, kind: Event, metadata: {name: e, namespace: default, uid: e}, involvedObject: {kind: Pod, name: web, namespace: default}}
- {apiVersion: events.k8s.io/v1, kind: Event, metadata: {name: e, namespace: default, uid: e}, regarding: {kind: Pod, name: web, namespace: default}, eventTime: null}
`
	for range 2 {
		if err := s.LoadYAML([]byte(export)); err != nil {
			t.Fatal(err)
		}
	}
	svc := must(s.Get(corev1.SchemeGroupVersion.WithResource("services"), object.Key{Namespace: "default", Name: "kubernetes"})).(*corev1.Service)
	if svc.Labels["provider"] != "theirs" || svc.UID == "b" || svc.Spec.ClusterIP != "10.96.0.1" {
		t.Errorf("%+v", svc)
	}
	if ns := must(s.Get(corev1.SchemeGroupVersion.WithResource("namespaces"), object.Key{Name: "default"})).(*corev1.Namespace); ns.Labels["team"] != "a" {
		t.Errorf("%+v", ns)
	}
}

// Another cluster has other UIDs and another range of cluster IPs.
func TestLoadAnExportOfAnotherCluster(t *testing.T) {
	const export = `apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Pod
  metadata:
    name: count-x7
    namespace: default
    labels: {app: count, batch.kubernetes.io/controller-uid: theirs, batch.kubernetes.io/job-name: count, controller-uid: theirs, job-name: count}
    ownerReferences: [{apiVersion: batch/v1, kind: Job, name: count, uid: theirs, controller: true}]
  spec: {restartPolicy: Never, containers: [{name: a, image: b}]}
- apiVersion: batch/v1
  kind: Job
  metadata:
    name: count
    namespace: default
    uid: theirs
    labels: {batch.kubernetes.io/controller-uid: theirs, batch.kubernetes.io/job-name: count, controller-uid: theirs, job-name: count}
  spec:
    manualSelector: false
    selector: {matchLabels: {SELECTOR: theirs}}
    template:
      metadata: {labels: {batch.kubernetes.io/controller-uid: theirs, batch.kubernetes.io/job-name: count, controller-uid: theirs, job-name: count}}
      spec: {restartPolicy: Never, containers: [{name: a, image: b}]}
  status: {active: 1}
- apiVersion: v1
  kind: Service
  metadata: {name: kubernetes, namespace: default}
  spec: {clusterIP: 10.43.0.1, clusterIPs: [10.43.0.1], ipFamilies: [IPv4], ipFamilyPolicy: SingleStack, ports: [{name: https, port: 443, targetPort: 6443}], type: ClusterIP}
- apiVersion: v1
  kind: Service
  metadata: {name: web, namespace: default}
  spec: {clusterIP: 10.43.7.7, clusterIPs: [10.43.7.7, "fd00::7"], ipFamilies: [IPv4, IPv6], ipFamilyPolicy: RequireDualStack, ports: [{port: 80}], selector: {app: web}}
- apiVersion: v1
  kind: Service
  metadata: {name: headless, namespace: default}
  spec: {clusterIP: None, clusterIPs: [None], ipFamilies: [IPv4, IPv6], ipFamilyPolicy: PreferDualStack, ports: [{port: 80}], selector: {app: web}}
- apiVersion: v1
  kind: Service
  metadata: {name: kept, namespace: default}
  spec: {clusterIP: 10.96.7.7, clusterIPs: [10.96.7.7], ports: [{port: 80}], selector: {app: web}}
`
	for _, selector := range []string{"batch.kubernetes.io/controller-uid", "controller-uid"} { // the second before Kubernetes 1.27
		s := apiserver.Start(t, apiserver.Options{Strict: true})
		dumps := [2]string{}
		for i := range dumps {
			if err := s.LoadYAML([]byte(strings.Replace(export, "SELECTOR", selector, 1))); err != nil {
				t.Fatal(err)
			}
			dumps[i] = string(s.Dump())
		}
		if dumps[0] != dumps[1] {
			t.Errorf("loaded once\n%s\nand twice\n%s", dumps[0], dumps[1])
		}
		job := must(s.Get(batchv1.SchemeGroupVersion.WithResource("jobs"), object.Key{Namespace: "default", Name: "count"})).(*batchv1.Job)
		pod := must(s.Get(corev1.SchemeGroupVersion.WithResource("pods"), object.Key{Namespace: "default", Name: "count-x7"})).(*corev1.Pod)
		if got := job.Spec.Selector.MatchLabels; len(got) != 1 || got["batch.kubernetes.io/controller-uid"] != string(job.UID) || job.Status.Active != 1 {
			t.Errorf("the selector is %v, the status is %+v", got, job.Status)
		}
		for what, labels := range map[string]map[string]string{"job": job.Labels, "template": job.Spec.Template.Labels, "pod": pod.Labels} {
			for _, name := range []string{"batch.kubernetes.io/controller-uid", "controller-uid"} {
				if labels[name] != string(job.UID) {
					t.Errorf("the labels of the %s of Job %s are %v", what, job.UID, labels)
				}
			}
		}
		if refs := pod.OwnerReferences; len(refs) != 1 || refs[0].UID != job.UID {
			t.Errorf("the owner is %v", refs)
		}
		for name, want := range map[string]string{"kubernetes": "10.96.0.1", "web": "10.", "headless": "None", "kept": "10.96.7.7"} {
			svc := must(s.Get(corev1.SchemeGroupVersion.WithResource("services"), object.Key{Namespace: "default", Name: name})).(*corev1.Service)
			if ip := svc.Spec.ClusterIP; !strings.HasPrefix(ip, want) || strings.HasPrefix(ip, "10.43.") || len(svc.Spec.ClusterIPs) != 1 {
				t.Errorf("%s has the addresses %v", name, svc.Spec.ClusterIPs)
			}
		}
	}
}

// A manifest does not have what the server, the scheduler and other controllers have set.
func TestLoadAManifestAgain(t *testing.T) {
	const manifest = `apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop}
spec: {containers: [{name: a, image: b}]}
---
apiVersion: batch/v1
kind: Job
metadata: {name: count, namespace: shop}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: b}]}}}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {type: NodePort, ports: [{port: 80}]}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, namespace: shop}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
` + lakesCRD
	s := apiserver.Start(t, apiserver.Options{Strict: true})
	load := func() {
		t.Helper()
		if err := s.LoadYAML([]byte(manifest)); err != nil {
			t.Fatal(err)
		}
	}
	load()
	pod := must(s.Get(corev1.SchemeGroupVersion.WithResource("pods"), object.Key{Namespace: "shop", Name: "web"})).(*corev1.Pod).DeepCopy()
	pod.Spec.NodeName, pod.Status.Phase = "node-1", corev1.PodRunning
	claim := must(s.Get(corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims"), object.Key{Namespace: "shop", Name: "data"})).(*corev1.PersistentVolumeClaim).DeepCopy()
	claim.Spec.VolumeName = "volume-1"
	must(s.Update(pod))
	must(s.Update(claim))
	before := string(s.Dump())
	load()
	if after := string(s.Dump()); after != before {
		t.Errorf("was\n%s\nand is\n%s", before, after)
	}
}

// kubebuilder writes the files of kustomize without apiVersion and kind.
func TestLoadSkipsTheFilesOfKustomize(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{Strict: true})
	err := s.Load(fstest.MapFS{
		"rbac/kustomization.yaml":     {Data: []byte("resources:\n- role.yaml\n")},
		"rbac/role.yaml":              {Data: []byte("apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: manager}\n")},
		"crd/kustomization.yml":       {Data: []byte("resources:\n- bases/lakes.yaml\nconfigurations:\n- kustomizeconfig.yaml\n")},
		"crd/kustomizeconfig.yaml":    {Data: []byte("nameReference:\n- kind: Service\n  version: v1\n")},
		"crd/bases/lakes.yaml":        {Data: []byte(lakesCRD)},
		"manager/Kustomization":       {Data: []byte("resources:\n- manager.yaml\n")},
		"manager/mykustomization.yml": {Data: []byte("apiVersion: v1\nkind: Namespace\nmetadata: {name: system}\n")},
	})
	if err != nil {
		t.Fatal(err)
	}
	if dump := string(s.Dump()); strings.Count(dump, "kind: ClusterRole\n") != 1 || !strings.Contains(dump, "name: lakes.example.com") || !strings.Contains(dump, "name: system") {
		t.Error(dump)
	}
}

func TestLoadRejectsNil(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{})
	for _, objs := range [][]runtime.Object{{nil}, {pod("a"), (*corev1.Pod)(nil)}} {
		want := fmt.Sprintf("object %d of %[1]d is nil", len(objs))
		if err := s.LoadObjects(objs...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
	if dump := string(s.Dump("pods")); dump != "" {
		t.Error(dump)
	}
}

func TestLoadNamesTheDocumentThatFailed(t *testing.T) {
	const pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n"
	for text, want := range map[string]string{
		pod + "---\na: b: c\n":         "a.yaml, document 2: mapping values",
		"apiVersion: v1\nkind: Lake\n": "a.yaml, document 1: unknown kind Lake in v1; is its CustomResourceDefinition missing?",
		"apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: shop}\n": `a.yaml, document 1: namespaces "shop" not found`,
	} {
		err := apiserver.Start(t, apiserver.Options{}).Load(fstest.MapFS{"a.yaml": {Data: []byte(text)}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
		if apierrors.IsNotFound(err) != strings.Contains(want, "not found") {
			t.Errorf("the error is %#v", err)
		}
	}
}

func TestOwnerReferencesToOtherLoadedObjectsAreKept(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{CollectGarbage: true})
	made := func(name, owner string) runtime.Object {
		m := metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID("uid-of-" + name)}
		if owner != "" {
			m.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: owner, UID: types.UID("uid-of-" + owner)}}
		}
		return &corev1.ConfigMap{ObjectMeta: m}
	}
	tree := must(runtime.DefaultUnstructuredConverter.ToUnstructured(made("z", "")))
	tree["apiVersion"], tree["kind"] = "v1", "ConfigMap"
	// The owner comes last, and one owner is missing.
	if err := s.LoadObjects(made("a", "z"), made("b", "absent"), &unstructured.Unstructured{Object: tree}); err != nil {
		t.Fatal(err)
	}
	find := func(name string) metav1.Object {
		return must(s.Get(corev1.SchemeGroupVersion.WithResource("configmaps"), object.Key{Namespace: "default", Name: name})).(metav1.Object)
	}
	if refs := find("a").GetOwnerReferences(); len(refs) != 1 || refs[0].UID != find("z").GetUID() {
		t.Errorf("the owner of a: %v", refs)
	}
	if refs := find("b").GetOwnerReferences(); len(refs) != 0 {
		t.Errorf("the owner of b: %v", refs)
	}
}

func TestDumpsOfTheSameStateAreEqual(t *testing.T) {
	var dumps [2]string
	for i := range dumps {
		s := apiserver.Start(t, apiserver.Options{Seed: uint64(i + 1)})
		fill(t, s, pod("unrelated")) // moves the versions
		if err := s.Delete(pod("unrelated")); err != nil {
			t.Fatal(err)
		}
		owner := must(s.Create(pod("web"))).(*corev1.Pod)
		for _, image := range []string{"one", "two"} {
			child := pod("")
			child.GenerateName, child.Spec.Containers[0].Image = "web-", image
			child.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "web", UID: owner.UID}, {APIVersion: "v1", Kind: "Pod", Name: "lost", UID: types.UID(strings.Repeat("0", 8) + "-0000-0000-0000-000000000000")}}
			made := must(s.Create(child)).(*corev1.Pod)
			fill(t, s, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "of-" + image}, Data: map[string]string{"pod": made.Name, "uid": string(made.UID), "at": "2026-01-02T00:00:00Z"}})
		}
		dumps[i] = string(s.Dump())
	}
	if dumps[0] != dumps[1] {
		t.Errorf("%s\nand\n%s", dumps[0], dumps[1])
	}
	for _, want := range []string{"name: web-<generated>", "uid: <uid of Pod default/web>", "uid: <uid>", "pod: web-<generated>", "uid: <uid of Pod default/web-<generated>>", "at: <time>"} {
		if !strings.Contains(dumps[0], want) {
			t.Errorf("no %q in\n%s", want, dumps[0])
		}
	}
	if strings.Contains(dumps[0], "kube-system") || strings.Contains(dumps[0], "null") {
		t.Error(dumps[0])
	}
}

// How often a spec changed differs from run to run, and whether the status is of the last change
// does not.
func TestDumpComparesTheObservedGeneration(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{})
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default"}}
	fill(t, s, d)
	d.Spec.MinReadySeconds = 1
	for observed, want := range map[int]string{1: "observedGeneration: <not the generation>\n", 2: "observedGeneration: <generation>\n"} {
		d.Status.ObservedGeneration = int64(observed)
		must(s.Update(d))
		if dump := string(s.Dump()); !strings.Contains(dump, want) || strings.Contains(dump, " generation:") {
			t.Errorf("observed %d:\n%s", observed, dump)
		}
	}
}
