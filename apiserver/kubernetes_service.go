package apiserver

import (
	"fmt"
	"net/netip"

	"github.com/tarnproject/tarn/apiserver/builtin"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// startStrict creates the objects that kube-apiserver creates, with Options.Strict.
func (s *Server) startStrict() error {
	if !s.opts.Strict {
		return nil
	}
	address, port := "192.0.2.1", int32(6443) // TEST-NET-1, for a server that is reachable in memory only
	if s.tcp != nil {
		if at, err := netip.ParseAddrPort(s.tcp.Addr().String()); err == nil {
			address, port = at.Addr().String(), int32(at.Port())
		}
	}
	name, yes, tcp := "https", true, corev1.ProtocolTCP
	family := discoveryv1.AddressTypeIPv4
	if at, err := netip.ParseAddr(address); err == nil && at.Is6() {
		family = discoveryv1.AddressTypeIPv6
	}
	meta := metav1.ObjectMeta{Name: kubernetesService, Namespace: metav1.NamespaceDefault}
	labelled := func(name, value string) metav1.ObjectMeta {
		m := *meta.DeepCopy()
		m.Labels = map[string]string{name: value}
		return m
	}
	service := labelled("component", "apiserver")
	service.Labels["provider"] = "kubernetes"
	for _, obj := range []runtime.Object{
		&corev1.Service{ObjectMeta: service, Spec: corev1.ServiceSpec{
			ClusterIP: builtin.KubernetesIP, Ports: []corev1.ServicePort{{Name: name, Port: 443, TargetPort: intstr.FromInt32(port)}},
		}},
		//lint:ignore SA1019 kube-apiserver still serves Endpoints
		&corev1.Endpoints{ObjectMeta: labelled(discoveryv1.LabelSkipMirror, "true"), Subsets: []corev1.EndpointSubset{{
			Addresses: []corev1.EndpointAddress{{IP: address}}, Ports: []corev1.EndpointPort{{Name: name, Port: port}},
		}}},
		&discoveryv1.EndpointSlice{
			ObjectMeta: labelled(discoveryv1.LabelServiceName, kubernetesService), AddressType: family,
			Endpoints: []discoveryv1.Endpoint{{Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: &yes}}},
			Ports:     []discoveryv1.EndpointPort{{Name: &name, Port: &port, Protocol: &tcp}},
		},
	} {
		if _, err := s.Create(obj); err != nil {
			return fmt.Errorf("apiserver: creating the service %s: %w", kubernetesService, err)
		}
	}
	s.firstChange = s.storage.Now()
	return nil
}

const kubernetesService = "kubernetes"
