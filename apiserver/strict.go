package apiserver

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/tarnproject/tarn/apiserver/builtin"
	"github.com/tarnproject/tarn/apiserver/internal/kinds"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// manage sets the fields of a built-in kind that kube-apiserver manages, with Options.Strict.
// old is nil for a new object.
func (s *Server) manage(k *kinds.Kind, obj, old runtime.Object) error {
	if !k.Strict {
		return nil
	}
	builtin.Prepare(obj, old)
	svc, ok := obj.(*corev1.Service)
	if !ok {
		return nil
	}
	before, _ := old.(*corev1.Service)
	if errs := builtin.Allocate(svc, before, servicesOf(s.storage.All(k, ""))); len(errs) > 0 {
		return apierrors.NewInvalid(k.GVK().GroupKind(), svc.Name, errs)
	}
	return nil
}

func servicesOf(records []*kinds.Record) (services []*corev1.Service) {
	for _, r := range records {
		services = append(services, r.Obj.(*corev1.Service))
	}
	return services
}

// errTaken is the error of checkAllocated. The writer allocates again.
var errTaken = errors.New("another service has got the cluster IP or a node port")

// checkAllocated returns errTaken if a concurrent write has stored a cluster IP or node port that
// manage allocated. The caller must hold the storage lock.
func (s *Server) checkAllocated(k *kinds.Kind, next runtime.Object, old *kinds.Record) error {
	svc, ok := next.(*corev1.Service)
	if !ok || !k.Strict {
		return nil
	}
	var before *corev1.Service
	if old != nil {
		before = old.Obj.(*corev1.Service)
	}
	if builtin.Taken(svc, before, servicesOf(s.storage.Records(k))) {
		return errTaken
	}
	return nil
}

// bindable returns the state to validate an update in Go against: it may assign a pod to a
// node, which clients do by a binding.
func bindable(old, next runtime.Object) runtime.Object {
	pod, ok := old.(*corev1.Pod)
	if !ok || pod.Spec.NodeName != "" {
		return old
	}
	bound := pod.DeepCopy()
	bound.Spec.NodeName = next.(*corev1.Pod).Spec.NodeName
	return bound
}

const kubernetesService = "kubernetes"

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
