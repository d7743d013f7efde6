package builtin_test

import (
	"fmt"

	"github.com/tarnproject/tarn/apiserver/builtin"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func Example() {
	replicas := int32(-1)
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       appsv1.DeploymentSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
	}
	builtin.Default(d)
	builtin.Prepare(d, nil)
	fmt.Println(d.Spec.Strategy.Type, d.Spec.Strategy.RollingUpdate.MaxSurge)
	for _, err := range builtin.Validate(d, nil, "") {
		fmt.Println(err)
	}
	// Output:
	// RollingUpdate 25%
	// spec.replicas: Invalid value: -1: must be greater than or equal to 0
	// spec.template.metadata.labels: Invalid value: null: `selector` does not match template `labels`
	// spec.template.spec.containers: Required value
}

func ExampleAllocate() {
	web := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Port: 80}}},
	}
	builtin.Default(web)
	fmt.Println(builtin.Allocate(web, nil, nil), web.Spec.ClusterIP != "", web.Spec.IPFamilies, web.Spec.Ports[0].NodePort != 0)

	// The first address is reserved.
	kubernetes := &corev1.Service{Spec: corev1.ServiceSpec{ClusterIP: builtin.KubernetesIP}}
	other := kubernetes.DeepCopy()
	other.Name = "other"
	for _, svc := range []*corev1.Service{kubernetes, other} {
		builtin.Default(svc)
		builtin.Prepare(svc, nil)
	}
	fmt.Println(builtin.Allocate(other, nil, []*corev1.Service{kubernetes}))
	// Output:
	// [] true [IPv4] true
	// [spec.clusterIPs: Invalid value: ["10.96.0.1"]: failed to allocate IP 10.96.0.1: provided IP is already allocated]
}

func ExampleImport() {
	web := &corev1.Service{Spec: corev1.ServiceSpec{ClusterIP: "10.43.7.7", ClusterIPs: []string{"10.43.7.7"}}} // from k3s
	builtin.Default(web)
	builtin.Import(web, nil)
	builtin.Prepare(web, nil)
	fmt.Println(builtin.Allocate(web, nil, nil), web.Spec.ClusterIP != "10.43.7.7", len(web.Spec.ClusterIPs))

	// The manifest of a pod does not have what the scheduler has set.
	stored := &corev1.Pod{Spec: corev1.PodSpec{NodeName: "node-1"}}
	pod := new(corev1.Pod)
	builtin.Import(pod, stored)
	fmt.Println(pod.Spec.NodeName)
	// Output:
	// [] true 1
	// node-1
}

func ExampleOpenAPI() {
	schemas := builtin.OpenAPI(corev1.SchemeGroupVersion.WithKind("Pod"), new(corev1.Pod))
	port := schemas["io.k8s.api.core.v1.ContainerPort"].(map[string]any)
	fmt.Println(port["description"], port["required"])
	// Output: ContainerPort represents a network port in a single container. [containerPort]
}

func ExampleTaken() {
	service := func(name string) *corev1.Service {
		svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
		builtin.Default(svc)
		builtin.Allocate(svc, nil, nil)
		return svc
	}
	web, other := service("web"), service("other")
	fmt.Println(builtin.Taken(web, nil, []*corev1.Service{other}))
	other.Spec.ClusterIP, other.Spec.ClusterIPs = web.Spec.ClusterIP, web.Spec.ClusterIPs
	fmt.Println(builtin.Taken(web, nil, []*corev1.Service{other}))
	// Output:
	// false
	// true
}

func ExampleWarnings() {
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       corev1.ServiceSpec{ExternalIPs: []string{"203.000.113.010"}, Ports: []corev1.ServicePort{{Port: 80}}},
	}
	for _, w := range builtin.Warnings(svc, nil) {
		fmt.Println(w)
	}
	// Output:
	// spec.externalIPs[0]: non-standard IP address "203.000.113.010" is invalid: use "203.0.113.10"
	// spec.externalIPs is deprecated and may no longer be implemented in some clusters
}
