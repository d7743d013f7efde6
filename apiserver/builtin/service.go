package builtin

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"
)

func defaultService(svc *corev1.Service) {
	s := &svc.Spec
	setText(&s.SessionAffinity, corev1.ServiceAffinityNone)
	switch s.SessionAffinity {
	case corev1.ServiceAffinityNone:
		s.SessionAffinityConfig = nil
	case corev1.ServiceAffinityClientIP:
		setDefault(&s.SessionAffinityConfig, corev1.SessionAffinityConfig{})
		setDefault(&s.SessionAffinityConfig.ClientIP, corev1.ClientIPConfig{})
		setDefault(&s.SessionAffinityConfig.ClientIP.TimeoutSeconds, corev1.DefaultClientIPServiceAffinitySeconds)
	}
	setText(&s.Type, corev1.ServiceTypeClusterIP)
	for i := range s.Ports {
		port := &s.Ports[i]
		setText(&port.Protocol, corev1.ProtocolTCP)
		if port.TargetPort == intstr.FromInt32(0) || port.TargetPort == intstr.FromString("") {
			port.TargetPort = intstr.FromInt32(port.Port)
		}
	}
	if isExternal(svc) {
		setText(&s.ExternalTrafficPolicy, corev1.ServiceExternalTrafficPolicyCluster)
	}
	if slices.Contains(serviceTypes, s.Type) && s.Type != corev1.ServiceTypeExternalName {
		setDefault(&s.InternalTrafficPolicy, corev1.ServiceInternalTrafficPolicyCluster)
	}
	if s.Type == corev1.ServiceTypeLoadBalancer {
		setDefault(&s.AllocateLoadBalancerNodePorts, true)
		for i := range svc.Status.LoadBalancer.Ingress {
			if ingress := &svc.Status.LoadBalancer.Ingress[i]; ingress.IP != "" {
				setDefault(&ingress.IPMode, corev1.LoadBalancerIPModeVIP)
			}
		}
	}
}

//lint:ignore SA1019 kube-apiserver still serves Endpoints
func defaultEndpoints(e *corev1.Endpoints) {
	for _, subset := range e.Subsets {
		for i := range subset.Ports {
			setText(&subset.Ports[i].Protocol, corev1.ProtocolTCP)
		}
	}
}

var serviceTypes = []corev1.ServiceType{corev1.ServiceTypeClusterIP, corev1.ServiceTypeExternalName, corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeNodePort}

// isExternal reports whether a service is reachable from outside of the cluster.
func isExternal(svc *corev1.Service) bool {
	return svc.Spec.Type == corev1.ServiceTypeLoadBalancer || svc.Spec.Type == corev1.ServiceTypeNodePort ||
		svc.Spec.Type == corev1.ServiceTypeClusterIP && len(svc.Spec.ExternalIPs) > 0
}

func isHeadless(svc *corev1.Service) bool {
	return len(svc.Spec.ClusterIPs) == 1 && svc.Spec.ClusterIPs[0] == corev1.ClusterIPNone
}

func hasNodePorts(svc *corev1.Service) bool {
	return svc.Spec.Type == corev1.ServiceTypeNodePort || svc.Spec.Type == corev1.ServiceTypeLoadBalancer
}

// hasHealthCheck reports whether a service has a node port for health checks.
func hasHealthCheck(svc *corev1.Service) bool {
	return svc.Spec.Type == corev1.ServiceTypeLoadBalancer && svc.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
}

// prepareService keeps what was allocated before, and removes what the new type has no use for.
func prepareService(svc, old *corev1.Service) {
	s := &svc.Spec
	if old != nil {
		keepAllocated(svc, old)
	}
	switch {
	case len(s.ClusterIPs) == 0 && s.ClusterIP != "":
		s.ClusterIPs = []string{s.ClusterIP}
	case old != nil && s.ClusterIP != old.Spec.ClusterIP && slices.Equal(s.ClusterIPs, old.Spec.ClusterIPs):
		// Only the older of the two fields was changed.
		s.ClusterIPs = nil
		if s.ClusterIP != "" {
			s.ClusterIPs = []string{s.ClusterIP}
		}
	}
}

func keepAllocated(svc, old *corev1.Service) {
	s, was := &svc.Spec, &old.Spec
	switch external := corev1.ServiceTypeExternalName; {
	case was.Type == external:
	case s.Type != external:
		setText(&s.ClusterIP, was.ClusterIP)
		if len(s.ClusterIPs) == 0 && s.ClusterIP == was.ClusterIP {
			s.ClusterIPs = was.ClusterIPs
		}
	default:
		if s.ClusterIP == was.ClusterIP {
			s.ClusterIP, s.ClusterIPs = "", nil
		}
		if slices.Equal(s.IPFamilies, was.IPFamilies) {
			s.IPFamilies = nil
		}
		if valueOf(s.IPFamilyPolicy) == valueOf(was.IPFamilyPolicy) {
			s.IPFamilyPolicy = nil
		}
		if valueOf(s.InternalTrafficPolicy) == valueOf(was.InternalTrafficPolicy) {
			s.InternalTrafficPolicy = nil
		}
	}
	ports := map[string]int32{}
	for _, port := range was.Ports {
		ports[port.Name] = port.NodePort
	}
	for i := range s.Ports {
		port := &s.Ports[i]
		switch {
		case hasNodePorts(old) && hasNodePorts(svc):
			setNumber(&port.NodePort, ports[port.Name])
		case hasNodePorts(old) && port.NodePort == ports[port.Name]:
			port.NodePort = 0
		}
	}
	switch {
	case hasHealthCheck(old) && hasHealthCheck(svc):
		setNumber(&s.HealthCheckNodePort, was.HealthCheckNodePort)
	case hasHealthCheck(old) && s.HealthCheckNodePort == was.HealthCheckNodePort:
		s.HealthCheckNodePort = 0
	}
	if was.Type == corev1.ServiceTypeLoadBalancer && s.Type != corev1.ServiceTypeLoadBalancer {
		s.AllocateLoadBalancerNodePorts = nil
		if valueOf(s.LoadBalancerClass) == valueOf(was.LoadBalancerClass) {
			s.LoadBalancerClass = nil
		}
		svc.Status.LoadBalancer = corev1.LoadBalancerStatus{}
	}
	if isExternal(old) && !isExternal(svc) && s.ExternalTrafficPolicy == was.ExternalTrafficPolicy {
		s.ExternalTrafficPolicy = ""
	}
}

func (p *problems) service(svc, old *corev1.Service) {
	s := &svc.Spec
	if old != nil {
		p.serviceUpdate(svc, old)
	}
	if len(s.Ports) == 0 && !isHeadless(svc) && s.Type != corev1.ServiceTypeExternalName {
		p.required(spec.Child("ports"), "")
	}
	switch {
	case s.Type == corev1.ServiceTypeExternalName:
		p.externalName(s)
	case hasNodePorts(svc) && isHeadless(svc):
		p.invalid(spec.Child("clusterIPs").Index(0), corev1.ClusterIPNone, fmt.Sprintf("may not be set to 'None' for %s services", s.Type))
	}
	names := map[string]bool{}
	for i, port := range s.Ports {
		p.servicePort(port, len(s.Ports) > 1, names, spec.Child("ports").Index(i))
	}
	p.add(metavalidation.ValidateLabels(s.Selector, spec.Child("selector"))...)
	oneOf(p, spec.Child("sessionAffinity"), s.SessionAffinity, corev1.ServiceAffinityClientIP, corev1.ServiceAffinityNone)
	if s.SessionAffinity == corev1.ServiceAffinityClientIP {
		if n := s.SessionAffinityConfig.ClientIP.TimeoutSeconds; *n <= 0 || *n > 86400 {
			p.invalid(spec.Child("sessionAffinityConfig", "clientIP", "timeoutSeconds"), *n, "must be greater than 0 and less than 86400")
		}
	}
	if s.Type != corev1.ServiceTypeExternalName {
		p.clusterIPs(svc)
	}
	for i, ip := range s.ExternalIPs {
		p.ip(ip, spec.Child("externalIPs").Index(i))
	}
	oneOf(p, spec.Child("type"), s.Type, serviceTypes...)
	p.servicePorts(s)
	p.loadBalancer(svc)
	p.trafficPolicies(svc)
}

func (p *problems) externalName(s *corev1.ServiceSpec) {
	p.unset(spec, "may not be set for ExternalName services", []isSet{
		{"clusterIPs", len(s.ClusterIPs) > 0}, {"ipFamilies", len(s.IPFamilies) > 0}, {"ipFamilyPolicy", s.IPFamilyPolicy != nil}})
	p.needValid(spec.Child("externalName"), strings.TrimSuffix(s.ExternalName, "."), utilvalidation.IsDNS1123Subdomain)
}

func (p *problems) servicePort(port corev1.ServicePort, named bool, names map[string]bool, at *field.Path) {
	if port.Name == "" {
		if named {
			p.required(at.Child("name"), "")
		}
	} else {
		p.label(at.Child("name"), port.Name)
		if names[port.Name] {
			p.duplicate(at.Child("name"), port.Name)
		}
		names[port.Name] = true
	}
	p.portNumber(at.Child("port"), port.Port)
	oneOf(p, at.Child("protocol"), port.Protocol, protocols...)
	p.port(at.Child("targetPort"), port.TargetPort)
	if port.AppProtocol != nil {
		p.invalid(at.Child("appProtocol"), *port.AppProtocol, utilvalidation.IsQualifiedName(*port.AppProtocol)...)
	}
}

// servicePorts checks that the ports and node ports of a service differ.
func (p *problems) servicePorts(s *corev1.ServiceSpec) {
	// uniquePort has the fields of kube-apiserver's own type, which errors contain.
	type uniquePort struct {
		Name        string
		Protocol    corev1.Protocol
		AppProtocol *string
		Port        int32
		TargetPort  intstr.IntOrString
		NodePort    int32
	}
	seen := map[uniquePort]bool{}
	for i, port := range s.Ports {
		if port.NodePort != 0 && s.Type == corev1.ServiceTypeClusterIP {
			p.forbidden(spec.Child("ports").Index(i).Child("nodePort"), "may not be used when `type` is 'ClusterIP'")
		}
	}
	for i, port := range s.Ports {
		key := uniquePort{Protocol: port.Protocol, NodePort: port.NodePort}
		if port.NodePort != 0 && seen[key] {
			p.duplicate(spec.Child("ports").Index(i).Child("nodePort"), port.NodePort)
		}
		seen[key] = true
	}
	for i, port := range s.Ports {
		key := uniquePort{Protocol: port.Protocol, Port: port.Port}
		if port.Port != 0 && seen[key] {
			p.duplicate(spec.Child("ports").Index(i), key)
		}
		seen[key] = true
	}
}

func (p *problems) ip(ip string, at *field.Path) {
	if netutils.ParseIPSloppy(ip) == nil {
		p.invalid(at, ip, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")
	}
}

// clusterIPs validates cluster IPs and IP families.
func (p *problems) clusterIPs(svc *corev1.Service) {
	s, ips := &svc.Spec, spec.Child("clusterIPs")
	switch {
	case s.ClusterIP == "" && len(s.ClusterIPs) > 0:
		p.invalid(ips, s.ClusterIPs, "must be empty when `clusterIP` is not specified")
	case s.ClusterIP != "" && len(s.ClusterIPs) == 0:
		p.required(ips, "")
	case s.ClusterIP != "" && s.ClusterIPs[0] != s.ClusterIP:
		p.invalid(ips, s.ClusterIPs, "first value must match `clusterIP`")
	}
	seen := map[corev1.IPFamily]bool{}
	for i, family := range s.IPFamilies {
		at := spec.Child("ipFamilies").Index(i)
		if family != corev1.IPv4Protocol && family != corev1.IPv6Protocol {
			p.add(field.NotSupported(at, family, []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}))
		}
		if seen[family] {
			p.duplicate(at, family)
		}
		seen[family] = true
	}
	if policy := s.IPFamilyPolicy; policy != nil {
		emptyOr(p, spec.Child("ipFamilyPolicy"), *policy, corev1.IPFamilyPolicyPreferDualStack, corev1.IPFamilyPolicyRequireDualStack, corev1.IPFamilyPolicySingleStack)
	}
	before := len(p.list)
	for i, ip := range s.ClusterIPs {
		if i == 0 && ip == corev1.ClusterIPNone {
			if len(s.ClusterIPs) > 1 {
				p.invalid(ips, s.ClusterIPs, "'None' must be the first and only value")
			}
			continue
		}
		p.ip(ip, ips.Index(i))
	}
	valid := len(p.list) == before
	if len(s.ClusterIPs) > 2 {
		p.invalid(ips, s.ClusterIPs, "may only hold up to 2 values")
	}
	if !valid {
		return
	}
	if dual, _ := netutils.IsDualStackIPStrings(s.ClusterIPs); len(s.ClusterIPs) > 1 && !dual {
		p.invalid(ips, s.ClusterIPs, "may specify no more than one IP for each IP family")
	}
	for i, ip := range s.ClusterIPs {
		if isHeadless(svc) || i >= len(s.IPFamilies) {
			break
		}
		if is6 := netutils.IsIPv6String(ip); is6 != (s.IPFamilies[i] == corev1.IPv6Protocol) {
			p.invalid(ips.Index(i), ip, fmt.Sprintf("expected an %s value as indicated by `ipFamilies[%d]`", s.IPFamilies[i], i))
		}
	}
}

func (p *problems) serviceUpdate(svc, old *corev1.Service) {
	s, was := &svc.Spec, &old.Spec
	external := s.Type == corev1.ServiceTypeExternalName || was.Type == corev1.ServiceTypeExternalName
	if ips := spec.Child("clusterIPs"); !external && !(isHeadless(svc) && isHeadless(old)) {
		if len(s.ClusterIPs) == 0 && len(was.ClusterIPs) > 0 {
			p.invalid(ips.Index(0), s.ClusterIPs, "primary clusterIP can not be unset")
		}
		for i := range min(len(s.ClusterIPs), len(was.ClusterIPs)) {
			if s.ClusterIPs[i] != was.ClusterIPs[i] {
				p.invalid(ips.Index(i), s.ClusterIPs, "may not change once set")
			}
		}
	}
	if !external && !isHeadless(svc) && !isHeadless(old) && len(s.IPFamilies) > 0 && len(was.IPFamilies) > 0 && s.IPFamilies[0] != was.IPFamilies[0] {
		p.invalid(spec.Child("ipFamilies").Index(0), s.IPFamilies, "may not change once set")
	}
	if balanced := corev1.ServiceTypeLoadBalancer; s.Type == balanced && was.Type == balanced && valueOf(s.LoadBalancerClass) != valueOf(was.LoadBalancerClass) {
		p.invalid(spec.Child("loadBalancerClass"), s.LoadBalancerClass, "may not change once set")
	}
	if hasHealthCheck(svc) && hasHealthCheck(old) && s.HealthCheckNodePort != was.HealthCheckNodePort {
		p.forbidden(spec.Child("healthCheckNodePort"), "field is immutable")
	}
}

// loadBalancer validates the fields of load balancers, which other types must not have.
func (p *problems) loadBalancer(svc *corev1.Service) {
	const only = "may only be used when `type` is 'LoadBalancer'"
	s, balanced := &svc.Spec, svc.Spec.Type == corev1.ServiceTypeLoadBalancer
	if len(s.LoadBalancerSourceRanges) > 0 {
		at := spec.Child("LoadBalancerSourceRanges")
		if !balanced {
			p.forbidden(at, only)
		}
		for i, cidr := range s.LoadBalancerSourceRanges {
			p.add(utilvalidation.IsValidCIDRForLegacyField(at.Index(i), strings.TrimSpace(cidr), false, nil)...)
		}
	}
	if s.AllocateLoadBalancerNodePorts != nil && !balanced {
		p.forbidden(spec.Child("allocateLoadBalancerNodePorts"), only)
	}
	if class := s.LoadBalancerClass; class != nil && balanced {
		p.invalid(spec.Child("loadBalancerClass"), *class, utilvalidation.IsQualifiedName(*class)...)
	} else if class != nil {
		p.forbidden(spec.Child("loadBalancerClass"), only)
	}
}

func (p *problems) trafficPolicies(svc *corev1.Service) {
	s := &svc.Spec
	if at := spec.Child("externalTrafficPolicy"); isExternal(svc) {
		oneOf(p, at, s.ExternalTrafficPolicy, corev1.ServiceExternalTrafficPolicyCluster, corev1.ServiceExternalTrafficPolicyLocal)
	} else if s.ExternalTrafficPolicy != "" {
		p.invalid(at, s.ExternalTrafficPolicy, "may only be set for externally-accessible services")
	}
	if at := spec.Child("healthCheckNodePort"); hasHealthCheck(svc) {
		p.portNumber(at, s.HealthCheckNodePort)
	} else if s.HealthCheckNodePort != 0 {
		p.invalid(at, s.HealthCheckNodePort, "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'")
	}
	if policy := s.InternalTrafficPolicy; policy != nil {
		emptyOr(p, spec.Child("internalTrafficPolicy"), *policy, corev1.ServiceInternalTrafficPolicyCluster, corev1.ServiceInternalTrafficPolicyLocal)
	}
	if d := s.TrafficDistribution; d != nil {
		emptyOr(p, spec.Child("trafficDistribution"), *d, corev1.ServiceTrafficDistributionPreferClose, corev1.ServiceTrafficDistributionPreferSameZone, corev1.ServiceTrafficDistributionPreferSameNode)
	}
}
