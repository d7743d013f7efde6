package builtin

import (
	"errors"
	"fmt"
	"hash/fnv"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// KubernetesIP is the cluster IP of the Service "kubernetes".
const KubernetesIP = "10.96.0.1"

// The ranges of addresses and ports that services get.
var (
	serviceRange       = netip.MustParsePrefix("10.96.0.0/12")
	firstPort    int32 = 30000
	lastPort     int32 = 32767
)

// Allocate sets the IP families, cluster IP and node ports of a Service, after [Prepare]. It
// modifies svc, which the caller must own. old is nil for a new service. others are the stored
// services, which may include svc itself.
//
// The search for a free address or port starts at a hash of the name, so that a service gets the
// same in every run of a test. A concurrent request may get the same ones; see [Taken].
func Allocate(svc, old *corev1.Service, others []*corev1.Service) field.ErrorList {
	if errs := setFamilies(svc); len(errs) > 0 {
		return errs
	}
	usedIPs, usedPorts := used(svc, others)
	if svc.Spec.Type != corev1.ServiceTypeExternalName {
		if errs := allocateIP(svc, old, usedIPs); len(errs) > 0 {
			return errs
		}
	}
	if hasNodePorts(svc) {
		return allocatePorts(svc, usedPorts)
	}
	return nil
}

// used returns the cluster IPs and node ports of the services other than svc.
func used(svc *corev1.Service, others []*corev1.Service) (ips map[string]bool, ports map[int32]bool) {
	ips, ports = map[string]bool{}, map[int32]bool{}
	for _, other := range others {
		if other.Name == svc.Name && other.Namespace == svc.Namespace {
			continue
		}
		for _, ip := range other.Spec.ClusterIPs {
			ips[ip] = true
		}
		for _, port := range other.Spec.Ports {
			ports[port.NodePort] = true
		}
		ports[other.Spec.HealthCheckNodePort] = true
	}
	delete(ips, corev1.ClusterIPNone)
	delete(ports, 0)
	return ips, ports
}

// Taken reports whether another service has got a cluster IP or node port of svc since [Allocate]
// set it. old is nil for a new service. Allocate then sets another, or returns why it cannot.
func Taken(svc, old *corev1.Service, others []*corev1.Service) bool {
	ips, ports := used(svc, others)
	if old != nil {
		delete(ips, old.Spec.ClusterIP)
		delete(ports, old.Spec.HealthCheckNodePort)
		for _, port := range old.Spec.Ports {
			delete(ports, port.NodePort)
		}
	}
	if svc.Spec.Type != corev1.ServiceTypeExternalName && ips[svc.Spec.ClusterIP] {
		return true
	}
	return hasNodePorts(svc) && (hasHealthCheck(svc) && ports[svc.Spec.HealthCheckNodePort] ||
		slices.ContainsFunc(svc.Spec.Ports, func(port corev1.ServicePort) bool { return ports[port.NodePort] }))
}

// setFamilies sets the IP families of a service in a cluster that has only IPv4.
func setFamilies(svc *corev1.Service) field.ErrorList {
	s := &svc.Spec
	if s.Type == corev1.ServiceTypeExternalName {
		return nil
	}
	unselected := s.ClusterIP == corev1.ClusterIPNone && len(s.Selector) == 0
	if s.IPFamilyPolicy == nil && unselected {
		setDefault(&s.IPFamilyPolicy, corev1.IPFamilyPolicyRequireDualStack)
	}
	setDefault(&s.IPFamilyPolicy, corev1.IPFamilyPolicySingleStack)
	var p problems
	if p.clusterIPs(svc); len(p.list) > 0 {
		return p.list
	}
	at := spec.Child("ipFamilyPolicy")
	if *s.IPFamilyPolicy == corev1.IPFamilyPolicySingleStack {
		if len(s.ClusterIPs) == 2 {
			p.invalid(at, *s.IPFamilyPolicy, "must be 'RequireDualStack' or 'PreferDualStack' when multiple cluster IPs are specified")
		}
		if len(s.IPFamilies) == 2 {
			p.invalid(at, *s.IPFamilyPolicy, "must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified")
		}
	}
	for i, ip := range s.ClusterIPs {
		if addr, err := netip.ParseAddr(ip); err == nil && addr.Is6() && i >= len(s.IPFamilies) {
			p.invalid(spec.Child("clusterIPs").Index(i), s.ClusterIPs, "IPv6 is not configured on this cluster")
		}
	}
	if len(p.list) > 0 {
		return p.list
	}
	if unselected {
		if len(s.IPFamilies) == 0 {
			s.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol}
		}
		if len(s.IPFamilies) == 1 && *s.IPFamilyPolicy != corev1.IPFamilyPolicySingleStack {
			second := corev1.IPv6Protocol
			if s.IPFamilies[0] == second {
				second = corev1.IPv4Protocol
			}
			s.IPFamilies = append(slices.Clone(s.IPFamilies), second)
		}
		return nil
	}
	if *s.IPFamilyPolicy == corev1.IPFamilyPolicyRequireDualStack {
		p.invalid(at, *s.IPFamilyPolicy, "this cluster is not configured for dual-stack services")
	}
	for i, family := range s.IPFamilies {
		if family != corev1.IPv4Protocol {
			p.invalid(spec.Child("ipFamilies").Index(i), family, "not configured on this cluster")
		}
	}
	if len(s.IPFamilies) == 0 {
		s.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol}
	}
	return p.list
}

// hashOf returns a number for the name of a service.
func hashOf(svc *corev1.Service) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(svc.Namespace + "/" + svc.Name)) // never fails
	return h.Sum32()
}

// allocateIP sets the cluster IP of a service that has none.
func allocateIP(svc, old *corev1.Service, used map[string]bool) field.ErrorList {
	s := &svc.Spec
	if s.ClusterIP == corev1.ClusterIPNone || old != nil && s.ClusterIP != "" && s.ClusterIP == old.Spec.ClusterIP {
		return nil
	}
	if s.ClusterIP == "" {
		// From 10.96.1.0 on, in the first half of the range, which services never fill.
		n := hashOf(svc) % (1 << 19)
		ip := netip.AddrFrom4([4]byte{10, 96 + byte(n>>16), byte(n>>8) | 1, byte(n)})
		for ; used[ip.String()]; ip = ip.Next() {
		}
		s.ClusterIP, s.ClusterIPs = ip.String(), []string{ip.String()}
		return nil
	}
	why := ""
	if ip, err := netip.ParseAddr(s.ClusterIP); err != nil || !serviceRange.Contains(ip) {
		why = fmt.Sprintf("the provided network does not match the current range: the provided IP (%s) is not in the valid range. The range of valid IPs is %s", s.ClusterIP, serviceRange)
	} else if used[s.ClusterIP] {
		why = "provided IP is already allocated"
	}
	if why == "" || old != nil && old.Spec.Type != corev1.ServiceTypeExternalName {
		return nil // validation rejects a change
	}
	return field.ErrorList{field.Invalid(spec.Child("clusterIPs"), s.ClusterIPs, fmt.Sprintf("failed to allocate IP %s: %s", s.ClusterIP, why))}
}

// allocatePorts sets the node ports that are missing.
func allocatePorts(svc *corev1.Service, used map[int32]bool) field.ErrorList {
	own := map[int32]bool{} // must not be given to another port of the service
	for _, port := range svc.Spec.Ports {
		own[port.NodePort] = true
	}
	ports := lastPort - firstPort + 1
	port := firstPort + int32(hashOf(svc)%uint32(ports))
	next := func() int32 { // 0 if there is none
		for range ports {
			if port++; port > lastPort {
				port = firstPort
			}
			if !used[port] && !own[port] {
				used[port] = true
				return port
			}
		}
		return 0
	}
	full := func(at *field.Path) field.ErrorList {
		return field.ErrorList{field.InternalError(at, errors.New("failed to allocate a nodePort: range is full"))}
	}
	byPort := map[int32]int32{} // ports of different protocols share a node port
	for i := range svc.Spec.Ports {
		port, at := &svc.Spec.Ports[i], spec.Child("ports").Index(i).Child("nodePort")
		switch {
		case port.NodePort != 0 && (port.NodePort < firstPort || port.NodePort > lastPort):
			return field.ErrorList{field.Invalid(at, port.NodePort, fmt.Sprintf("provided port is not in the valid range. The range of valid ports is %d-%d", firstPort, lastPort))}
		case port.NodePort != 0 && used[port.NodePort]:
			return field.ErrorList{field.Invalid(at, port.NodePort, "provided port is already allocated")}
		case port.NodePort == 0 && (svc.Spec.AllocateLoadBalancerNodePorts == nil || *svc.Spec.AllocateLoadBalancerNodePorts):
			if port.NodePort = byPort[port.Port]; port.NodePort == 0 {
				if port.NodePort = next(); port.NodePort == 0 {
					return full(at)
				}
			}
		}
		byPort[port.Port] = port.NodePort
	}
	at := spec.Child("healthCheckNodePort")
	switch health := &svc.Spec.HealthCheckNodePort; {
	case !hasHealthCheck(svc):
	case *health == 0:
		if *health = next(); *health == 0 {
			return full(at)
		}
	case used[*health]:
		return field.ErrorList{field.Invalid(at, *health, "provided port is already allocated")}
	}
	return nil
}
