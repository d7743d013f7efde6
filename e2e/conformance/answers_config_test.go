package conformance

var (
	configuration  = resource{"v1", "ConfigMap", "/api/v1/namespaces/{ns}/configmaps"}
	secret         = resource{"v1", "Secret", "/api/v1/namespaces/{ns}/secrets"}
	account        = resource{"v1", "ServiceAccount", "/api/v1/namespaces/{ns}/serviceaccounts"}
	claim          = resource{"v1", "PersistentVolumeClaim", "/api/v1/namespaces/{ns}/persistentvolumeclaims"}
	lease          = resource{"coordination.k8s.io/v1", "Lease", "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases"}
	autoscaler     = resource{"autoscaling/v2", "HorizontalPodAutoscaler", "/apis/autoscaling/v2/namespaces/{ns}/horizontalpodautoscalers"}
	ingress        = resource{"networking.k8s.io/v1", "Ingress", "/apis/networking.k8s.io/v1/namespaces/{ns}/ingresses"}
	role           = resource{"rbac.authorization.k8s.io/v1", "Role", "/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}/roles"}
	roleBinding    = resource{"rbac.authorization.k8s.io/v1", "RoleBinding", "/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}/rolebindings"}
	clusterRole    = resource{"rbac.authorization.k8s.io/v1", "ClusterRole", "/apis/rbac.authorization.k8s.io/v1/clusterroles"}
	clusterBinding = resource{"rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"}
)

var configKinds = []exchange{
	configuration.create("data", `"data":{"a":"b"},"binaryData":{"c":"ZA=="}`),
	configuration.create("data-key", `"data":{"a b":"c"}`),
	configuration.create("binary-key", `"binaryData":{"..":"ZA=="}`),
	configuration.create("data-twice", `"data":{"a":"b"},"binaryData":{"a":"ZA=="}`),
	configuration.create("frozen", `"data":{"a":"b"},"immutable":true`),
	configuration.merge("frozen", "other data", `{"data":{"a":"c"}}`),
	configuration.merge("frozen", "other binary data", `{"binaryData":{"c":"ZA=="}}`),
	configuration.merge("frozen", "not immutable", `{"immutable":false}`),
	configuration.merge("frozen", "a label", `{"metadata":{"labels":{"a":"b"}}}`),
	secret.create("opaque", `"stringData":{"a":"b"},"data":{"c":"ZA=="}`),
	secret.create("data-key", `"data":{"a b":"ZA=="}`),
	secret.create("tls", `"type":"kubernetes.io/tls","stringData":{"tls.crt":"c","tls.key":"k"}`),
	secret.create("tls-empty", `"type":"kubernetes.io/tls"`),
	secret.create("basic", `"type":"kubernetes.io/basic-auth"`),
	secret.create("ssh", `"type":"kubernetes.io/ssh-auth","data":{"ssh-privatekey":""}`),
	secret.create("docker", `"type":"kubernetes.io/dockerconfigjson"`),
	secret.create("docker-invalid", `"type":"kubernetes.io/dockerconfigjson","stringData":{".dockerconfigjson":"nonsense"}`),
	secret.create("dockercfg", `"type":"kubernetes.io/dockercfg"`),
	secret.create("token", `"type":"kubernetes.io/service-account-token"`),
	secret.create("own-type", `"type":"example.com/own"`),
	secret.create("frozen", `"stringData":{"a":"b"},"immutable":true`),
	secret.merge("opaque", "another type", `{"type":"example.com/own"}`),
	secret.merge("opaque", "string data", `{"stringData":{"a":"z"}}`),
	secret.merge("frozen", "other data", `{"stringData":{"a":"c"}}`),
	secret.merge("frozen", "not immutable", `{"immutable":null}`),
	account.create("account", `"automountServiceAccountToken":false,"imagePullSecrets":[{"name":"s"}]`),
	account.create("Not_A_Name", `"secrets":[]`),
	claim.spec("defaults", `"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}`),
	claim.spec("empty", ""),
	claim.spec("modes", `"accessModes":["Some"],"resources":{"requests":{"storage":"1Gi"}}`),
	claim.spec("exclusive", `"accessModes":["ReadWriteOncePod","ReadOnlyMany"],"resources":{"requests":{"storage":"1Gi"}}`),
	claim.spec("zero", `"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"0"}}`),
	claim.spec("class", `"accessModes":["ReadWriteOnce"],"storageClassName":"Not_A_Name","volumeMode":"Some","resources":{"requests":{"storage":"1Gi"}}`),
	claim.spec("source", `"accessModes":["ReadWriteOnce"],"dataSource":{"kind":"PersistentVolumeClaim","name":"defaults"},"resources":{"requests":{"storage":"1Gi"}}`),
	claim.spec("source-invalid", `"accessModes":["ReadWriteOnce"],"dataSource":{"kind":"Pod","name":""},"resources":{"requests":{"storage":"1Gi"}}`),
	claim.merge("defaults", "more storage", `{"spec":{"resources":{"requests":{"storage":"2Gi"}}}}`),
	claim.merge("defaults", "a volume", `{"spec":{"volumeName":"v"}}`),
	claim.merge("defaults", "another mode", `{"spec":{"volumeMode":"Block"}}`),
	lease.spec("defaults", `"holderIdentity":"me","leaseDurationSeconds":15,"leaseTransitions":0`),
	lease.spec("duration", `"leaseDurationSeconds":0,"leaseTransitions":-1`),
	lease.spec("strategy", `"strategy":"Some"`),
	lease.spec("preferred", `"preferredHolder":"me"`),
	lease.merge("defaults", "no duration", `{"spec":{"leaseDurationSeconds":-1}}`),
}

// target is the reference of an autoscaler.
const target = `"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"d"}`

// routed returns a request to create an ingress with one path of these fields.
func routed(name, fields string) exchange {
	return ingress.spec(name, `"rules":[{"host":"example.com","http":{"paths":[{`+fields+`}]}}]`)
}

const backend = `"backend":{"service":{"name":"s","port":{"number":80}}}`

var ruleKinds = []exchange{
	autoscaler.spec("defaults", `"maxReplicas":3,`+target),
	autoscaler.spec("no-maximum", target),
	autoscaler.spec("maximum-below-minimum", `"minReplicas":5,"maxReplicas":3,`+target),
	autoscaler.spec("negative", `"minReplicas":-1,"maxReplicas":-3,`+target),
	autoscaler.spec("no-target", `"maxReplicas":3`),
	autoscaler.spec("target-version", `"maxReplicas":3,"scaleTargetRef":{"apiVersion":"a/b/c","kind":"Deployment","name":"d"}`),
	autoscaler.spec("target-group", `"maxReplicas":3,"scaleTargetRef":{"apiVersion":"v1","kind":"Deployment","name":"d"}`),
	autoscaler.spec("behavior", `"maxReplicas":3,"behavior":{"scaleDown":{"stabilizationWindowSeconds":60}},`+target),
	autoscaler.spec("behavior-invalid", `"maxReplicas":3,"behavior":{"scaleUp":{"stabilizationWindowSeconds":4000,"selectPolicy":"Some","policies":[{"type":"Some","value":0,"periodSeconds":0}]}},`+target),
	autoscaler.spec("behavior-negative", `"maxReplicas":3,"behavior":{"scaleDown":{"stabilizationWindowSeconds":-1,"policies":[{"type":"Pods","value":1,"periodSeconds":2000}]}},`+target),
	autoscaler.spec("metric", `"maxReplicas":3,"metrics":[{"type":"Resource","resource":{"name":"memory","target":{"type":"AverageValue","averageValue":"100Mi"}}},{"type":"Pods","pods":{"metric":{"name":"m"},"target":{"type":"AverageValue","averageValue":"1"}}}],`+target),
	autoscaler.spec("metric-without-type", `"maxReplicas":3,"metrics":[{}],`+target),
	autoscaler.spec("metric-unknown", `"maxReplicas":3,"metrics":[{"type":"Some"}],`+target),
	autoscaler.spec("metric-without-source", `"maxReplicas":3,"metrics":[{"type":"Pods"}],`+target),
	autoscaler.spec("metric-with-other-source", `"maxReplicas":3,"metrics":[{"type":"Pods","pods":{"metric":{"name":"m"},"target":{"type":"AverageValue","averageValue":"1"}},"resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":50}}}],`+target),
	autoscaler.spec("metric-without-target", `"maxReplicas":3,"metrics":[{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization"}}}],`+target),
	autoscaler.spec("metric-target", `"maxReplicas":3,"metrics":[{"type":"Resource","resource":{"name":"cpu","target":{"type":"Some","averageUtilization":0}}}],`+target),
	autoscaler.spec("metric-external", `"maxReplicas":3,"metrics":[{"type":"External","external":{"metric":{"name":"m"},"target":{"type":"Value","value":"0"}}}],`+target),
	autoscaler.merge("defaults", "a smaller maximum", `{"spec":{"maxReplicas":0}}`),
	change("HorizontalPodAutoscaler defaults: status", autoscaler.path+"/defaults/status", mergePatch, `{"status":{"desiredReplicas":-1}}`),
	routed("defaults", `"path":"/","pathType":"Prefix",`+backend),
	routed("no-path-type", `"path":"/",`+backend),
	routed("unknown-path-type", `"path":"/","pathType":"Some",`+backend),
	routed("relative-path", `"path":"a//b/.","pathType":"Exact",`+backend),
	routed("specific-path", `"path":"a","pathType":"ImplementationSpecific",`+backend),
	routed("no-backend", `"path":"/","pathType":"Prefix"`),
	routed("no-port", `"path":"/","pathType":"Prefix","backend":{"service":{"name":"s"}}`),
	routed("two-ports", `"path":"/","pathType":"Prefix","backend":{"service":{"name":"","port":{"name":"a","number":80}}}`),
	routed("port-name", `"path":"/","pathType":"Prefix","backend":{"service":{"name":"Not_A_Name","port":{"name":"Not_A_Name"}}}`),
	routed("two-backends", `"path":"/","pathType":"Prefix","backend":{"service":{"name":"s","port":{"number":80}},"resource":{"kind":"K","name":"n"}}`),
	routed("resource-backend", `"path":"/","pathType":"Prefix","backend":{"resource":{"kind":"","name":"a/b"}}`),
	ingress.spec("empty", ""),
	ingress.spec("default-backend", `"defaultBackend":{"service":{"name":"s","port":{"name":"web"}}},"ingressClassName":"nginx"`),
	ingress.spec("class", `"defaultBackend":{"service":{"name":"s","port":{"number":70000}}},"ingressClassName":"Not_A_Name"`),
	ingress.spec("hosts", `"rules":[{"host":"10.0.0.1"},{"host":"*.example.com"},{"host":"a.*.com"},{"host":"Not_A_Host"}]`),
	ingress.spec("no-paths", `"rules":[{"http":{"paths":[]}}]`),
	ingress.spec("tls", `"rules":[{"host":"example.com"}],"tls":[{"hosts":["example.com","Not_A_Host","*.a.*"],"secretName":"Not_A_Name"}]`),
	ingress.merge("defaults", "no rules", `{"spec":{"rules":null}}`),
	role.create("role", `"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["get"]}]`),
	role.create("colon:name", `"rules":[]`),
	role.create("no-verbs", `"rules":[{"apiGroups":[""],"resources":["pods"]}]`),
	role.create("no-resources", `"rules":[{"verbs":["get"]}]`),
	role.create("urls", `"rules":[{"verbs":["get"],"nonResourceURLs":["/x"]}]`),
	clusterRole.create("conformance-urls", `"rules":[{"verbs":["get"],"nonResourceURLs":["/x"],"apiGroups":[""]}]`),
	clusterRole.create("conformance-aggregated", `"aggregationRule":{}`),
	clusterRole.create("conformance-selectors", `"aggregationRule":{"clusterRoleSelectors":[{"matchExpressions":[{"key":"a","operator":"Some"}]}]}`),
	roleBinding.create("bound", `"roleRef":{"kind":"Role","name":"role"},"subjects":[{"kind":"User","name":"u"},{"kind":"ServiceAccount","name":"s","namespace":"n"}]`),
	roleBinding.create("no-role", `"subjects":[]`),
	roleBinding.create("other-role", `"roleRef":{"kind":"Pod","name":"a/b","apiGroup":"apps"}`),
	roleBinding.create("subjects", `"roleRef":{"kind":"Role","name":"role"},"subjects":[{"kind":"User","name":""},{"kind":"Some","name":"u"},{"kind":"ServiceAccount","name":"A_B","apiGroup":"apps"},{"kind":"Group","name":"g","apiGroup":"apps"}]`),
	roleBinding.merge("bound", "another role", `{"roleRef":{"name":"other"}}`),
	roleBinding.merge("bound", "other subjects", `{"subjects":[{"kind":"Group","name":"g"}]}`),
	clusterBinding.create("conformance-no-namespace", `"roleRef":{"kind":"Role","name":"r"},"subjects":[{"kind":"ServiceAccount","name":"s"}]`),
}
