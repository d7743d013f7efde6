package conformance

const namespaces = "/api/v1/namespaces"

// terminations delete the topic's own namespace. It is not empty, because nothing empties it on
// the real server.
var terminations = []exchange{
	remove("the default namespace", namespaces+"/default", ""),
	remove("the default namespace in a dry run", namespaces+"/default", `{"apiVersion":"v1","kind":"DeleteOptions","dryRun":["All"]}`),
	remove("the default namespace with another UID", namespaces+"/default", `{"apiVersion":"v1","kind":"DeleteOptions","preconditions":{"uid":"other"}}`),
	remove("the system's namespace", namespaces+"/kube-system", ""),
	remove("the public namespace", namespaces+"/kube-public", ""),
	remove("no namespace", namespaces+"/nowhere", ""),
	configMap("held", `"finalizers":["example.com/f"]`),
	remove("another UID", namespaces+"/{ns}", `{"apiVersion":"v1","kind":"DeleteOptions","preconditions":{"uid":"other"}}`),
	remove("a dry run", namespaces+"/{ns}", `{"apiVersion":"v1","kind":"DeleteOptions","dryRun":["All"]}`),
	{name: "it left all", path: namespaces + "/{ns}"},
	change("finalizers of the metadata", namespaces+"/{ns}", mergePatch, `{"metadata":{"finalizers":["example.com/m"]}}`),
	remove("delete it", namespaces+"/{ns}", ""),
	{name: "it is terminating", path: namespaces + "/{ns}"},
	{name: "it is terminating, as a table", path: namespaces + "/{ns}", accept: asTable},
	post("create in it", configMap("late", "").body),
	remove("delete it again", namespaces+"/{ns}", ""),
	change("no finalizers of the metadata", namespaces+"/{ns}", mergePatch, `{"metadata":{"finalizers":null}}`),
	change("no finalizers of the spec", namespaces+"/{ns}", mergePatch, `{"spec":{"finalizers":null}}`),
	{name: "it stays", path: namespaces + "/{ns}"},
	{name: "finalize it with another finalizer", method: "PUT", path: namespaces + "/{ns}/finalize", body: `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"{ns}"},"spec":{"finalizers":["kubernetes","example.com/s"]}}`},
	{name: "finalize it in a dry run", method: "PUT", path: namespaces + "/{ns}/finalize", query: "dryRun=All", body: `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"{ns}"},"spec":{}}`},
	{name: "finalize it", method: "PUT", path: namespaces + "/{ns}/finalize", body: `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"{ns}"},"spec":{}}`},
	{name: "it is removed", path: namespaces + "/{ns}"},
	remove("delete what is removed", namespaces+"/{ns}", ""),
}

// put returns an update of an object that does not exist.
func (r resource) put(name, metadata, fields string) exchange {
	return exchange{
		name: r.kind + " put " + name, method: "PUT", path: r.path + "/put",
		body: `{"apiVersion":"` + r.version + `","kind":"` + r.kind + `","metadata":{"name":"put"` + metadata + `},` + fields + `}`,
	}
}

var (
	endpoints  = resource{"v1", "Endpoints", "/api/v1/namespaces/{ns}/endpoints"}
	limitRange = resource{"v1", "LimitRange", "/api/v1/namespaces/{ns}/limitranges"}
	event      = resource{"v1", "Event", coreEvents}
)

// createdByUpdates are updates of what does not exist.
var createdByUpdates = []exchange{
	service.put("with a UID", `,"uid":"other"`, `"spec":{"ports":[{"port":80}]}`),
	service.put("without ports", "", `"spec":{}`),
	{name: "Service put in a dry run", method: "PUT", path: service.path + "/put", query: "dryRun=All", body: service.put("", "", `"spec":{"ports":[{"port":80}]}`).body},
	{name: "the dry run left nothing", path: service.path + "/put"},
	{name: "Service put elsewhere", method: "PUT", path: "/api/v1/namespaces/nowhere/services/put", body: service.put("", "", `"spec":{"ports":[{"port":80}]}`).body},
	service.put("at a version", `,"resourceVersion":"5"`, `"spec":{"ports":[{"port":80}]},"status":{"conditions":[{"type":"A","status":"True"}]}`),
	service.put("again", "", `"spec":{"ports":[{"port":81}]}`),
	endpoints.put("", "", `"subsets":[]`),
	limitRange.put("", "", `"spec":{"limits":[{"type":"Pod","max":{"cpu":"1"}}]}`),
	lease.put("", "", `"spec":{"holderIdentity":"x"}`),
	lease.put("again", "", `"spec":{"holderIdentity":"y"}`),
	role.put("", "", `"rules":[]`),
	roleBinding.put("", "", `"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"put"}`),
	event.put("", "", `"involvedObject":{"namespace":"{ns}"}`),
	pod.put("", "", `"spec":{"containers":[`+container("")+`]}`),
	deployment.put("", "", `"spec":{`+template("")+`}`),
	newRole("putter", `{"apiGroups":["coordination.k8s.io"],"resources":["leases"],"verbs":["get","update"]}`),
	bound("putter", "Role", "putter", "pia"),
	{name: "with permission to update", path: lease.path + "/put", as: "pia", until: `"status":200`},
	{name: "without permission to create", method: "PUT", path: lease.path + "/denied", as: "pia", body: `{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"denied"},"spec":{}}`},
}
