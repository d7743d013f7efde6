package apiserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/tarnproject/tarn/apiserver"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// A program runs with the permissions of its manifests. Here they lack the verb watch.
func ExampleServer_ServiceAccountConfig() {
	server, stop := running(apiserver.Options{RBAC: true})
	defer stop()
	if err := server.LoadYAML([]byte(`
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: operator}
rules:
- {apiGroups: [""], resources: [pods], verbs: [list]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: operator}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: operator}
subjects: [{kind: ServiceAccount, namespace: default, name: operator}]
`)); err != nil {
		panic(err)
	}
	fmt.Println("permissions count:", server.EvaluatesRBAC())
	config, err := server.ServiceAccountConfig("default", "operator")
	if err != nil {
		panic(err)
	}
	pods := kubernetes.NewForConfigOrDie(config).CoreV1().Pods("default")
	_, err = pods.List(context.Background(), metav1.ListOptions{})
	fmt.Println("list:", err)
	_, err = pods.Watch(context.Background(), metav1.ListOptions{})
	fmt.Println("watch:", err)
	// Output:
	// permissions count: true
	// list: <nil>
	// watch: pods is forbidden: User "system:serviceaccount:default:operator" cannot watch resource "pods" in API group "" in the namespace "default"
}

// A test that checks Denied at its end finds every missing verb at once.
func ExampleServer_Denied() {
	server, stop := running(apiserver.Options{RBAC: true})
	defer stop()
	for _, config := range []*rest.Config{server.ConfigFor("ann"), server.ConfigFor("root", "system:masters")} {
		core := kubernetes.NewForConfigOrDie(config).CoreV1()
		_, _ = core.Pods("shop").Get(context.Background(), "web", metav1.GetOptions{})
		_, _ = core.Nodes().List(context.Background(), metav1.ListOptions{})
	}
	for _, denied := range server.Denied() {
		fmt.Println(denied)
	}
	// Output:
	// User "ann" cannot get resource "pods" in API group "" in the namespace "shop"
	// User "ann" cannot list resource "nodes" in API group "" at the cluster scope
}

// The handler may be an admission.Webhook of controller-runtime or any other http.Handler.
func ExampleServer_HandleWebhook() {
	server, stop := running(apiserver.Options{})
	defer stop()
	server.HandleWebhook("shop", "operator", http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(req.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Result: &metav1.Status{Message: "the shop is closed"}}
		_ = json.NewEncoder(w).Encode(review)
	}))
	if err := server.LoadYAML([]byte(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: operator}
webhooks:
- name: shop.example.com
  clientConfig: {service: {namespace: shop, name: operator, path: /validate}}
  rules: [{apiGroups: [""], apiVersions: [v1], resources: [configmaps], operations: [CREATE]}]
  sideEffects: None
  admissionReviewVersions: [v1]
`)); err != nil {
		panic(err)
	}
	maps := kubernetes.NewForConfigOrDie(server.Config()).CoreV1().ConfigMaps("default")
	_, err := maps.Create(context.Background(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "order"}}, metav1.CreateOptions{})
	fmt.Println(err)
	// Output: admission webhook "shop.example.com" denied the request: the shop is closed
}
