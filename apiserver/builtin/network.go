package builtin

import (
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"
)

const ingressClassAnnotation = "kubernetes.io/ingress.class"

func (p *problems) ingress(ingress *networkingv1.Ingress, isNew bool) {
	s := &ingress.Spec
	if len(s.Rules) == 0 && s.DefaultBackend == nil {
		p.invalid(spec, s.Rules, "either `defaultBackend` or `rules` must be specified")
	}
	if s.DefaultBackend != nil {
		p.backend(s.DefaultBackend, spec.Child("defaultBackend"))
	}
	for i, rule := range s.Rules {
		at := spec.Child("rules").Index(i)
		if rule.Host != "" {
			if netutils.ParseIPSloppy(rule.Host) != nil {
				p.invalid(at.Child("host"), rule.Host, "must be a DNS name, not an IP address")
			}
			p.host(rule.Host, at.Child("host"))
		}
		if rule.HTTP == nil {
			continue
		}
		if len(rule.HTTP.Paths) == 0 {
			p.required(at.Child("http", "paths"), "")
		}
		for j := range rule.HTTP.Paths {
			p.httpPath(&rule.HTTP.Paths[j], at.Child("http", "paths").Index(j))
		}
	}
	for i, tls := range s.TLS {
		at := spec.Child("tls").Index(i)
		for j, host := range tls.Hosts {
			p.host(host, at.Child("hosts").Index(j))
		}
		if tls.SecretName != "" {
			p.subdomain(at.Child("secretName"), tls.SecretName)
		}
	}
	if class := s.IngressClassName; class != nil {
		p.subdomain(spec.Child("ingressClassName"), *class)
		if value, set := ingress.Annotations[ingressClassAnnotation]; isNew && set && value != *class {
			p.invalid(field.NewPath("annotations", ingressClassAnnotation), value, "must match `ingressClassName` when both are specified")
		}
	}
}

// host validates a DNS name, which may have a wildcard.
func (p *problems) host(host string, at *field.Path) {
	if strings.Contains(host, "*") {
		p.invalid(at, host, utilvalidation.IsWildcardDNS1123Subdomain(host)...)
		return
	}
	p.subdomain(at, host)
}

func (p *problems) httpPath(path *networkingv1.HTTPIngressPath, at *field.Path) {
	if path.PathType == nil {
		p.required(at.Child("pathType"), "pathType must be specified")
		return
	}
	absolute := strings.HasPrefix(path.Path, "/")
	switch *path.PathType {
	case networkingv1.PathTypeExact, networkingv1.PathTypePrefix:
		if !absolute {
			p.invalid(at.Child("path"), path.Path, "must be an absolute path")
		}
		for _, part := range []string{"//", "/./", "/../", "%2f", "%2F"} {
			if strings.Contains(path.Path, part) {
				p.invalid(at.Child("path"), path.Path, "must not contain '"+part+"'")
			}
		}
		for _, end := range []string{"/..", "/."} {
			if strings.HasSuffix(path.Path, end) {
				p.invalid(at.Child("path"), path.Path, "cannot end with '"+end+"'")
			}
		}
	case networkingv1.PathTypeImplementationSpecific:
		if path.Path != "" && !absolute {
			p.invalid(at.Child("path"), path.Path, "must be an absolute path")
		}
	default:
		p.add(field.NotSupported(at.Child("pathType"), *path.PathType, []networkingv1.PathType{
			networkingv1.PathTypeExact, networkingv1.PathTypeImplementationSpecific, networkingv1.PathTypePrefix}))
	}
	p.backend(&path.Backend, at.Child("backend"))
}

func (p *problems) backend(b *networkingv1.IngressBackend, at *field.Path) {
	switch {
	case b.Resource != nil && b.Service != nil:
		p.invalid(at, "", "cannot set both resource and service backends")
	case b.Resource != nil:
		at = at.Child("resource")
		if group := b.Resource.APIGroup; group != nil {
			p.subdomain(at.Child("apiGroup"), *group)
		}
		p.kindAndName(at, b.Resource.Kind, b.Resource.Name)
	case b.Service != nil:
		p.serviceBackend(b.Service, at)
	default:
		p.invalid(at, "", "resource or service backend is required")
	}
}

func (p *problems) serviceBackend(s *networkingv1.IngressServiceBackend, at *field.Path) {
	p.requiredLabel(at.Child("service", "name"), s.Name)
	switch port := at.Child("service", "port"); {
	case s.Port.Name != "" && s.Port.Number != 0:
		p.invalid(at, "", "cannot set both port name & port number")
	case s.Port.Name != "":
		p.invalid(port.Child("name"), s.Port.Name, utilvalidation.IsValidPortName(s.Port.Name)...)
	case s.Port.Number != 0:
		p.portNumber(port.Child("number"), s.Port.Number)
	default:
		p.required(at, "port name or number is required")
	}
}
