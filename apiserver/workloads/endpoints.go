package workloads

//lint:file-ignore SA1019 programs still read Endpoints

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

const (
	endpointsManager = "endpoint-controller"
	slicesManager    = "endpointslice-controller.k8s.io"
	managedEndpoints = "endpoints.kubernetes.io/managed-by"
)

// endpoints is the deprecated predecessor of EndpointSlices.
type endpoints = corev1.Endpoints

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
	if !ok {
		// EndpointSlices have an owner, Endpoints do not.
		if old, ok := w.endpoints.Get(key); ok && old.Labels[managedEndpoints] == endpointsManager {
			return tarn.Result{}, w.endpoints.remove(ctx, old)
		}
		return tarn.Result{}, nil
	}
	if len(service.Spec.Selector) == 0 || service.Spec.Type == corev1.ServiceTypeExternalName {
		return tarn.Result{}, nil
	}
	selector := labels.SelectorFromSet(service.Spec.Selector)
	var pods []*corev1.Pod
	for _, pod := range w.pods.in(service.Namespace) {
		if selector.Matches(labels.Set(pod.Labels)) && pod.Status.PodIP != "" && !finished(pod) {
			pods = append(pods, pod)
		}
	}
	if err := w.setEndpoints(ctx, service, pods); err != nil {
		return tarn.Result{}, err
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
func portsOf(service *corev1.Service, pods []*corev1.Pod) (ports []corev1.EndpointPort) {
	for _, port := range service.Spec.Ports {
		if i := slices.IndexFunc(pods, func(pod *corev1.Pod) bool { return portOf(&port, pod) > 0 }); i >= 0 {
			ports = append(ports, corev1.EndpointPort{
				Name: port.Name, Port: portOf(&port, pods[i]), Protocol: cmp.Or(port.Protocol, corev1.ProtocolTCP), AppProtocol: port.AppProtocol})
		}
	}
	return ports
}

func reference(pod *corev1.Pod) *corev1.ObjectReference {
	return &corev1.ObjectReference{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
}

func (w *Workloads) setEndpoints(ctx context.Context, service *corev1.Service, pods []*corev1.Pod) error {
	var subset corev1.EndpointSubset
	for _, pod := range pods {
		if pod.DeletionTimestamp != nil {
			continue
		}
		node := pod.Spec.NodeName
		address := corev1.EndpointAddress{IP: pod.Status.PodIP, NodeName: &node, TargetRef: reference(pod)}
		if pod.Spec.Hostname != "" && pod.Spec.Subdomain == service.Name {
			address.Hostname = pod.Spec.Hostname
		}
		if ready(pod) || service.Spec.PublishNotReadyAddresses {
			subset.Addresses = append(subset.Addresses, address)
		} else {
			subset.NotReadyAddresses = append(subset.NotReadyAddresses, address)
		}
	}
	subset.Ports = portsOf(service, pods)
	_, _, err := w.endpoints.client.CreateOrUpdate(ctx, &endpoints{ObjectMeta: metav1.ObjectMeta{Namespace: service.Namespace, Name: service.Name}}, func(e *endpoints) error {
		e.Labels = with(service.Labels, managedEndpoints, endpointsManager)
		e.Subsets = nil
		if len(subset.Addresses)+len(subset.NotReadyAddresses) > 0 {
			e.Subsets = []corev1.EndpointSubset{subset}
		}
		return nil
	})
	return err
}

func (w *Workloads) setSlice(ctx context.Context, service *corev1.Service, pods []*corev1.Pod) error {
	name := service.Name + "-" + hashOf(service.UID, nil)
	meta := metav1.ObjectMeta{Namespace: service.Namespace, Name: name, GenerateName: service.Name + "-"} // as on a real server
	_, _, err := w.slices.client.CreateOrUpdate(ctx, &discoveryv1.EndpointSlice{ObjectMeta: meta}, func(s *discoveryv1.EndpointSlice) error {
		s.Labels = with(service.Labels, discoveryv1.LabelServiceName, service.Name, discoveryv1.LabelManagedBy, slicesManager)
		s.AddressType, s.Endpoints, s.Ports = discoveryv1.AddressTypeIPv4, nil, nil
		for _, pod := range pods {
			serving, terminating := ready(pod), pod.DeletionTimestamp != nil
			usable := service.Spec.PublishNotReadyAddresses || serving && !terminating
			node := pod.Spec.NodeName
			endpoint := discoveryv1.Endpoint{
				Addresses: []string{pod.Status.PodIP}, NodeName: &node, TargetRef: reference(pod),
				Conditions: discoveryv1.EndpointConditions{Ready: &usable, Serving: &serving, Terminating: &terminating},
			}
			if hostname := pod.Spec.Hostname; hostname != "" && pod.Spec.Subdomain == service.Name {
				endpoint.Hostname = &hostname
			}
			s.Endpoints = append(s.Endpoints, endpoint)
		}
		for _, port := range portsOf(service, pods) {
			s.Ports = append(s.Ports, discoveryv1.EndpointPort{Name: &port.Name, Port: &port.Port, Protocol: &port.Protocol, AppProtocol: port.AppProtocol})
		}
		return w.services.client.SetOwner(s, service)
	})
	return err
}
