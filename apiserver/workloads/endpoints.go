package workloads

import (
	"cmp"
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/tarnproject/tarn"
)

const slicesManager = "endpointslice-controller.k8s.io"

func (w *Workloads) addEndpoints() error {
	return w.add("endpoints", w.reconcileService, tarn.For(w.services.Mirror),
		tarn.Watches(w.pods.Mirror, func(pod *corev1.Pod) (keys []tarn.Key) {
			for _, service := range w.services.in(pod.Namespace) {
				if len(service.Spec.Selector) > 0 && labels.SelectorFromSet(service.Spec.Selector).Matches(labels.Set(pod.Labels)) {
					keys = append(keys, keyOf(service))
				}
			}
			return keys
		}))
}

func (w *Workloads) reconcileService(ctx context.Context, key tarn.Key) (tarn.Result, error) {
	service, ok := w.services.live(key)
	if !ok || len(service.Spec.Selector) == 0 || service.Spec.Type == corev1.ServiceTypeExternalName {
		return tarn.Result{}, nil
	}
	selector := labels.SelectorFromSet(service.Spec.Selector)
	var pods []*corev1.Pod
	for _, pod := range w.pods.in(service.Namespace) {
		if selector.Matches(labels.Set(pod.Labels)) && pod.Status.PodIP != "" && !finished(pod) {
			pods = append(pods, pod)
		}
	}
	return tarn.Result{}, w.setSlice(ctx, service, pods)
}

// portOf returns the number of a service's port in a pod, or 0.
func portOf(port *corev1.ServicePort, pod *corev1.Pod) int32 {
	if port.TargetPort.Type == intstr.Int {
		if port.TargetPort.IntVal == 0 {
			return port.Port
		}
		return port.TargetPort.IntVal
	}
	for _, c := range pod.Spec.Containers {
		for _, p := range c.Ports {
			if p.Name == port.TargetPort.StrVal {
				return p.ContainerPort
			}
		}
	}
	return 0
}

// portsOf returns the ports of a service. A named port is that of the first pod that has it.
func portsOf(service *corev1.Service, pods []*corev1.Pod) (ports []discoveryv1.EndpointPort) {
	for _, port := range service.Spec.Ports {
		if i := slices.IndexFunc(pods, func(pod *corev1.Pod) bool { return portOf(&port, pod) > 0 }); i >= 0 {
			number, protocol := portOf(&port, pods[i]), cmp.Or(port.Protocol, corev1.ProtocolTCP)
			ports = append(ports, discoveryv1.EndpointPort{Name: &port.Name, Port: &number, Protocol: &protocol, AppProtocol: port.AppProtocol})
		}
	}
	return ports
}

func (w *Workloads) setSlice(ctx context.Context, service *corev1.Service, pods []*corev1.Pod) error {
	name := service.Name + "-" + hashOf(service.UID, nil)
	meta := metav1.ObjectMeta{Namespace: service.Namespace, Name: name, GenerateName: service.Name + "-"} // as on a real server
	_, _, err := w.slices.client.CreateOrUpdate(ctx, &discoveryv1.EndpointSlice{ObjectMeta: meta}, func(s *discoveryv1.EndpointSlice) error {
		s.Labels = with(service.Labels, discoveryv1.LabelServiceName, service.Name, discoveryv1.LabelManagedBy, slicesManager)
		s.AddressType, s.Endpoints, s.Ports = discoveryv1.AddressTypeIPv4, nil, portsOf(service, pods)
		for _, pod := range pods {
			serving, terminating := ready(pod), pod.DeletionTimestamp != nil
			usable := service.Spec.PublishNotReadyAddresses || serving && !terminating
			node := pod.Spec.NodeName
			endpoint := discoveryv1.Endpoint{
				Addresses: []string{pod.Status.PodIP}, NodeName: &node, TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
				Conditions: discoveryv1.EndpointConditions{Ready: &usable, Serving: &serving, Terminating: &terminating},
			}
			if hostname := pod.Spec.Hostname; hostname != "" && pod.Spec.Subdomain == service.Name {
				endpoint.Hostname = &hostname
			}
			s.Endpoints = append(s.Endpoints, endpoint)
		}
		return w.services.client.SetOwner(s, service)
	})
	return err
}
