package builtin

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/api/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// containers validates the containers and init containers of a pod.
func (p *problems) containers(s *corev1.PodSpec, volumes map[string]bool, at *field.Path) {
	names := map[string]bool{}
	main, inits := at.Child("containers"), at.Child("initContainers")
	if len(s.Containers) == 0 {
		p.required(main, "")
	}
	for i := range s.Containers {
		c, at := &s.Containers[i], main.Index(i)
		p.container(c, volumes, at)
		if names[c.Name] {
			p.duplicate(at.Child("name"), c.Name)
		}
		names[c.Name] = true
		p.running(c, at)
		if c.RestartPolicy != nil {
			oneOf(p, at.Child("restartPolicy"), *c.RestartPolicy, corev1.ContainerRestartPolicyAlways, corev1.ContainerRestartPolicyNever, corev1.ContainerRestartPolicyOnFailure)
		}
	}
	p.hostPorts(s.Containers, main)
	for i := range s.InitContainers {
		c, at := &s.InitContainers[i], inits.Index(i)
		p.container(c, volumes, at)
		if names[c.Name] {
			p.duplicate(at.Child("name"), c.Name)
		}
		if c.Name != "" {
			names[c.Name] = true
		}
		p.hostPorts(s.InitContainers[i:i+1], inits)
		if valueOf(c.RestartPolicy) == corev1.ContainerRestartPolicyAlways {
			p.running(c, at)
			continue
		}
		p.unset(at, "may not be set for init containers without restartPolicy=Always", []isSet{
			{"lifecycle", c.Lifecycle != nil}, {"livenessProbe", c.LivenessProbe != nil},
			{"readinessProbe", c.ReadinessProbe != nil}, {"startupProbe", c.StartupProbe != nil}})
	}
}

// container validates what all containers have.
func (p *problems) container(c *corev1.Container, volumes map[string]bool, at *field.Path) {
	p.requiredLabel(at.Child("name"), c.Name)
	p.need(at.Child("image"), c.Image)
	oneOf(p, at.Child("terminationMessagePolicy"), c.TerminationMessagePolicy, corev1.TerminationMessageReadFile, corev1.TerminationMessageFallbackToLogsOnError)
	p.containerPorts(c.Ports, at.Child("ports"))
	p.env(c.Env, at.Child("env"))
	p.envFrom(c.EnvFrom, at.Child("envFrom"))
	p.mounts(c, volumes, at)
	oneOf(p, at.Child("imagePullPolicy"), c.ImagePullPolicy, corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever)
	p.resources(&c.Resources, at.Child("resources"))
	if sc := c.SecurityContext; sc != nil {
		at := at.Child("securityContext")
		p.ids(at, map[string]*int64{"runAsUser": sc.RunAsUser, "runAsGroup": sc.RunAsGroup})
		if sc.AllowPrivilegeEscalation != nil && !*sc.AllowPrivilegeEscalation {
			if valueOf(sc.Privileged) {
				p.invalid(at, sc, "cannot set `allowPrivilegeEscalation` to false and `privileged` to true")
			}
			if sc.Capabilities != nil && slices.Contains(sc.Capabilities.Add, "CAP_SYS_ADMIN") {
				p.invalid(at, sc, "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN")
			}
		}
	}
}

// running validates what only containers have that run as long as the pod.
func (p *problems) running(c *corev1.Container, at *field.Path) {
	if c.Lifecycle != nil {
		if hook := c.Lifecycle.PostStart; hook != nil {
			p.handler(hook.Exec, hook.HTTPGet, hook.TCPSocket, nil, hook.Sleep, at.Child("lifecycle", "postStart"))
		}
		if hook := c.Lifecycle.PreStop; hook != nil {
			p.handler(hook.Exec, hook.HTTPGet, hook.TCPSocket, nil, hook.Sleep, at.Child("lifecycle", "preStop"))
		}
	}
	p.probe(c.LivenessProbe, true, at.Child("livenessProbe"))
	p.probe(c.ReadinessProbe, false, at.Child("readinessProbe"))
	p.probe(c.StartupProbe, true, at.Child("startupProbe"))
}

// probe validates a probe, which may be nil. A fatal one stops its container.
func (p *problems) probe(probe *corev1.Probe, fatal bool, at *field.Path) {
	if probe == nil {
		return
	}
	p.handler(probe.Exec, probe.HTTPGet, probe.TCPSocket, probe.GRPC, nil, at)
	notNegative(p, at.Child("initialDelaySeconds"), &probe.InitialDelaySeconds)
	notNegative(p, at.Child("timeoutSeconds"), &probe.TimeoutSeconds)
	notNegative(p, at.Child("periodSeconds"), &probe.PeriodSeconds)
	notNegative(p, at.Child("successThreshold"), &probe.SuccessThreshold)
	notNegative(p, at.Child("failureThreshold"), &probe.FailureThreshold)
	grace := probe.TerminationGracePeriodSeconds
	if grace != nil && *grace <= 0 {
		p.invalid(at.Child("terminationGracePeriodSeconds"), *grace, "must be greater than 0")
	}
	if fatal && probe.SuccessThreshold != 1 {
		p.invalid(at.Child("successThreshold"), probe.SuccessThreshold, "must be 1")
	}
	if !fatal && grace != nil {
		p.invalid(at.Child("terminationGracePeriodSeconds"), *grace, "must not be set for readinessProbes")
	}
}

// handler validates a probe's or hook's handler, of which exactly one is set.
func (p *problems) handler(exec *corev1.ExecAction, get *corev1.HTTPGetAction, tcp *corev1.TCPSocketAction, grpc *corev1.GRPCAction, sleep *corev1.SleepAction, at *field.Path) {
	found := false
	for _, h := range []struct {
		name     string
		set      bool
		validate func(*field.Path)
	}{
		{"exec", exec != nil, func(at *field.Path) {
			if len(exec.Command) == 0 {
				p.required(at.Child("command"), "")
			}
		}},
		{"httpGet", get != nil, func(at *field.Path) {
			p.port(at.Child("port"), get.Port)
			emptyOr(p, at.Child("scheme"), get.Scheme, corev1.URISchemeHTTP, corev1.URISchemeHTTPS)
			for _, header := range get.HTTPHeaders {
				p.invalid(at.Child("httpHeaders"), header.Name, utilvalidation.IsHTTPHeaderName(header.Name)...)
			}
		}},
		{"tcpSocket", tcp != nil, func(at *field.Path) { p.port(at.Child("port"), tcp.Port) }},
		{"grpc", grpc != nil, func(at *field.Path) { p.portNumber(at.Child("port"), grpc.Port) }},
		{"sleep", sleep != nil, func(at *field.Path) {}},
	} {
		switch {
		case h.set && found:
			p.forbidden(at.Child(h.name), "may not specify more than 1 handler type")
		case h.set:
			found = true
			h.validate(at.Child(h.name))
		}
	}
	if !found {
		p.required(at, "must specify a handler type")
	}
}

func (p *problems) containerPorts(ports []corev1.ContainerPort, at *field.Path) {
	names := map[string]bool{}
	for i, port := range ports {
		at := at.Index(i)
		if port.Name != "" {
			why := utilvalidation.IsValidPortName(port.Name)
			p.invalid(at.Child("name"), port.Name, why...)
			if names[port.Name] {
				p.duplicate(at.Child("name"), port.Name)
			}
			names[port.Name] = len(why) == 0
		}
		if port.ContainerPort == 0 {
			p.required(at.Child("containerPort"), "")
		} else {
			p.portNumber(at.Child("containerPort"), port.ContainerPort)
		}
		if port.HostPort != 0 {
			p.portNumber(at.Child("hostPort"), port.HostPort)
		}
		oneOf(p, at.Child("protocol"), port.Protocol, protocols...)
	}
}

// protocols are those of ports.
var protocols = []corev1.Protocol{corev1.ProtocolSCTP, corev1.ProtocolTCP, corev1.ProtocolUDP}

// hostPorts checks that containers use different ports of the host.
func (p *problems) hostPorts(containers []corev1.Container, at *field.Path) {
	used := map[string]bool{}
	for i, c := range containers {
		for j, port := range c.Ports {
			if port.HostPort == 0 {
				continue
			}
			key := fmt.Sprintf("%s/%s/%d", port.Protocol, port.HostIP, port.HostPort)
			if used[key] {
				p.duplicate(at.Index(i).Child("ports").Index(j).Child("hostPort"), key)
			}
			used[key] = true
		}
	}
}

func (p *problems) env(vars []corev1.EnvVar, at *field.Path) {
	for i, v := range vars {
		at := at.Index(i)
		p.needValid(at.Child("name"), v.Name, utilvalidation.IsRelaxedEnvVarName)
		if v.ValueFrom != nil {
			p.valueFrom(v, at.Child("valueFrom"))
		}
	}
}

func (p *problems) valueFrom(v corev1.EnvVar, at *field.Path) {
	sources := 0
	from := v.ValueFrom
	if from.FieldRef != nil {
		sources++
		p.fieldRef(from.FieldRef, envFields, at.Child("fieldRef"))
	}
	if from.ResourceFieldRef != nil {
		sources++
		p.need(at.Child("resourceFieldRef", "resource"), from.ResourceFieldRef.Resource)
	}
	if from.ConfigMapKeyRef != nil {
		sources++
		p.keyRef(from.ConfigMapKeyRef.Name, from.ConfigMapKeyRef.Key, at.Child("configMapKeyRef"))
	}
	if from.SecretKeyRef != nil {
		sources++
		p.keyRef(from.SecretKeyRef.Name, from.SecretKeyRef.Key, at.Child("secretKeyRef"))
	}
	if from.FileKeyRef != nil {
		sources++
	}
	switch {
	case sources == 0:
		p.invalid(at, "", "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`")
	case v.Value != "":
		p.invalid(at, "", "may not be specified when `value` is not empty")
	case sources > 1:
		p.invalid(at, "", "may not have more than one field specified at a time")
	}
}

// envFields and fileFields are the fields of a pod that environment variables and files of
// the downward API can refer to.
var (
	envFields = []string{
		"metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
		"status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
	}
	fileFields = []string{"metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"}
)

// fieldRef validates a reference to a field of the pod.
func (p *problems) fieldRef(ref *corev1.ObjectFieldSelector, fields []string, at *field.Path) {
	if ref.FieldPath == "" {
		p.required(at.Child("fieldPath"), "")
		return
	}
	path, key, subscripted := strings.Cut(strings.TrimSuffix(ref.FieldPath, "']"), "['")
	switch {
	case !slices.Contains(slices.Concat(envFields, fileFields), path):
		p.invalid(at.Child("fieldPath"), ref.FieldPath, "error converting fieldPath: field label not supported: "+ref.FieldPath)
	case subscripted && path == "metadata.annotations":
		p.invalid(at, strings.ToLower(key), utilvalidation.IsQualifiedName(strings.ToLower(key))...)
	case subscripted && path == "metadata.labels":
		p.invalid(at, key, utilvalidation.IsQualifiedName(key)...)
	case subscripted:
		p.invalid(at, path, "does not support subscript")
	case !slices.Contains(fields, path):
		p.add(field.NotSupported(at.Child("fieldPath"), path, fields))
	}
}

// keyRef validates a reference to a key of a ConfigMap or Secret.
func (p *problems) keyRef(name, key string, at *field.Path) {
	p.subdomain(at.Child("name"), name)
	p.needValid(at.Child("key"), key, utilvalidation.IsConfigMapKey)
}

func (p *problems) envFrom(sources []corev1.EnvFromSource, at *field.Path) {
	for i, s := range sources {
		index := at.Index(i)
		if s.Prefix != "" {
			p.invalid(index.Child("prefix"), s.Prefix, utilvalidation.IsRelaxedEnvVarName(s.Prefix)...)
		}
		if s.ConfigMapRef != nil {
			p.needValid(index.Child("configMapRef", "name"), s.ConfigMapRef.Name, utilvalidation.IsDNS1123Subdomain)
		}
		if s.SecretRef != nil {
			p.needValid(index.Child("secretRef", "name"), s.SecretRef.Name, utilvalidation.IsDNS1123Subdomain)
		}
		switch {
		case s.ConfigMapRef == nil && s.SecretRef == nil:
			p.invalid(at, "", "must specify one of: `configMapRef` or `secretRef`")
		case s.ConfigMapRef != nil && s.SecretRef != nil:
			p.invalid(at, "", "may not have more than one field specified at a time")
		}
	}
}

// resources validates the requests and limits of a container.
func (p *problems) resources(r *corev1.ResourceRequirements, at *field.Path) {
	for _, name := range sortedKeys(r.Limits) {
		p.quantity(name, r.Limits[name], at.Child("limits").Key(string(name)))
	}
	requests := at.Child("requests")
	for _, name := range sortedKeys(r.Requests) {
		request := r.Requests[name]
		p.quantity(name, request, requests.Key(string(name)))
		limit, limited := r.Limits[name]
		switch shared := overcommitted(name); {
		case limited && !shared && request.Cmp(limit) != 0:
			p.invalid(requests, request.String(), fmt.Sprintf("must be equal to %s limit of %s", name, limit.String()))
		case limited && request.Cmp(limit) > 0:
			p.invalid(requests, request.String(), fmt.Sprintf("must be less than or equal to %s limit of %s", name, limit.String()))
		case !limited && !shared:
			p.required(at.Child("limits"), "Limit must be set for non overcommitable resources")
		}
	}
}

// overcommitted reports whether requests of a resource may be lower than limits.
func overcommitted(name corev1.ResourceName) bool {
	return isNative(name) && !strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

// isNative reports whether a resource is one of Kubernetes' own.
func isNative(name corev1.ResourceName) bool {
	return !strings.Contains(string(name), "/") || strings.Contains(string(name), corev1.ResourceDefaultNamespacePrefix)
}

// quantity validates the name and the quantity of a resource of a container.
func (p *problems) quantity(name corev1.ResourceName, q resource.Quantity, at *field.Path) {
	text := string(name)
	standard := slices.Contains([]string{"cpu", "memory", "ephemeral-storage"}, text) || strings.HasPrefix(text, corev1.ResourceHugePagesPrefix)
	why := utilvalidation.IsQualifiedName(text)
	p.invalid(at, name, why...)
	switch plain := !strings.Contains(text, "/"); {
	case len(why) == 0 && plain && !standard && text != "storage" && text != "pods":
		p.invalid(at, name, "must be a standard resource type or fully qualified", "must be a standard resource for containers")
	case plain && !standard:
		p.invalid(at, name, "must be a standard resource for containers")
	case !isNative(name) && strings.HasPrefix(text, corev1.DefaultResourceRequestsPrefix):
		p.invalid(at, name, "doesn't follow extended resource name standard")
	}
	p.notNegativeQuantity(at, q)
	if !isNative(name) && q.MilliValue()%1000 != 0 {
		p.invalid(at, q, "must be an integer")
	}
}

func (p *problems) notNegativeQuantity(at *field.Path, q resource.Quantity) {
	if q.Sign() < 0 {
		p.invalid(at, q.String(), validation.IsNegativeErrorMsg)
	}
}
