package conformance

import (
	"fmt"
	"strings"
)

// resource is a built-in kind whose defaults and validation are compared.
type resource struct{ version, kind, path string }

var (
	service     = resource{"v1", "Service", "/api/v1/namespaces/{ns}/services"}
	pod         = resource{"v1", "Pod", pods}
	replicator  = resource{"v1", "ReplicationController", "/api/v1/namespaces/{ns}/replicationcontrollers"}
	deployment  = resource{"apps/v1", "Deployment", deployments}
	replicaSet  = resource{"apps/v1", "ReplicaSet", "/apis/apps/v1/namespaces/{ns}/replicasets"}
	statefulSet = resource{"apps/v1", "StatefulSet", "/apis/apps/v1/namespaces/{ns}/statefulsets"}
	daemonSet   = resource{"apps/v1", "DaemonSet", "/apis/apps/v1/namespaces/{ns}/daemonsets"}
	job         = resource{"batch/v1", "Job", "/apis/batch/v1/namespaces/{ns}/jobs"}
	cronJob     = resource{"batch/v1", "CronJob", "/apis/batch/v1/namespaces/{ns}/cronjobs"}
)

// create returns a request to create an object with these fields.
func (r resource) create(name, fields string) exchange {
	return exchange{
		name: r.kind + " " + name, method: "POST", path: r.path,
		body: fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":%q},%s}`, r.version, r.kind, name, fields),
	}
}

// spec returns a request to create an object with this spec.
func (r resource) spec(name, fields string) exchange { return r.create(name, `"spec":{`+fields+`}`) }

// merge returns a request to change an object.
func (r resource) merge(name, what, body string) exchange {
	return change(r.kind+" "+name+": "+what, r.path+"/"+name, mergePatch, body)
}

// container is a container with these fields in addition.
func container(fields string) string {
	return `{"name":"main","image":"example.com/main:1"` + strings.TrimSuffix(","+fields, ",") + `}`
}

// inPod returns a request to create a pod with one container of these fields.
func inPod(name, fields string) exchange {
	return pod.spec(name, `"containers":[`+container(fields)+`]`)
}

// withVolume returns a request to create a pod with a volume of these fields.
func withVolume(name, fields string) exchange {
	return pod.spec(name, `"volumes":[{`+fields+`}],"containers":[`+container("")+`]`)
}

// template is a selector and a pod template with the label app=x, and the fields of its spec.
func template(fields string) string {
	return `"selector":{"matchLabels":{"app":"x"}},` + unselected(fields)
}

func unselected(fields string) string {
	return `"template":{"metadata":{"labels":{"app":"x"}},"spec":{"containers":[` + container("") + `]` + strings.TrimSuffix(","+fields, ",") + `}}`
}

var services = []exchange{
	service.spec("defaults", `"selector":{"app":"x"},"ports":[{"port":80}]`),
	service.spec("headless", `"clusterIP":"None","selector":{"app":"x"},"ports":[{"name":"http","port":80,"targetPort":"web"}]`),
	service.spec("headless-without-selector", `"clusterIP":"None"`),
	service.spec("node-port", `"type":"NodePort","ports":[{"port":80,"protocol":"UDP"}]`),
	service.spec("balanced", `"type":"LoadBalancer","ports":[{"port":80},{"port":80,"protocol":"UDP","name":"u"}]`),
	service.spec("balanced-named", `"type":"LoadBalancer","ports":[{"name":"t","port":80},{"port":80,"protocol":"UDP","name":"u"}]`),
	service.spec("balanced-locally", `"type":"LoadBalancer","externalTrafficPolicy":"Local","ports":[{"port":80}],"loadBalancerClass":"example.com/lb","loadBalancerSourceRanges":["10.0.0.0/8"]`),
	service.spec("balanced-without-node-ports", `"type":"LoadBalancer","allocateLoadBalancerNodePorts":false,"ports":[{"port":80}]`),
	service.spec("external", `"type":"ExternalName","externalName":"example.com"`),
	service.spec("external-with-ip", `"type":"ExternalName","externalName":"example.com","clusterIP":"10.0.0.7"`),
	service.spec("external-nowhere", `"type":"ExternalName"`),
	service.spec("external-invalid", `"type":"ExternalName","externalName":"not a name"`),
	service.spec("affinity", `"sessionAffinity":"ClientIP","ports":[{"port":80}]`),
	service.spec("affinity-too-long", `"sessionAffinity":"ClientIP","sessionAffinityConfig":{"clientIP":{"timeoutSeconds":100000}},"ports":[{"port":80}]`),
	service.spec("affinity-unknown", `"sessionAffinity":"Some","ports":[{"port":80}]`),
	service.spec("no-ports", `"selector":{"app":"x"}`),
	service.spec("unknown-type", `"type":"Some","ports":[{"port":80}]`),
	service.spec("port-too-high", `"ports":[{"port":70000}]`),
	service.spec("port-zero", `"ports":[{"port":0,"targetPort":80}]`),
	service.spec("unknown-protocol", `"ports":[{"port":80,"protocol":"ICMP"}]`),
	service.spec("target-port", `"ports":[{"port":80,"targetPort":"Not_A_Port"}]`),
	service.spec("ports-without-names", `"ports":[{"port":80},{"port":81}]`),
	service.spec("ports-with-equal-names", `"ports":[{"name":"a","port":80},{"name":"a","port":81}]`),
	service.spec("equal-ports", `"ports":[{"name":"a","port":80},{"name":"b","port":80}]`),
	service.spec("port-name", `"ports":[{"name":"Not_A_Name","port":80}]`),
	service.spec("node-port-of-cluster-ip", `"ports":[{"port":80,"nodePort":30001}]`),
	service.spec("node-port-out-of-range", `"type":"NodePort","ports":[{"port":80,"nodePort":80}]`),
	service.spec("node-port-headless", `"type":"NodePort","clusterIP":"None","ports":[{"port":80}]`),
	service.spec("invalid-ip", `"clusterIP":"nonsense","ports":[{"port":80}]`),
	service.spec("invalid-selector", `"selector":{"a b":"c d"},"ports":[{"port":80}]`),
	service.spec("unknown-family", `"ipFamilies":["IPv5"],"ports":[{"port":80}]`),
	service.spec("ipv6", `"ipFamilies":["IPv6"],"ports":[{"port":80}]`),
	service.spec("dual-stack", `"ipFamilyPolicy":"RequireDualStack","ports":[{"port":80}]`),
	service.spec("dual-stack-preferred", `"ipFamilyPolicy":"PreferDualStack","ports":[{"port":80}]`),
	service.spec("internal-policy", `"internalTrafficPolicy":"Some","ports":[{"port":80}]`),
	service.spec("external-policy-of-cluster-ip", `"externalTrafficPolicy":"Local","ports":[{"port":80}]`),
	service.spec("balancer-class-of-cluster-ip", `"loadBalancerClass":"example.com/lb","ports":[{"port":80}]`),
	service.spec("balancer-ranges", `"type":"LoadBalancer","loadBalancerSourceRanges":["nonsense"],"ports":[{"port":80}]`),
	service.spec("health-check-of-cluster-ip", `"healthCheckNodePort":30000,"ports":[{"port":80}]`),
	service.spec("traffic-distribution", `"trafficDistribution":"Some","ports":[{"port":80}]`),
	service.spec("external-ip", `"externalIPs":["nonsense"],"ports":[{"port":80}]`),
	service.spec("Not.A.Label", `"ports":[{"port":80}]`),
	service.spec("dotted.name", `"ports":[{"port":80}]`),
	service.merge("defaults", "another port", `{"spec":{"ports":[{"port":81,"name":"new"}]}}`),
	service.merge("defaults", "no ports", `{"spec":{"ports":null}}`),
	service.merge("defaults", "another IP", `{"spec":{"clusterIP":"10.0.0.1"}}`),
	service.merge("defaults", "headless", `{"spec":{"clusterIP":"None"}}`),
	service.merge("defaults", "a node port", `{"spec":{"type":"NodePort"}}`),
	service.merge("defaults", "a cluster IP again", `{"spec":{"type":"ClusterIP"}}`),
	service.merge("defaults", "an external name", `{"spec":{"type":"ExternalName","externalName":"example.com"}}`),
	service.merge("external", "a cluster IP", `{"spec":{"type":"ClusterIP","ports":[{"port":80}]}}`),
	service.merge("balanced-locally", "another class", `{"spec":{"loadBalancerClass":"example.com/other"}}`),
	service.merge("balanced-locally", "a cluster IP", `{"spec":{"type":"ClusterIP","loadBalancerSourceRanges":null}}`),
	change("Service status", service.path+"/balanced-named/status", mergePatch, `{"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.1"}]}}}`),
	{name: "Service as applied", method: "PATCH", path: service.path + "/applied", typ: applyPatch, query: "fieldManager=one", body: `{"apiVersion":"v1","kind":"Service","metadata":{"name":"applied"},"spec":{"ports":[{"port":80}]}}`},
	{name: "Service applied again", method: "PATCH", path: service.path + "/applied", typ: applyPatch, query: "fieldManager=one", body: `{"apiVersion":"v1","kind":"Service","metadata":{"name":"applied"},"spec":{"ports":[{"port":81}]}}`},
	{name: "Service put without what was allocated", method: "PUT", path: service.path + "/applied", body: `{"apiVersion":"v1","kind":"Service","metadata":{"name":"applied"},"spec":{"selector":{"a":"b"},"ports":[{"port":82}]}}`},
	{name: "Service as a dry run", method: "POST", path: service.path, query: "dryRun=All", body: `{"apiVersion":"v1","kind":"Service","metadata":{"name":"dry"},"spec":{"ports":[{"port":80}]}}`},
}

var podKinds = []exchange{
	inPod("defaults", ""),
	pod.spec("no-containers", `"containers":[]`),
	pod.spec("latest", `"containers":[{"name":"a","image":"a"},{"name":"b","image":"b:latest"},{"name":"c","image":"c:1"},{"name":"d","image":"host:5000/d"},{"name":"e","image":"e@sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"}]`),
	pod.spec("no-image", `"containers":[{"name":"a"}]`),
	pod.spec("no-name", `"containers":[{"image":"a"}]`),
	pod.spec("container-name", `"containers":[{"name":"Not_A_Name","image":"a"}]`),
	pod.spec("equal-containers", `"containers":[{"name":"a","image":"a"},{"name":"a","image":"b"}]`),
	pod.spec("image-with-space", `"containers":[{"name":"a","image":" a"}]`),
	inPod("pull-policy", `"imagePullPolicy":"Some"`),
	inPod("termination-policy", `"terminationMessagePolicy":"Some"`),
	inPod("ports", `"ports":[{"containerPort":80},{"containerPort":81,"name":"web","protocol":"UDP"}]`),
	inPod("port-missing", `"ports":[{"name":"web"}]`),
	inPod("port-too-high", `"ports":[{"containerPort":70000,"hostPort":70000}]`),
	inPod("port-protocol", `"ports":[{"containerPort":80,"protocol":"Some"}]`),
	inPod("equal-port-names", `"ports":[{"containerPort":80,"name":"web"},{"containerPort":81,"name":"web"}]`),
	inPod("equal-host-ports", `"ports":[{"containerPort":80,"hostPort":8080},{"containerPort":81,"hostPort":8080}]`),
	pod.spec("host-network", `"hostNetwork":true,"containers":[`+container(`"ports":[{"containerPort":80}]`)+`]`),
	pod.spec("host-network-ports", `"hostNetwork":true,"containers":[`+container(`"ports":[{"containerPort":80,"hostPort":81}]`)+`]`),
	inPod("env", `"env":[{"name":"A","value":"b"},{"name":"N","valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}},{"name":"C","valueFrom":{"configMapKeyRef":{"name":"c","key":"k"}}}]`),
	inPod("env-without-name", `"env":[{"value":"b"}]`),
	inPod("env-twice", `"env":[{"name":"A","value":"b","valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}}]`),
	inPod("env-from-nothing", `"env":[{"name":"A","valueFrom":{}}]`),
	inPod("env-from-unknown-field", `"env":[{"name":"A","valueFrom":{"fieldRef":{"fieldPath":"spec.colour"}}}]`),
	inPod("env-from-all-labels", `"env":[{"name":"A","valueFrom":{"fieldRef":{"fieldPath":"metadata.labels"}}}]`),
	inPod("env-from-a-label", `"env":[{"name":"A","valueFrom":{"fieldRef":{"fieldPath":"metadata.labels['app']"}}}]`),
	inPod("env-from-secret", `"env":[{"name":"A","valueFrom":{"secretKeyRef":{"name":"s"}}}]`),
	inPod("env-from", `"envFrom":[{"configMapRef":{"name":"c"}},{"prefix":"P_","secretRef":{"name":"s"}}]`),
	inPod("env-from-no-source", `"envFrom":[{}]`),
	inPod("resources", `"resources":{"limits":{"cpu":"1","memory":"1Gi"}}`),
	inPod("resources-burstable", `"resources":{"requests":{"cpu":"100m"},"limits":{"cpu":"1"}}`),
	inPod("resources-rounded", `"resources":{"requests":{"cpu":"0.0001"}}`),
	inPod("resources-over-limit", `"resources":{"requests":{"cpu":"2"},"limits":{"cpu":"1"}}`),
	inPod("resources-negative", `"resources":{"requests":{"cpu":"-1"}}`),
	inPod("resources-unknown", `"resources":{"requests":{"colour":"1"}}`),
	inPod("resources-extended", `"resources":{"requests":{"example.com/gpu":"1"},"limits":{"example.com/gpu":"2"}}`),
	inPod("resources-extended-unlimited", `"resources":{"requests":{"example.com/gpu":"1"}}`),
	inPod("resources-extended-fraction", `"resources":{"limits":{"example.com/gpu":"0.5"}}`),
	inPod("probes", `"livenessProbe":{"httpGet":{"port":80}},"readinessProbe":{"tcpSocket":{"port":"web"},"successThreshold":2},"startupProbe":{"exec":{"command":["true"]}}`),
	inPod("probe-grpc", `"livenessProbe":{"grpc":{"port":80}}`),
	inPod("probe-without-handler", `"livenessProbe":{"periodSeconds":5}`),
	inPod("probe-with-two-handlers", `"livenessProbe":{"httpGet":{"port":80},"tcpSocket":{"port":80}}`),
	inPod("probe-threshold", `"livenessProbe":{"httpGet":{"port":80},"successThreshold":2}`),
	inPod("probe-port", `"livenessProbe":{"httpGet":{"port":0}}`),
	inPod("probe-negative", `"readinessProbe":{"exec":{"command":["true"]},"periodSeconds":-1,"terminationGracePeriodSeconds":5}`),
	inPod("probe-without-command", `"readinessProbe":{"exec":{}}`),
	inPod("lifecycle", `"lifecycle":{"preStop":{"httpGet":{"port":80}},"postStart":{"exec":{"command":["true"]}}}`),
	inPod("lifecycle-without-handler", `"lifecycle":{"preStop":{}}`),
	pod.spec("init-containers", `"initContainers":[{"name":"init","image":"a"},{"name":"side","image":"b","restartPolicy":"Always","livenessProbe":{"httpGet":{"port":80}}}],"containers":[`+container("")+`]`),
	pod.spec("init-container-with-probe", `"initContainers":[{"name":"init","image":"a","livenessProbe":{"httpGet":{"port":80}}}],"containers":[`+container("")+`]`),
	pod.spec("init-container-name", `"initContainers":[{"name":"main","image":"a"}],"containers":[`+container("")+`]`),
	pod.spec("volumes", `"volumes":[{"name":"e"},{"name":"c","configMap":{"name":"c"}},{"name":"s","secret":{"secretName":"s","items":[{"key":"k","path":"p"}]}},{"name":"h","hostPath":{"path":"/x"}},{"name":"d","downwardAPI":{"items":[{"path":"l","fieldRef":{"fieldPath":"metadata.labels"}}]}},{"name":"p","persistentVolumeClaim":{"claimName":"p"}},{"name":"j","projected":{"sources":[{"configMap":{"name":"c"}},{"secret":{"name":"s"}}]}}],"containers":[`+container(`"volumeMounts":[{"name":"e","mountPath":"/e"},{"name":"c","mountPath":"/c","readOnly":true,"subPath":"x"}]`)+`]`),
	withVolume("volume-without-name", `"emptyDir":{}`),
	withVolume("volume-name", `"name":"Not_A_Name","emptyDir":{}`),
	withVolume("volume-with-two-types", `"name":"v","emptyDir":{},"configMap":{"name":"c"}`),
	withVolume("volume-without-secret", `"name":"v","secret":{}`),
	withVolume("volume-without-config-map", `"name":"v","configMap":{"defaultMode":1000}`),
	withVolume("volume-without-claim", `"name":"v","persistentVolumeClaim":{"claimName":""}`),
	withVolume("volume-without-path", `"name":"v","hostPath":{"path":""}`),
	withVolume("volume-host-path", `"name":"v","hostPath":{"path":"/a/../b","type":"Some"}`),
	withVolume("volume-items", `"name":"v","configMap":{"name":"c","items":[{"key":"","path":"/abs"},{"key":"k","path":"../x"}]}`),
	pod.spec("equal-volumes", `"volumes":[{"name":"v"},{"name":"v"}],"containers":[`+container("")+`]`),
	inPod("mount-without-volume", `"volumeMounts":[{"name":"v","mountPath":"/v"}]`),
	pod.spec("equal-mounts", `"volumes":[{"name":"v"}],"containers":[`+container(`"volumeMounts":[{"name":"v","mountPath":"/v"},{"name":"v","mountPath":"/v"},{"name":"v","mountPath":""}]`)+`]`),
	pod.spec("mount-sub-path", `"volumes":[{"name":"v"}],"containers":[`+container(`"volumeMounts":[{"name":"v","mountPath":"/v","subPath":"../x"}]`)+`]`),
	pod.spec("restart-policy", `"restartPolicy":"Some","containers":[`+container("")+`]`),
	pod.spec("dns-policy", `"dnsPolicy":"Some","containers":[`+container("")+`]`),
	pod.spec("deadline", `"activeDeadlineSeconds":0,"containers":[`+container("")+`]`),
	pod.spec("node-selector", `"nodeSelector":{"a b":"c"},"containers":[`+container("")+`]`),
	pod.spec("names", `"serviceAccountName":"Not_A_Name","nodeName":"Not_A_Name","hostname":"a.b","subdomain":"a.b","containers":[`+container("")+`]`),
	pod.spec("tolerations", `"tolerations":[{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute"},{"operator":"Exists","effect":"NoSchedule"}],"containers":[`+container("")+`]`),
	pod.spec("tolerate-everything", `"tolerations":[{"operator":"Exists"}],"containers":[`+container("")+`]`),
	pod.spec("invalid-tolerations", `"tolerations":[{"operator":"Equal"},{"key":"a","operator":"Exists","value":"v"},{"key":"a","operator":"Some"},{"key":"a","effect":"Some"},{"key":"a","tolerationSeconds":5}],"containers":[`+container("")+`]`),
	pod.spec("spread", `"topologySpreadConstraints":[{"maxSkew":0,"topologyKey":"","whenUnsatisfiable":"Some"}],"containers":[`+container("")+`]`),
	pod.spec("run-as", `"securityContext":{"runAsUser":-1},"containers":[`+container(`"securityContext":{"runAsGroup":-1,"runAsUser":1000}`)+`]`),
	pod.spec("gated", `"schedulingGates":[{"name":"example.com/gate"}],"containers":[`+container("")+`]`),
	pod.merge("gated", "another gate", `{"spec":{"schedulingGates":[{"name":"example.com/other"}]}}`),
	pod.merge("gated", "no gate", `{"spec":{"schedulingGates":null}}`),
	change("Pod defaults: another image", pods+"/defaults", strategicPatch, `{"spec":{"containers":[{"name":"main","image":"example.com/main:2"}]}}`),
	change("Pod defaults: no image", pods+"/defaults", strategicPatch, `{"spec":{"containers":[{"name":"main","image":""}]}}`),
	change("Pod defaults: one more container", pods+"/defaults", strategicPatch, `{"spec":{"containers":[{"name":"more","image":"more"}]}}`),
	change("Pod defaults: another command", pods+"/defaults", strategicPatch, `{"spec":{"containers":[{"name":"main","command":["x"]}]}}`),
	pod.merge("defaults", "a deadline", `{"spec":{"activeDeadlineSeconds":60}}`),
	pod.merge("defaults", "a longer deadline", `{"spec":{"activeDeadlineSeconds":90}}`),
	pod.merge("defaults", "no deadline", `{"spec":{"activeDeadlineSeconds":null}}`),
	pod.merge("defaults", "another node", `{"spec":{"nodeName":"n1"}}`),
	pod.merge("defaults", "another restart policy", `{"spec":{"restartPolicy":"Never"}}`),
	pod.merge("defaults", "one more toleration", `{"spec":{"tolerations":[{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300},{"key":"node.kubernetes.io/unreachable","operator":"Exists","effect":"NoExecute","tolerationSeconds":300},{"key":"a","operator":"Exists"}]}}`),
	pod.merge("defaults", "other tolerations", `{"spec":{"tolerations":[{"key":"node.kubernetes.io/unreachable","operator":"Exists","effect":"NoSchedule"}]}}`),
	pod.merge("defaults", "a label", `{"metadata":{"labels":{"a":"b"}}}`),
}
