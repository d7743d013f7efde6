package conformance

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
)

// made returns a request that creates an object at a path. Only its metadata is compared.
func made(path, body string) exchange {
	return exchange{name: "create at " + path, method: "POST", path: path, body: body, accept: asMetadata}
}

// replica returns a workload with replicas, without what the real server defaults.
func replica(apiVersion, kind, name, selector string) string {
	return fmt.Sprintf(`{"apiVersion":"%s","kind":"%s","metadata":{"name":"%s","labels":{"app":"d"}},"spec":{"replicas":2,"selector":%s,"serviceName":"s","template":{"metadata":{"labels":{"app":"d"}},"spec":{"containers":[{"name":"main","image":"example.com/main"}]}}}}`, apiVersion, kind, name, selector)
}

// scale returns a scale of d.
func scale(meta string, replicas int) string {
	return fmt.Sprintf(`{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"d"%s},"spec":{"replicas":%d}}`, meta, replicas)
}

var scales = []exchange{
	made(deployments, replica("apps/v1", "Deployment", "d", `{"matchLabels":{"app":"d"}}`)),
	{name: "get", path: deployments + "/d/scale", save: "s"},
	{name: "get as protobuf", path: deployments + "/d/scale", accept: asProtobuf},
	{name: "get as YAML", path: deployments + "/d/scale", accept: "application/yaml"},
	{name: "get of nothing", path: deployments + "/z/scale"},
	change("a merge", deployments+"/d/scale", mergePatch, `{"spec":{"replicas":3}}`),
	change("a JSON patch", deployments+"/d/scale", jsonPatch, `[{"op":"test","path":"/spec/replicas","value":3},{"op":"replace","path":"/spec/replicas","value":4}]`),
	change("a JSON patch whose test fails", deployments+"/d/scale", jsonPatch, `[{"op":"test","path":"/spec/replicas","value":9}]`),
	change("a strategic patch", deployments+"/d/scale", strategicPatch, `{"spec":{"replicas":5}}`),
	change("a patch of nothing", deployments+"/z/scale", mergePatch, `{"spec":{"replicas":5}}`),
	change("an unknown patch", deployments+"/d/scale", "application/json", `{}`),
	change("a negative merge", deployments+"/d/scale", mergePatch, `{"spec":{"replicas":-1}}`),
	change("a merge at a stale version", deployments+"/d/scale", mergePatch, `{"metadata":{"resourceVersion":"{s.version}"},"spec":{"replicas":9}}`),
	change("a merge of the name", deployments+"/d/scale", mergePatch, `{"metadata":{"name":"e"}}`),
	change("a merge with an unknown field", deployments+"/d/scale", mergePatch, `{"spec":{"colour":"red"}}`),
	{name: "put", method: "PUT", path: deployments + "/d/scale", body: scale("", 6)},
	{name: "put the same", method: "PUT", path: deployments + "/d/scale", body: scale("", 6)},
	{name: "put at a stale version", method: "PUT", path: deployments + "/d/scale", body: scale(`,"resourceVersion":"{s.version}"`, 7)},
	{name: "put its UID", method: "PUT", path: deployments + "/d/scale", body: scale(`,"uid":"{s.uid}"`, 7)},
	{name: "put another name", method: "PUT", path: deployments + "/d/scale", body: `{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"e"}}`},
	{name: "put a negative number", method: "PUT", path: deployments + "/d/scale", body: scale("", -1)},
	{name: "put of nothing", method: "PUT", path: deployments + "/z/scale", body: `{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"z"}}`},
	{name: "put an unknown field", method: "PUT", path: deployments + "/d/scale", body: `{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"d"},"spec":{"replicas":7,"colour":"red"}}`},
	{name: "put an unknown field, strictly", method: "PUT", path: deployments + "/d/scale", query: "fieldValidation=Strict", body: `{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"d"},"spec":{"replicas":7,"colour":"red"}}`},
	{name: "put a dry run", method: "PUT", path: deployments + "/d/scale", query: "dryRun=All", body: scale("", 9)},
	{name: "put an unknown dry run", method: "PUT", path: deployments + "/d/scale", query: "dryRun=Some", body: scale("", 9)},
	{name: "a dry run of a merge", method: "PATCH", path: deployments + "/d/scale", typ: mergePatch, query: "dryRun=All", body: `{"spec":{"replicas":9}}`},
	{name: "they left nothing", path: deployments + "/d/scale"},
	apply("apply without a manager", deployments+"/d/scale", "", scale("", 8)),
	apply("apply by force", deployments+"/d/scale", "fieldManager=one&force=true", scale("", 8)),
	apply("apply the same", deployments+"/d/scale", "fieldManager=one", scale("", 8)),
	apply("apply a conflict", deployments+"/d/scale", "fieldManager=two", scale("", 9)),
	apply("apply a conflict with the whole object", deployments+"/d", "fieldManager=two", `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"},"spec":{"replicas":9}}`),
	apply("apply a dry run", deployments+"/d/scale", "fieldManager=two&force=true&dryRun=All", scale("", 9)),
	apply("apply another kind", deployments+"/d/scale", "fieldManager=one", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"d"}}`),
	apply("apply to nothing", deployments+"/z/scale", "fieldManager=one", `{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"z"},"spec":{"replicas":1}}`),
	{name: "what is left", path: deployments + "/d/scale"},
	{name: "the generation", path: deployments + "/d", accept: asMetadata},
	{name: "post", method: "POST", path: deployments + "/d/scale", body: scale("", 1)},
	{name: "delete", method: "DELETE", path: deployments + "/d/scale"},
	{name: "of a daemon set", path: "/apis/apps/v1/namespaces/{ns}/daemonsets/d/scale"},
	made("/api/v1/namespaces/{ns}/replicationcontrollers", replica("v1", "ReplicationController", "d", `{"app":"d"}`)),
	{name: "of a replication controller", path: "/api/v1/namespaces/{ns}/replicationcontrollers/d/scale"},
	change("a merge for a replication controller", "/api/v1/namespaces/{ns}/replicationcontrollers/d/scale", mergePatch, `{"spec":{"replicas":0}}`),
	made("/apis/apps/v1/namespaces/{ns}/statefulsets", replica("apps/v1", "StatefulSet", "d", `{"matchExpressions":[{"key":"app","operator":"In","values":["d","e"]}]}`)),
	{name: "of a stateful set", path: "/apis/apps/v1/namespaces/{ns}/statefulsets/d/scale"},
}

const (
	budgets     = "/apis/policy/v1/namespaces/{ns}/poddisruptionbudgets"
	quotas      = "/api/v1/namespaces/{ns}/resourcequotas"
	attachments = "/apis/storage.k8s.io/v1/volumeattachments"
)

// budget returns a disruption budget.
func budget(name, app, meta, status string) string {
	return fmt.Sprintf(`{"apiVersion":"policy/v1","kind":"PodDisruptionBudget","metadata":{"name":"%s"%s},"spec":{"minAvailable":1,"selector":{"matchLabels":{"app":"%s"}}},"status":%s}`, name, meta, app, status)
}

// allowance is the status of a budget.
func allowance(generation, allowed, healthy, desired int) string {
	return fmt.Sprintf(`{"observedGeneration":%d,"disruptionsAllowed":%d,"currentHealthy":%d,"desiredHealthy":%d,"expectedPods":3}`, generation, allowed, healthy, desired)
}

var statuses = []exchange{
	{name: "create a budget", method: "POST", path: budgets, save: "b", body: budget("b", "b", `,"labels":{"a":"1"}`, allowance(1, 1, 2, 1))},
	{name: "put without a version", method: "PUT", path: budgets + "/b/status", body: budget("b", "b", "", "{}")},
	{name: "put with labels", method: "PUT", path: budgets + "/b/status", save: "b1", body: budget("b", "ignored", `,"resourceVersion":"{b.version}","labels":{"a":"2"},"annotations":{"n":"m"}`, allowance(1, 1, 2, 1))},
	{name: "put at a stale version", method: "PUT", path: budgets + "/b/status", body: budget("b", "b", `,"resourceVersion":"{b.version}"`, allowance(1, 0, 0, 0))},
	{name: "put its UID", method: "PUT", path: budgets + "/b/status", save: "b2", body: budget("b", "b", `,"resourceVersion":"{b1.version}","uid":"{b.uid}"`, allowance(1, 2, 2, 1))},
	{name: "a put to the object leaves the status", method: "PUT", path: budgets + "/b", body: budget("b", "c", `,"resourceVersion":"{b2.version}","labels":{"a":"3"}`, allowance(9, 9, 9, 9))},
	{name: "the whole object", path: budgets + "/b"},
	{name: "the status", path: budgets + "/b/status"},
	{name: "the status of nothing", path: budgets + "/z/status"},
	change("a merge with labels", budgets+"/b/status", mergePatch, `{"metadata":{"labels":{"a":"4","b":null}},"spec":{"minAvailable":7},"status":{"currentHealthy":5}}`),
	change("a JSON patch", budgets+"/b/status", jsonPatch, `[{"op":"replace","path":"/status/currentHealthy","value":6}]`),
	change("a strategic patch of finalizers", budgets+"/b/status", strategicPatch, `{"metadata":{"finalizers":["example.com/f"]}}`),
	change("a strategic patch of conditions", budgets+"/b/status", strategicPatch, `{"status":{"conditions":[{"type":"A","status":"True","reason":"R","message":"m","lastTransitionTime":"2020-01-01T00:00:00Z"}]}}`),
	{name: "a merge of metadata only", method: "PATCH", path: budgets + "/b/status", typ: mergePatch, accept: asMetadata, body: `{"metadata":{"annotations":{"n":"o"}}}`},
	{name: "a dry run", method: "PATCH", path: budgets + "/b/status", typ: mergePatch, query: "dryRun=All", body: `{"status":{"currentHealthy":99}}`},
	{name: "it left nothing", path: budgets + "/b/status"},
	apply("apply", budgets+"/b/status", "fieldManager=one&force=true", `{"apiVersion":"policy/v1","kind":"PodDisruptionBudget","metadata":{"name":"b"},"status":{"currentHealthy":7,"desiredHealthy":1,"disruptionsAllowed":1,"expectedPods":3}}`),
	apply("apply a conflict", budgets+"/b/status", "fieldManager=two", `{"apiVersion":"policy/v1","kind":"PodDisruptionBudget","metadata":{"name":"b"},"status":{"currentHealthy":8,"desiredHealthy":1,"disruptionsAllowed":1,"expectedPods":3}}`),
	apply("apply to nothing", budgets+"/z/status", "fieldManager=one", `{"apiVersion":"policy/v1","kind":"PodDisruptionBudget","metadata":{"name":"z"},"status":{"currentHealthy":7}}`),
	{name: "delete it", method: "DELETE", path: budgets + "/b"},
	change("a finalizer is removed by the status", budgets+"/b/status", mergePatch, `{"metadata":{"finalizers":null}}`),
	{name: "it is deleted", path: budgets + "/b"},
	{name: "post", method: "POST", path: budgets + "/b/status", body: budget("b", "b", "", "{}")},
	{name: "create a quota", method: "POST", path: quotas, body: `{"apiVersion":"v1","kind":"ResourceQuota","metadata":{"name":"q"},"spec":{"hard":{"pods":"3"}}}`},
	change("a quota's labels and status", quotas+"/q/status", mergePatch, `{"metadata":{"labels":{"a":"b"}},"spec":{"hard":{"pods":"9"}},"status":{"hard":{"pods":"3"},"used":{"pods":"1"}}}`),
	{name: "create an attachment", method: "POST", path: attachments, body: `{"apiVersion":"storage.k8s.io/v1","kind":"VolumeAttachment","metadata":{"name":"{ns}"},"spec":{"attacher":"example.com","nodeName":"n1","source":{"persistentVolumeName":"p"}}}`},
	change("an attachment's labels are ignored", attachments+"/{ns}/status", mergePatch, `{"metadata":{"labels":{"a":"b"}},"spec":{"nodeName":"n2"},"status":{"attached":true}}`),
	{name: "delete the attachment", method: "DELETE", path: attachments + "/{ns}"},
	change("a namespace's labels and status", "/api/v1/namespaces/{ns}/status", mergePatch, `{"metadata":{"labels":{"a":"b"}},"status":{"conditions":[{"type":"A","status":"True"}]}}`),
	{name: "finalize a namespace", method: "PUT", path: "/api/v1/namespaces/{ns}/finalize", body: `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"{ns}","labels":{"a":"c"}},"spec":{"finalizers":["kubernetes","example.com/f"]},"status":{"phase":"Terminating"}}`},
	change("a namespace's finalizers are not merged", "/api/v1/namespaces/{ns}", mergePatch, `{"spec":{"finalizers":["example.com/g"]}}`),
	change("finalize by a patch", "/api/v1/namespaces/{ns}/finalize", mergePatch, `{}`),
	{name: "the status of a config map", path: "a/status"},
	{name: "the status of a lease", path: "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases/l/status"},
}

// running is the status of a pod that is ready, or not.
func running(ready string) string {
	return fmt.Sprintf(`{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"%s"}]}}`, ready)
}

// podFor returns a pod, with an answer of which only the metadata are compared.
func podFor(name, app string) exchange {
	return made(pods, fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"%s","labels":{"app":"%s"}},"spec":{"containers":[{"name":"main","image":"example.com/main"}]}}`, name, app))
}

func binding(name, meta, target string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"Binding","metadata":{"name":"%s"%s},"target":%s}`, name, meta, target)
}

func eviction(name, options string) string {
	return fmt.Sprintf(`{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"%s"}%s}`, name, options)
}

var podSubresources = []exchange{
	podFor("a", "a"),
	{name: "bind another name", method: "POST", path: pods + "/a/binding", body: binding("b", "", `{"kind":"Node","name":"n1"}`)},
	{name: "bind nothing", method: "POST", path: pods + "/z/binding", body: binding("z", "", `{"kind":"Node","name":"n1"}`)},
	{name: "bind in another namespace", method: "POST", path: pods + "/a/binding", body: binding("a", `,"namespace":"other"`, `{"kind":"Node","name":"n1"}`)},
	{name: "bind nothing by the collection", method: "POST", path: "/api/v1/namespaces/{ns}/bindings", body: binding("z", "", `{"kind":"Node","name":"n1"}`)},
	{name: "bind by the collection in a dry run", method: "POST", path: "/api/v1/namespaces/{ns}/bindings", query: "dryRun=All", body: binding("a", "", `{"kind":"Node","name":"n1"}`)},
	{name: "list bindings", path: "/api/v1/namespaces/{ns}/bindings"},
	{name: "bind a dry run", method: "POST", path: pods + "/a/binding", query: "dryRun=All", body: binding("a", "", `{"kind":"Node","name":"n1"}`)},
	{name: "bind", method: "POST", path: pods + "/a/binding", body: binding("a", `,"annotations":{"by":"me"},"labels":{"zone":"z"}`, `{"kind":"Node","name":"n1"}`)},
	{name: "bind again", method: "POST", path: pods + "/a/binding", body: binding("a", "", `{"kind":"Node","name":"n2"}`)},
	{name: "the bound pod", path: pods + "/a"},
	{name: "bind by get", path: pods + "/a/binding"},
	podFor("pending", "guarded"),
	{name: "evict another name", method: "POST", path: pods + "/pending/eviction", body: eviction("b", "")},
	{name: "evict nothing", method: "POST", path: pods + "/z/eviction", body: eviction("z", "")},
	{name: "evict at another version", method: "POST", path: pods + "/pending/eviction", body: eviction("pending", `,"deleteOptions":{"preconditions":{"resourceVersion":"1"}}`)},
	{name: "evict a dry run", method: "POST", path: pods + "/pending/eviction", query: "dryRun=All", body: eviction("pending", "")},
	{name: "it left all", path: pods + "/pending", accept: asMetadata},
	{name: "evict what is pending", method: "POST", path: pods + "/pending/eviction", body: eviction("pending", "")},
	{name: "it is evicted", path: pods + "/pending"},
	podFor("r1", "guarded"), podFor("r2", "guarded"), podFor("r3", "guarded"),
	change("r1 runs", pods+"/r1/status", mergePatch, running("True")),
	change("r2 runs", pods+"/r2/status", mergePatch, running("True")),
	change("r3 is not ready", pods+"/r3/status", mergePatch, running("False")),
	{name: "create a budget", method: "POST", path: budgets, body: budget("guard", "guarded", "", "{}")},
	{name: "evict with a budget that is not observed", method: "POST", path: pods + "/r1/eviction", body: eviction("r1", "")},
	change("the budget is exhausted", budgets+"/guard/status", mergePatch, `{"status":`+allowance(1, 0, 1, 1)+`}`),
	{name: "evict with an exhausted budget", method: "POST", path: pods + "/r1/eviction", body: eviction("r1", "")},
	{name: "evict what is not ready", method: "POST", path: pods + "/r3/eviction", query: "dryRun=All", body: eviction("r3", "")},
	change("the budget explains itself", budgets+"/guard/status", mergePatch, `{"status":{"currentHealthy":3,"conditions":[{"type":"DisruptionAllowed","status":"False","reason":"Paused","message":"maintenance","lastTransitionTime":"2020-01-01T00:00:00Z"}]}}`),
	{name: "evict with an explanation", method: "POST", path: pods + "/r1/eviction", body: eviction("r1", "")},
	change("the budget allows one", budgets+"/guard/status", mergePatch, `{"status":`+allowance(1, 1, 2, 1)+`}`),
	{name: "evict a dry run with a budget", method: "POST", path: pods + "/r1/eviction", body: eviction("r1", `,"deleteOptions":{"dryRun":["All"]}`)},
	{name: "evict with a budget", method: "POST", path: pods + "/r1/eviction", body: eviction("r1", "")},
	{name: "the budget is used", path: budgets + "/guard/status"},
	{name: "evict another", method: "POST", path: pods + "/r2/eviction", body: `{"apiVersion":"policy/v1beta1","kind":"Eviction","metadata":{"name":"r2"}}`},
	{name: "create a second budget", method: "POST", path: budgets, body: budget("second", "guarded", "", "{}")},
	{name: "evict with two budgets", method: "POST", path: pods + "/r2/eviction", body: eviction("r2", "")},
	podFor("e", "e"),
	{name: "an ephemeral container", method: "PATCH", path: pods + "/e/ephemeralcontainers", typ: strategicPatch, accept: asMetadata, body: `{"metadata":{"labels":{"a":"b"}},"spec":{"ephemeralContainers":[{"name":"debug","image":"example.com/debug"}]}}`},
	{name: "get ephemeral containers", path: pods + "/e/ephemeralcontainers", accept: asMetadata},
	{name: "get the size", path: pods + "/e/resize", accept: asMetadata},
	{name: "post ephemeral containers", method: "POST", path: pods + "/e/ephemeralcontainers", body: `{}`},
	podFor("w", "w"),
	{name: "a pod before its deletion", path: pods + "/w", accept: asMetadata, save: "w"},
	remove("delete what is not assigned", pods+"/w", ""),
	{name: "its deletion is watched", path: pods, query: "watch=1&fieldSelector=metadata.name%3Dw&resourceVersion={w.version}", events: 2},
	{name: "create q", method: "POST", path: pods, accept: asMetadata, body: `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"q"},"spec":{"nodeName":"n1","containers":[{"name":"main","image":"example.com/main"}]}}`},
	{name: "delete a dry run", method: "DELETE", path: pods + "/q", query: "dryRun=All"},
	{name: "delete it at once, a dry run", method: "DELETE", path: pods + "/q", query: "dryRun=All&gracePeriodSeconds=0"},
	{name: "the dry runs left it", path: pods + "/q", accept: asMetadata},
	{name: "delete with a negative period", method: "DELETE", path: pods + "/q", query: "gracePeriodSeconds=-5"},
	{name: "delete with a longer period", method: "DELETE", path: pods + "/q", query: "gracePeriodSeconds=50"},
	{name: "bind what is deleted", method: "POST", path: pods + "/q/binding", body: binding("q", "", `{"kind":"Node","name":"n2"}`)},
	{name: "delete with period 0", method: "DELETE", path: pods + "/q", query: "gracePeriodSeconds=0"},
	{name: "it is deleted", path: pods + "/q"},
}

var dryRuns = []exchange{
	configMap("a", `"labels":{"app":"x"}`),
	{name: "create", method: "POST", query: "dryRun=All", body: configMap("b", "").body},
	{name: "create at a version", method: "POST", query: "dryRun=All", body: configMap("b", `"resourceVersion":"5"`).body},
	{name: "create a bad name", method: "POST", query: "dryRun=All", body: configMap("B_", "").body},
	{name: "create in an unknown namespace", method: "POST", path: "/api/v1/namespaces/nowhere/configmaps", query: "dryRun=All", body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}`},
	{name: "update", method: "PUT", path: "a", query: "dryRun=All", body: put("a", "7", `"labels":{"app":"y"}`, "").body},
	{name: "update at a stale version", method: "PUT", path: "a", query: "dryRun=All", body: put("a", "7", `"resourceVersion":"1"`, "").body},
	{name: "update nothing", method: "PUT", path: "z", query: "dryRun=All", body: put("z", "7", `"resourceVersion":"1"`, "").body},
	{name: "a merge of finalizers", method: "PATCH", path: "a", typ: mergePatch, query: "dryRun=All", body: `{"metadata":{"finalizers":["example.com/f"]}}`},
	{name: "a JSON patch", method: "PATCH", path: "a", typ: jsonPatch, query: "dryRun=All", body: `[{"op":"remove","path":"/metadata/labels"}]`},
	{name: "a strategic patch", method: "PATCH", path: "a", typ: strategicPatch, query: "dryRun=All", body: `{"data":{"k":"v"}}`},
	{name: "a merge of nothing", method: "PATCH", path: "z", typ: mergePatch, query: "dryRun=All", body: `{}`},
	apply("apply something new", "s", "fieldManager=one&dryRun=All", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"s"},"data":{"x":"1"}}`),
	{name: "it left nothing", path: "s"},
	apply("apply to what exists", "a", "fieldManager=one&dryRun=All", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"x":"1"}}`),
	remove("delete at another version", "a", `{"apiVersion":"v1","kind":"DeleteOptions","dryRun":["All"],"preconditions":{"resourceVersion":"1"}}`),
	remove("delete nothing", "z", `{"apiVersion":"v1","kind":"DeleteOptions","dryRun":["All"]}`),
	{name: "delete twice", method: "DELETE", path: "a", query: "dryRun=All&dryRun=All"},
	{name: "a collection", method: "DELETE", query: "dryRun=All"},
	{name: "create a namespace", method: "POST", path: "/api/v1/namespaces", query: "dryRun=All", body: `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"{ns}-dry"}}`},
	{name: "it does not exist", path: "/api/v1/namespaces/{ns}-dry"},
	{name: "nothing was watched", query: "watch=1&timeoutSeconds=1&resourceVersion={a.version}", events: 1},
	{name: "all is left", path: "a"},
}

const warned = "/apis/warnings.example.com/v1/namespaces/{ns}/widgets"

// tried is a creation whose result is not kept. Its warnings are compared.
func tried(name, path, body string) exchange {
	return exchange{name: name, method: "POST", path: path, query: "dryRun=All", body: body, accept: asMetadata}
}

var warnings = []exchange{
	{name: "list endpoints", path: "/api/v1/namespaces/{ns}/endpoints"},
	{name: "create endpoints", method: "POST", path: "/api/v1/namespaces/{ns}/endpoints", body: `{"apiVersion":"v1","kind":"Endpoints","metadata":{"name":"e"}}`},
	{name: "get endpoints", path: "/api/v1/namespaces/{ns}/endpoints/e"},
	change("merge endpoints with an unknown field", "/api/v1/namespaces/{ns}/endpoints/e", mergePatch, `{"colour":"red"}`),
	{name: "watch endpoints", path: "/api/v1/namespaces/{ns}/endpoints", query: "watch=1", events: 1},
	{name: "delete endpoints", method: "DELETE", path: "/api/v1/namespaces/{ns}/endpoints/e"},
	{name: "list endpoint slices", path: "/apis/discovery.k8s.io/v1/namespaces/{ns}/endpointslices"},
	configMap("a", ""),
	{name: "update with an unknown field", method: "PUT", path: "a", body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","colour":"red"},"size":5}`},
	{name: "update with a field twice", method: "PUT", path: "a", body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"a":"b","a":"c"},"data":{}}`},
	{name: "update with an unknown field, strictly", method: "PUT", path: "a", query: "fieldValidation=Strict", body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","colour":"red"},"size":5}`},
	{name: "update with an unknown field, ignored", method: "PUT", path: "a", query: "fieldValidation=Ignore", body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","colour":"red"}}`},
	change("a JSON patch of an unknown field", "a", jsonPatch, `[{"op":"add","path":"/colour","value":"red"}]`),
	change("a strategic patch of an unknown field", "a", strategicPatch, `{"colour":"red"}`),
	{name: "a merge of an unknown field, ignored", method: "PATCH", path: "a", typ: mergePatch, query: "fieldValidation=Ignore", body: `{"colour":"red"}`},
	{name: "YAML with an unknown field", method: "POST", typ: "application/yaml", body: "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: yaml\ncolour: red\n"},
	{name: "YAML with a field twice, strictly", method: "POST", typ: "application/yaml", query: "fieldValidation=Strict", body: "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: twice\ndata:\n  a: b\ndata:\n  a: b\n"},
	made("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition("warnings.example.com", "widgets", "Widget")),
	{name: "the definition is served", path: warned, until: "WidgetList"},
	{name: "create with finalizers", method: "POST", path: warned, body: `{"apiVersion":"warnings.example.com/v1","kind":"Widget","metadata":{"name":"w","finalizers":["short","example.com","example.com/f"]}}`},
	change("a merge with the same finalizers", warned+"/w", mergePatch, `{"metadata":{"labels":{"a":"b"}}}`),
	change("a merge with another finalizer", warned+"/w", mergePatch, `{"metadata":{"finalizers":["short","other"]}}`),
	change("a merge into the status", warned+"/w/status", mergePatch, `{"metadata":{"finalizers":["more"]},"status":{}}`),
	change("remove the finalizers", warned+"/w", mergePatch, `{"metadata":{"finalizers":null}}`),
	{name: "create a config map with a finalizer", method: "POST", body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"f","finalizers":["orphan"]}}`},
	{name: "remove the definition", method: "DELETE", path: "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.warnings.example.com", accept: asMetadata},
	tried("a questionable pod", "/api/v1/namespaces/{ns}/pods", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"w"},"spec":{
		"nodeSelector":{"beta.kubernetes.io/os":"linux"},"imagePullSecrets":[{"name":"s"},{"name":"s"},{}],
		"topologySpreadConstraints":[{"maxSkew":1,"topologyKey":"failure-domain.beta.kubernetes.io/zone","whenUnsatisfiable":"DoNotSchedule"}],
		"affinity":{"podAntiAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"topologyKey":"zone"}]}},
		"containers":[{"name":"a","image":"a","env":[{"name":"X","value":"1"},{"name":"X","value":"$(X)2"},{"name":"X","value":"3"}],"ports":[{"containerPort":80,"name":"http"},{"containerPort":80,"hostPort":80}]},
			{"name":"b","image":"b","resources":{"limits":{"memory":"100m"}},"ports":[{"containerPort":80}]}]}}`),
	tried("a negative grace period", "/api/v1/namespaces/{ns}/pods", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"w","annotations":{"scheduler.alpha.kubernetes.io/critical-pod":""}},"spec":{"terminationGracePeriodSeconds":-1,"containers":[{"name":"a","image":"a"}]}}`),
	tried("a deployment with dots", "/apis/apps/v1/namespaces/{ns}/deployments", `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a.b"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"nodeSelector":{"beta.kubernetes.io/arch":"amd64"},"containers":[{"name":"a","image":"a"}]}}}}`),
	tried("a cron job with dots", "/apis/batch/v1/namespaces/{ns}/cronjobs", `{"apiVersion":"batch/v1","kind":"CronJob","metadata":{"name":"a.b"},"spec":{"schedule":"* * * * *","jobTemplate":{"spec":{"template":{"spec":{"restartPolicy":"Never","imagePullSecrets":[{}],"containers":[{"name":"a","image":"a"}]}}}}}}`),
	tried("a headless service", "/api/v1/namespaces/{ns}/services", `{"apiVersion":"v1","kind":"Service","metadata":{"name":"w"},"spec":{"clusterIP":"None","externalIPs":["192.0.2.1"],"sessionAffinity":"ClientIP","ports":[{"port":80}]}}`),
	tried("a service with old fields", "/api/v1/namespaces/{ns}/services", `{"apiVersion":"v1","kind":"Service","metadata":{"name":"w","annotations":{"service.kubernetes.io/topology-aware-hints":"auto"}},"spec":{"externalIPs":["192.0.2.1"],"trafficDistribution":"PreferClose","ports":[{"port":80}]}}`),
	tried("an ingress with an old class", "/apis/networking.k8s.io/v1/namespaces/{ns}/ingresses", `{"apiVersion":"networking.k8s.io/v1","kind":"Ingress","metadata":{"name":"w","annotations":{"kubernetes.io/ingress.class":"x"}},"spec":{"defaultBackend":{"service":{"name":"s","port":{"number":80}}}}}`),
	tried("a fraction of a byte", "/api/v1/namespaces/{ns}/persistentvolumeclaims", `{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"w"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1500m"}}}}`),
	tried("an account with an old annotation", "/api/v1/namespaces/{ns}/serviceaccounts", `{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"w","annotations":{"kubernetes.io/enforce-mountable-secrets":"true"}}}`),
}

const (
	coreEvents = "/api/v1/namespaces/{ns}/events"
	newEvents  = "/apis/events.k8s.io/v1/namespaces/{ns}/events"
)

var bothEvents = []exchange{
	{name: "create in the core group", method: "POST", path: coreEvents, body: `{"apiVersion":"v1","kind":"Event","metadata":{"name":"old"},"involvedObject":{"kind":"Pod","namespace":"{ns}","name":"p"},"reason":"Testing","message":"m","type":"Normal","count":3,"firstTimestamp":"2020-01-01T00:00:00Z","lastTimestamp":"2020-01-02T00:00:00Z","source":{"component":"c","host":"h"}}`},
	{name: "get it in the new group", path: newEvents + "/old"},
	{name: "create in the new group", method: "POST", path: newEvents, body: `{"apiVersion":"events.k8s.io/v1","kind":"Event","metadata":{"name":"new"},"regarding":{"kind":"Pod","namespace":"{ns}","name":"q"},"reason":"Testing","action":"Act","note":"n","type":"Warning","eventTime":"2020-01-01T00:00:00.000000Z","reportingController":"example.com/c","reportingInstance":"c-0"}`},
	{name: "get it in the core group", path: coreEvents + "/new"},
	{name: "list the core group", path: coreEvents},
	{name: "list the new group", path: newEvents},
	{name: "list the new group as metadata", path: newEvents, accept: asMetaList},
	{name: "by the involved object", path: coreEvents, query: "fieldSelector=involvedObject.name%3Dq"},
	{name: "by the regarded object", path: newEvents, query: "fieldSelector=regarding.name%3Dq"},
	{name: "by reason in the new group", path: newEvents, query: "fieldSelector=reason%3DTesting,type%3DWarning"},
	change("a series in the new group", newEvents+"/new", mergePatch, `{"series":{"count":2,"lastObservedTime":"2020-01-03T00:00:00.000000Z"}}`),
	change("a count in the core group", coreEvents+"/old", mergePatch, `{"count":4,"message":"again"}`),
	change("a strategic patch in the core group", coreEvents+"/old", strategicPatch, `{"count":5}`),
	{name: "the patched one in the new group", path: newEvents + "/old"},
	{name: "a dry run in the new group", method: "DELETE", path: newEvents + "/old", query: "dryRun=All"},
	{name: "watch the new group", path: newEvents, query: "watch=1&fieldSelector=metadata.name%3Dnew", events: 1},
	{name: "delete it in the new group", method: "DELETE", path: newEvents + "/old"},
	{name: "it is deleted", path: coreEvents + "/old"},
	{name: "delete the collection in the core group", method: "DELETE", path: coreEvents},
	{name: "nothing is left", path: newEvents},
}

const signingRequests = "/apis/certificates.k8s.io/v1/certificatesigningrequests"

// certificateRequest returns a PEM certificate request in base64, as the API has it.
func certificateRequest() string {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	raw, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "conformance"}}, key)
	if err != nil {
		panic(err)
	}
	return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: raw}))
}

var signing = []exchange{
	made(signingRequests, `{"apiVersion":"certificates.k8s.io/v1","kind":"CertificateSigningRequest","metadata":{"name":"{ns}"},"spec":{"request":"`+certificateRequest()+`","signerName":"example.com/s","usages":["client auth"]}}`),
	{name: "approve", method: "PATCH", path: signingRequests + "/{ns}/approval", typ: mergePatch, body: `{"metadata":{"labels":{"a":"b"}},"spec":{"signerName":"example.com/other"},"status":{"certificate":"aWdub3JlZA==","conditions":[{"type":"Approved","status":"True","reason":"Test"}]}}`},
	{name: "the approval", path: signingRequests + "/{ns}/approval"},
	change("a status with another condition", signingRequests+"/{ns}/status", mergePatch, `{"status":{"conditions":[{"type":"Approved","status":"True","reason":"Test"},{"type":"Failed","status":"True","reason":"Test"}]}}`),
	change("a status without the approval", signingRequests+"/{ns}/status", mergePatch, `{"status":{"conditions":[{"type":"Failed","status":"True","reason":"Test"}]}}`),
	change("a status that denies", signingRequests+"/{ns}/status", strategicPatch, `{"status":{"conditions":[{"type":"Denied","status":"True","reason":"Test"}]}}`),
	change("deny what is approved", signingRequests+"/{ns}/approval", strategicPatch, `{"status":{"conditions":[{"type":"Denied","status":"True","reason":"Test"}]}}`),
	change("a certificate", signingRequests+"/{ns}/approval", mergePatch, `{"status":{"certificate":"aWdub3JlZA=="}}`),
	{name: "a dry run", method: "PATCH", path: signingRequests + "/{ns}/approval", typ: mergePatch, query: "dryRun=All", body: `{"status":{"conditions":[{"type":"Approved","status":"True","reason":"Again"}]}}`},
	change("a label", signingRequests+"/{ns}", mergePatch, `{"metadata":{"labels":{"a":"c"}},"spec":{"signerName":"example.com/other"},"status":{"conditions":[]}}`),
	{name: "post an approval", method: "POST", path: signingRequests + "/{ns}/approval", body: `{}`},
	{name: "the approval of nothing", path: signingRequests + "/z/approval"},
	{name: "delete it", method: "DELETE", path: signingRequests + "/{ns}", accept: asMetadata},
}
