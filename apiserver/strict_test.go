package apiserver_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/object"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

const webDeployment = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"},"spec":{
	"selector":{"matchLabels":{"app":"web"}},
	"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"main","image":"example.com/web:1"}]}}}}`

func strictServer(t *testing.T) (*apiserver.Server, *kubernetes.Clientset) {
	t.Helper()
	server := apiserver.Start(t, apiserver.Options{Strict: true})
	clients, err := kubernetes.NewForConfig(server.Config())
	if err != nil {
		t.Fatal(err)
	}
	return server, clients
}

// Creates, updates, patches and applies are defaulted and validated, and so are the objects of
// the methods in Go.
func TestStrictDefaultsAndValidatesEveryWrite(t *testing.T) {
	server, clients := strictServer(t)
	deployments := clients.AppsV1().Deployments("default")
	patch := func(typ types.PatchType, body string) (*appsv1.Deployment, error) {
		return deployments.Patch(t.Context(), "web", typ, []byte(body), metav1.PatchOptions{FieldManager: "test"})
	}
	d, err := patch(types.ApplyYAMLPatchType, webDeployment)
	if err != nil || d.Spec.Replicas == nil || *d.Spec.Replicas != 1 || d.Spec.Template.Spec.DNSPolicy != corev1.DNSClusterFirst {
		t.Fatalf("apply: %v, %+v", err, d)
	}
	if d, err = patch(types.MergePatchType, `{"spec":{"replicas":null,"strategy":null}}`); err != nil || *d.Spec.Replicas != 1 || d.Generation != 1 {
		t.Errorf("patch: %v, %+v", err, d)
	}
	d.Spec.Selector.MatchLabels["app"] = "other"
	_, err = deployments.Update(t.Context(), d, metav1.UpdateOptions{})
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), `spec.selector: Invalid value: {"matchLabels":{"app":"other"}}: field is immutable`) {
		t.Errorf("update: %v", err)
	}
	if _, err := patch(types.MergePatchType, `{"spec":{"replicas":-1}}`); !apierrors.IsInvalid(err) {
		t.Errorf("patch: %v", err)
	}
	if _, err := server.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "empty"}}); !apierrors.IsInvalid(err) {
		t.Errorf("Create: %v", err)
	}
	if _, err := deployments.UpdateStatus(t.Context(), &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Status: appsv1.DeploymentStatus{Replicas: -1}}, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("status: %v", err)
	}
}

// A test in Go may play the scheduler.
func TestStrictUpdatesMayBindPods(t *testing.T) {
	server, clients := strictServer(t)
	made, err := server.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "web"}}}})
	if err != nil {
		t.Fatal(err)
	}
	pod := made.DeepCopyObject().(*corev1.Pod)
	pod.Spec.NodeName = "one"
	if _, err := clients.CoreV1().Pods("default").Update(t.Context(), pod, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("a client binds a pod by an update: %v", err)
	}
	if _, err := server.Update(pod); err != nil {
		t.Error(err)
	}
	pod.Spec.NodeName, pod.ResourceVersion = "two", ""
	if _, err := server.Update(pod); !apierrors.IsInvalid(err) {
		t.Errorf("a pod moves: %v", err)
	}
}

func TestWithoutStrictIncompleteObjectsAreStored(t *testing.T) {
	server := apiserver.Start(t, apiserver.Options{})
	obj, err := server.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "empty"}})
	if err != nil || obj.(*corev1.Pod).Spec.DNSPolicy != "" {
		t.Errorf("%v, %+v", err, obj)
	}
	if _, err := server.Get(corev1.SchemeGroupVersion.WithResource("services"), object.Key{Namespace: "default", Name: "kubernetes"}); !apierrors.IsNotFound(err) {
		t.Errorf("the service kubernetes: %v", err)
	}
}

func TestStrictServicesKeepWhatIsAllocated(t *testing.T) {
	_, clients := strictServer(t)
	services := clients.CoreV1().Services("default")
	made := map[string]bool{}
	for _, name := range []string{"a", "b"} {
		svc, err := services.Create(t.Context(), &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Port: 80}}},
		}, metav1.CreateOptions{})
		if err != nil || made[svc.Spec.ClusterIP] || svc.Spec.ClusterIP == "" || svc.Spec.Ports[0].NodePort == 0 {
			t.Fatalf("%v, %+v", err, svc)
		}
		made[svc.Spec.ClusterIP] = true
		next, err := services.Update(t.Context(), &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Port: 81}}},
		}, metav1.UpdateOptions{})
		if err != nil || next.Spec.ClusterIP != svc.Spec.ClusterIP || next.Spec.Ports[0].NodePort != svc.Spec.Ports[0].NodePort {
			t.Errorf("%v, %+v", err, next)
		}
	}
}

func TestStrictServersHaveTheServiceKubernetes(t *testing.T) {
	server, clients := strictServer(t)
	svc, err := clients.CoreV1().Services("default").Get(t.Context(), "kubernetes", metav1.GetOptions{})
	if err != nil || svc.Spec.ClusterIP != "10.96.0.1" || svc.Spec.Ports[0].Port != 443 {
		t.Errorf("%v, %+v", err, svc)
	}
	slices, err := clients.DiscoveryV1().EndpointSlices("default").List(t.Context(), metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=kubernetes"})
	if err != nil || len(slices.Items) != 1 {
		t.Errorf("%v, %+v", err, slices)
	}
	// A dump has what the test created.
	if dump := string(server.Dump()); strings.Contains(dump, "kind: Service\n") {
		t.Errorf("the dump has the service kubernetes:\n%s", dump)
	}
}

func TestBuiltInKindsAreInOpenAPI(t *testing.T) {
	_, clients := strictServer(t)
	raw, err := clients.RESTClient().Get().AbsPath("/openapi/v3/api/v1").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Components struct {
			Schemas map[string]struct {
				Required   []string
				Properties map[string]struct{ Description string }
			}
		}
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	pod := doc.Components.Schemas["io.k8s.api.core.v1.PodSpec"]
	if len(pod.Required) != 1 || pod.Required[0] != "containers" || !strings.HasPrefix(pod.Properties["containers"].Description, "List of containers") {
		t.Errorf("%+v", pod)
	}
}

// A service that is created while another one is written can get neither its cluster IP nor its
// node port. The webhook runs between the allocation and the write.
func TestConcurrentServicesGetDifferentAddresses(t *testing.T) {
	server, clients := strictServer(t)
	services := clients.CoreV1().Services("default")
	made := func(name string, typ corev1.ServiceType) *corev1.Service {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, Spec: corev1.ServiceSpec{Type: typ, Ports: []corev1.ServicePort{{Port: 80}}}}
	}
	var calls atomic.Int32
	server.HandleWebhook("hooks", "a", &hook{answer: func(r *admissionv1.AdmissionRequest) admissionv1.AdmissionResponse {
		var svc corev1.Service
		if err := json.Unmarshal(r.Object.Raw, &svc); err != nil || calls.Add(1)%2 == 0 {
			return admissionv1.AdmissionResponse{Allowed: err == nil} // the second try
		}
		other := made("other-of-"+svc.Name, corev1.ServiceTypeNodePort)
		other.Spec.Ports[0].NodePort = svc.Spec.Ports[0].NodePort
		if r.Operation == "CREATE" {
			other.Spec.ClusterIP = svc.Spec.ClusterIP
		}
		_, err := server.Create(other)
		return admissionv1.AdmissionResponse{Allowed: err == nil}
	}})
	hooks := validating("a", func(w *admissionregistrationv1.MutatingWebhook) { w.Rules[0].Resources = []string{"services"} })
	created, err := services.Create(t.Context(), made("plain", corev1.ServiceTypeClusterIP), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := server.Create(hooks); err != nil {
		t.Fatal(err)
	}
	if _, err := services.Create(t.Context(), made("web", corev1.ServiceTypeNodePort), metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
	created.Spec.Type = corev1.ServiceTypeNodePort
	if _, err := services.Update(t.Context(), created, metav1.UpdateOptions{}); err != nil {
		t.Error(err)
	}
	all, err := services.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(all.Items) != 5 || calls.Load() != 4 {
		t.Fatalf("%d services, %d calls, %v", len(all.Items), calls.Load(), err)
	}
	seen := map[string]string{}
	for _, svc := range all.Items {
		for _, address := range []string{svc.Spec.ClusterIP, fmt.Sprint("port ", svc.Spec.Ports[0].NodePort)} {
			if address != "port 0" && seen[address] != "" {
				t.Errorf("%s and %s have %s", seen[address], svc.Name, address)
			}
			seen[address] = svc.Name
		}
	}
	// An address that is asked for is refused instead.
	web := made("web-2", corev1.ServiceTypeNodePort)
	web.Spec.ClusterIP = "10.96.200.1"
	if _, err := services.Create(t.Context(), web, metav1.CreateOptions{}); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "already allocated") {
		t.Errorf("asked for: %v", err)
	}
}

// A Job without labels has those of its template, including the ones that the server adds.
func TestStrictJobsHaveTheLabelsOfTheirTemplate(t *testing.T) {
	_, clients := strictServer(t)
	spec := corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "main", Image: "web"}}}
	job, err := clients.BatchV1().Jobs("default").Create(t.Context(), &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "sum"}, Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "sum"}}, Spec: spec}}}, metav1.CreateOptions{})
	if err != nil || job.Labels[batchv1.JobNameLabel] != "sum" || job.Labels[batchv1.ControllerUidLabel] != string(job.UID) {
		t.Errorf("%v, labels %v", err, job.Labels)
	}
}
