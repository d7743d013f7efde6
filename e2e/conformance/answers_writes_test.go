package conformance

import (
	"fmt"
	"strings"
)

const (
	jsonPatch      = "application/json-patch+json"
	mergePatch     = "application/merge-patch+json"
	strategicPatch = "application/strategic-merge-patch+json"
	applyPatch     = "application/apply-patch+yaml"
)

// post returns a request with this body.
func post(name, body string) exchange { return exchange{name: name, method: "POST", body: body} }

// doublings returns a JSON patch that doubles an object's data n times, by copying them into
// themselves.
func doublings(n int) string {
	var ops []string
	for i := range n {
		ops = append(ops, fmt.Sprintf(`{"op":"copy","from":"/data","path":"/data/copy%d"}`, i))
	}
	return "[" + strings.Join(ops, ",") + "]"
}

var creates = []exchange{
	configMap("a", `"labels":{"app":"x"},"annotations":{"note":"n"}`),
	{name: "twice", method: "POST", body: configMap("a", "").body},
	{name: "generated", method: "POST", body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"generateName":"g-"}}`},
	{name: "without a kind", method: "POST", body: `{"metadata":{"name":"kindless"}}`},
	post("without a name", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{}}`),
	post("a bad name", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"Not_A_Name"}}`),
	post("a bad prefix", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"generateName":"Not_A_Name-"}}`),
	post("a bad label", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"l","labels":{"a b":"c d"}}}`),
	post("a bad finalizer", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"f","finalizers":["a b"]}}`),
	post("a bad owner", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"o","ownerReferences":[{"kind":"Pod","name":"p"}]}}`),
	post("annotations that are too long", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"long","annotations":{"a":"`+strings.Repeat("x", 300<<10)+`"}}}`),
	post("a body that is too long", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"long"},"data":{"a":"`+strings.Repeat("x", 4<<20)+`"}}`),
	post("a version", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"v","resourceVersion":"1"}}`),
	post("a UID", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"u","uid":"mine","generation":7,"creationTimestamp":"2001-01-01T00:00:00Z","deletionTimestamp":"2001-01-01T00:00:00Z","selfLink":"x"}}`),
	post("another namespace", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"n","namespace":"other"}}`),
	post("another kind", `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"k"}}`),
	post("another version", `{"apiVersion":"v2","kind":"ConfigMap","metadata":{"name":"k"}}`),
	post("an unknown kind", `{"apiVersion":"example.com/v1","kind":"Nothing","metadata":{"name":"k"}}`),
	post("broken JSON", `{"apiVersion":`),
	post("a list for an object", `[]`),
	post("a wrong type", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"t"},"data":{"a":1}}`),
	{name: "no body", method: "POST"},
	{name: "an unknown content type", method: "POST", body: `{}`, typ: "text/plain"},
	{name: "YAML", method: "POST", typ: "application/yaml", body: "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: yaml\ndata:\n  a: b\n"},
	{name: "an unknown field, strictly", method: "POST", query: "fieldValidation=Strict", body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"f1"},"colour":"red"}`},
	{name: "an unknown field", method: "POST", body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"f2"},"colour":"red"}`},
	{name: "an unknown field, ignored", method: "POST", query: "fieldValidation=Ignore", body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"f3"},"colour":"red"}`},
	{name: "a field twice", method: "POST", body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"f4"},"data":{"a":"b","a":"c"}}`},
	{name: "an unknown validation", method: "POST", query: "fieldValidation=Some", body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"f5"}}`},
	{name: "a dry run", method: "POST", query: "dryRun=All", body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"dry"}}`},
	{name: "it left nothing", path: "dry"},
	{name: "a dry run twice", method: "POST", query: "dryRun=All", body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}`},
	{name: "a dry run of a generated name", method: "POST", query: "dryRun=All", body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"generateName":"h-"}}`},
	{name: "an unknown dry run", method: "POST", query: "dryRun=Some", body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"dry"}}`},
	{name: "an unknown namespace", method: "POST", path: "/api/v1/namespaces/nowhere/configmaps", body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}`},
	{name: "no namespace", method: "POST", path: "/api/v1/configmaps", body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}`},
	{name: "as a table", method: "POST", accept: asTable, body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"table"}}`},
	{name: "a bad field manager", method: "POST", query: "fieldManager=a%0Ab", body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m"}}`},
	{name: "a secret", method: "POST", path: "/api/v1/namespaces/{ns}/secrets", body: `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"},"stringData":{"a":"b"}}`},
}

// namespaced are requests for a cluster-scoped object whose body has a namespace, which the server removes.
var namespaced = []exchange{
	{name: "create", method: "POST", path: clusterRoles, body: namespacedRole("{ns}-n", "1"), save: "n"},
	{name: "update", method: "PUT", path: clusterRoles + "/{ns}-n", body: namespacedRole("{ns}-n", "2")},
	{name: "merge", method: "PATCH", path: clusterRoles + "/{ns}-n", typ: mergePatch, body: namespacedRole("{ns}-n", "3")},
	{name: "strategic merge", method: "PATCH", path: clusterRoles + "/{ns}-n", typ: strategicPatch, body: namespacedRole("{ns}-n", "4")},
	{name: "apply", method: "PATCH", path: clusterRoles + "/{ns}-n", query: "fieldManager=m&force=true", typ: applyPatch, body: namespacedRole("{ns}-n", "5")},
	{name: "apply a new one", method: "PATCH", path: clusterRoles + "/{ns}-m", query: "fieldManager=m", typ: applyPatch, body: namespacedRole("{ns}-m", "1")},
	{name: "delete", method: "DELETE", path: clusterRoles + "/{ns}-n"},
	{name: "delete the new one", method: "DELETE", path: clusterRoles + "/{ns}-m"},
	{name: "a review", method: "POST", path: "/apis/authorization.k8s.io/v1/namespaces/{ns}/localsubjectaccessreviews",
		body: `{"apiVersion":"authorization.k8s.io/v1","kind":"LocalSubjectAccessReview","metadata":{"namespace":"other"},"spec":{"user":"u"}}`},
}

const clusterRoles = "/apis/rbac.authorization.k8s.io/v1/clusterroles"

func namespacedRole(name, label string) string {
	return `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"` + name + `","namespace":"other","labels":{"by":"` + label + `"}}}`
}

var updates = []exchange{
	configMap("a", `"labels":{"app":"x"}`),
	put("a", "1", `"resourceVersion":"{a.version}"`, "a1"),
	{name: "a stale version", method: "PUT", path: "a", body: put("a", "2", `"resourceVersion":"{a.version}"`, "").body},
	put("a", "2", "", "a2"),
	{name: "nothing new", method: "PUT", path: "a", body: put("a", "2", "", "").body, save: "a3"},
	{name: "nothing new makes no event", query: "watch=1&timeoutSeconds=1&resourceVersion={a2.version}", events: 1},
	{name: "another UID", method: "PUT", path: "a", body: put("a", "3", `"uid":"other"`, "").body},
	{name: "another UID and version", method: "PUT", path: "a", body: put("a", "3", `"uid":"other","resourceVersion":"{a.version}"`, "").body},
	{name: "its own UID", method: "PUT", path: "a", body: put("a", "3", `"uid":"{a.uid}"`, "").body},
	{name: "a bad version", method: "PUT", path: "a", body: put("a", "3", `"resourceVersion":"nonsense"`, "").body},
	{name: "what is not there", method: "PUT", path: "z", body: put("z", "1", "", "").body},
	{name: "what is not there, at a version", method: "PUT", path: "z", body: put("z", "1", `"resourceVersion":"5"`, "").body},
	{name: "what is not there, with a UID", method: "PUT", path: "z", body: put("z", "1", `"uid":"other"`, "").body},
	{name: "another name", method: "PUT", path: "a", body: put("b", "1", "", "").body},
	{name: "no name", method: "PUT", path: "a", body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{}}`},
	{name: "another namespace", method: "PUT", path: "a", body: put("a", "1", `"namespace":"other"`, "").body},
	{name: "a bad label", method: "PUT", path: "a", body: put("a", "1", `"labels":{"a b":"c"}`, "").body},
	{name: "a dry run", method: "PUT", path: "a", query: "dryRun=All", body: put("a", "9", "", "").body},
	{name: "it left nothing", path: "a"},
	{name: "make it immutable", method: "PUT", path: "a", body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"immutable":true}`},
	{name: "a subresource that is not there", method: "PUT", path: "a/status", body: put("a", "1", "", "").body},
}

// remove returns a request to delete, with these options.
func remove(name, what, options string) exchange {
	return exchange{name: name, method: "DELETE", path: what, body: options}
}

var deletes = []exchange{
	configMap("a", `"labels":{"app":"x"}`),
	remove("what is not there", "z", ""),
	remove("another UID", "a", `{"apiVersion":"v1","kind":"DeleteOptions","preconditions":{"uid":"other"}}`),
	remove("another version", "a", `{"apiVersion":"v1","kind":"DeleteOptions","preconditions":{"resourceVersion":"1"}}`),
	remove("an unknown policy", "a", `{"apiVersion":"v1","kind":"DeleteOptions","propagationPolicy":"Some"}`),
	remove("two policies", "a", `{"apiVersion":"v1","kind":"DeleteOptions","propagationPolicy":"Orphan","orphanDependents":true}`),
	remove("broken options", "a", `{"apiVersion":`),
	remove("other options", "a", `{"apiVersion":"v1","kind":"ConfigMap"}`),
	remove("a dry run", "a", `{"apiVersion":"v1","kind":"DeleteOptions","dryRun":["All"]}`),
	remove("an unknown dry run", "a", `{"apiVersion":"v1","kind":"DeleteOptions","dryRun":["Some"]}`),
	{name: "a dry run by query", method: "DELETE", path: "a", query: "dryRun=All"},
	{name: "it left all", path: "a"},
	remove("its UID and version", "a", `{"apiVersion":"v1","kind":"DeleteOptions","preconditions":{"uid":"{a.uid}","resourceVersion":"{a.version}"}}`),
	remove("again", "a", ""),
	configMap("b", ""),
	{name: "by query", method: "DELETE", path: "b", query: "propagationPolicy=Background"},
	configMap("f", `"finalizers":["example.com/f","example.com/g"]`),
	{name: "with finalizers", method: "DELETE", path: "f", save: "f1"},
	{name: "with finalizers again", method: "DELETE", path: "f"},
	{name: "it is marked", path: "f"},
	{name: "create it while it is marked", method: "POST", body: configMap("f", "").body},
	put("f", "1", `"finalizers":["example.com/f","example.com/h"]`, ""),
	put("f", "2", `"finalizers":["example.com/f"]`, ""),
	put("f", "3", `"finalizers":[]`, ""),
	{name: "it is deleted", path: "f"},
	configMap("marker", ""),
	{name: "its watch events", query: "watch=1&resourceVersion={f.version}", events: 4},
	configMap("foreground", ""),
	remove("in the foreground", "foreground", `{"apiVersion":"v1","kind":"DeleteOptions","propagationPolicy":"Foreground"}`),
	configMap("c1", `"labels":{"group":"c"}`),
	configMap("c2", `"labels":{"group":"c"}`),
	configMap("c3", `"labels":{"group":"d"}`),
	configMap("c4", `"labels":{"group":"d"},"finalizers":["example.com/f"]`),
	{name: "a dry run of a collection", method: "DELETE", query: "labelSelector=group%3Dc&dryRun=All"},
	{name: "a collection by label", method: "DELETE", query: "labelSelector=group%3Dc"},
	{name: "a collection by a bad label", method: "DELETE", query: "labelSelector=a+b"},
	{name: "a collection by an unknown field", method: "DELETE", query: "fieldSelector=data.value%3D0"},
	{name: "a collection of nothing", method: "DELETE", query: "labelSelector=group%3Dz"},
	{name: "a collection with a finalizer", method: "DELETE"},
	{name: "a collection leaves what has finalizers", query: ""},
	{name: "a collection across namespaces", method: "DELETE", path: "/api/v1/configmaps"},
}

// change returns a patch.
func change(name, what, typ, body string) exchange {
	return exchange{name: name, method: "PATCH", path: what, typ: typ, body: body}
}

// apply returns a server-side apply.
func apply(name, what, query, body string) exchange {
	return exchange{name: name, method: "PATCH", path: what, typ: applyPatch, query: query, body: body}
}

var patches = []exchange{
	configMap("a", `"labels":{"app":"x"}`),
	change("a merge", "a", mergePatch, `{"data":{"value":"1","more":"m"}}`),
	change("a merge that removes", "a", mergePatch, `{"data":{"more":null}}`),
	change("a merge of nothing", "a", mergePatch, `{}`),
	change("a broken merge", "a", mergePatch, `{"data":`),
	change("a merge of a list", "a", mergePatch, `[]`),
	change("a merge into a wrong type", "a", mergePatch, `{"data":5}`),
	change("a merge at a stale version", "a", mergePatch, `{"metadata":{"resourceVersion":"1"},"data":{"value":"2"}}`),
	change("a merge of the name", "a", mergePatch, `{"metadata":{"name":"b"}}`),
	change("a merge with another UID", "a", mergePatch, `{"metadata":{"uid":"other"}}`),
	change("a merge of a bad label", "a", mergePatch, `{"metadata":{"labels":{"a b":"c"}}}`),
	change("a merge of an unknown field", "a", mergePatch, `{"colour":"red"}`),
	change("a merge of what is not there", "z", mergePatch, `{}`),
	change("a JSON patch", "a", jsonPatch, `[{"op":"test","path":"/data/value","value":"1"},{"op":"add","path":"/data/new","value":"n"},{"op":"remove","path":"/metadata/labels/app"}]`),
	change("a JSON patch whose test fails", "a", jsonPatch, `[{"op":"test","path":"/data/value","value":"9"}]`),
	change("a JSON patch of what is not there", "a", jsonPatch, `[{"op":"remove","path":"/data/nothing"}]`),
	change("a JSON patch of an unknown operation", "a", jsonPatch, `[{"op":"think","path":"/data"}]`),
	change("a JSON patch that replaces what is not there", "a", jsonPatch, `[{"op":"replace","path":"/data/extra","value":"1"},{"op":"add","path":"/data/none"}]`),
	change("a JSON patch of the last of a list", "a", jsonPatch, `[{"op":"add","path":"/metadata/finalizers","value":["e.com/a","e.com/b"]},{"op":"remove","path":"/metadata/finalizers/-1"},{"op":"remove","path":"/metadata/finalizers"}]`),
	change("a JSON patch with an unknown field", "a", jsonPatch, `[{"op":"add","path":"/data/extra","value":"2","more":1}]`),
	change("a merge with a field twice", "a", mergePatch, `{"data":{"extra":"3","extra":"4"}}`),
	change("a merge of the end", "a", mergePatch, `{"data":{"extra":null}}`),
	change("a broken JSON patch", "a", jsonPatch, `[{`),
	change("a JSON patch that is an object", "a", jsonPatch, `{}`),
	change("a JSON patch of too many operations", "a", jsonPatch, `[`+strings.Repeat(`{"op":"test","path":"/kind","value":"ConfigMap"},`, 10_000)+`{"op":"test","path":"/kind","value":"ConfigMap"}]`),
	change("a JSON patch that copies too much", "a", jsonPatch, doublings(40)),
	change("a JSON patch that copies a value", "a", jsonPatch, `[{"op":"copy","from":"/data/value","path":"/data/twin"},{"op":"remove","path":"/data/twin"}]`),
	change("a strategic patch", "a", strategicPatch, `{"data":{"value":"2"},"metadata":{"finalizers":["example.com/f"]}}`),
	change("a strategic patch of lists", "a", strategicPatch, `{"metadata":{"$deleteFromPrimitiveList/finalizers":["example.com/f"]}}`),
	change("a broken strategic patch", "a", strategicPatch, `{"data":`),
	change("an unknown patch", "a", "application/json", `{}`),
	{name: "a dry run", method: "PATCH", path: "a", typ: mergePatch, query: "dryRun=All", body: `{"data":{"value":"9"}}`},
	{name: "it left nothing", path: "a"},
	apply("apply without a manager", "s", "", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"s"},"data":{"x":"1"}}`),
	apply("apply something new", "s", "fieldManager=one", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"s"},"data":{"x":"1"}}`),
	apply("apply the same", "s", "fieldManager=one", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"s"},"data":{"x":"1"}}`),
	apply("apply a field of another manager", "s", "fieldManager=two", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"s"},"data":{"x":"2","y":"2"}}`),
	apply("apply by force", "s", "fieldManager=two&force=true", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"s"},"data":{"x":"2","y":"2"}}`),
	apply("apply less", "s", "fieldManager=two", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"s"},"data":{"x":"2"}}`),
	apply("apply another name", "s", "fieldManager=one", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"t"}}`),
	apply("apply another kind", "s", "fieldManager=one", `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"}}`),
	apply("apply without a kind", "s", "fieldManager=one", `{"metadata":{"name":"s"}}`),
	apply("apply YAML that is broken", "s", "fieldManager=one", "a: b: c"),
	apply("apply a dry run", "s", "fieldManager=one&dryRun=All&force=true", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"s"},"data":{"x":"9"}}`),
	apply("apply an unknown field", "s", "fieldManager=one&force=true", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"s"},"colour":"red"}`),
	apply("apply managed fields", "s", "fieldManager=one", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"s","managedFields":[{"manager":"x","operation":"Apply","apiVersion":"v1"}]}}`),
	apply("apply at a stale version", "s", "fieldManager=one&force=true", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"s","resourceVersion":"1"},"data":{"x":"3"}}`),
	{name: "force without apply", method: "PATCH", path: "s", typ: mergePatch, query: "force=true", body: `{}`},
	{name: "what applies left", path: "s"},
}

const widgets = "/apis/conformance.example.com/v1/namespaces/{ns}/widgets"

var custom = []exchange{
	{name: "a definition that is called otherwise", method: "POST", path: "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body: `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"wrong.example.com"},"spec":{"group":"conformance.example.com","scope":"Namespaced","names":{"plural":"widgets","singular":"widget","kind":"Widget","listKind":"WidgetList"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`},
	{name: "what is not defined yet", path: widgets},
	{name: "define", method: "POST", path: "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body: definition("conformance.example.com", "widgets", "Widget")},
	{name: "the definition is established", path: "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.conformance.example.com", until: "InitialNamesAccepted"},
	{name: "nothing", path: widgets, until: "WidgetList"},
	{name: "create", method: "POST", path: widgets, save: "w", body: `{"apiVersion":"conformance.example.com/v1","kind":"Widget","metadata":{"name":"w"},"spec":{"colour":"red","replicas":1},"status":{"phase":"New"}}`},
	{name: "twice", method: "POST", path: widgets, body: `{"apiVersion":"conformance.example.com/v1","kind":"Widget","metadata":{"name":"w"}}`},
	{name: "without a kind", method: "POST", path: widgets, body: `{"metadata":{"name":"k"}}`},
	{name: "another kind", method: "POST", path: widgets, body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"k"}}`},
	{name: "a bad name", method: "POST", path: widgets, body: `{"apiVersion":"conformance.example.com/v1","kind":"Widget","metadata":{"name":"A_B"}}`},
	{name: "list", path: widgets},
	{name: "P05 list a shard", path: widgets, query: inShard(hashLow, hashHigh)},
	{name: "P05 list a shard of nothing", path: widgets, query: inShard(hashLow, hashOne)},
	{name: "get", path: widgets + "/w"},
	{name: "what is not there", path: widgets + "/z"},
	{name: "update without a version", method: "PUT", path: widgets + "/w", body: `{"apiVersion":"conformance.example.com/v1","kind":"Widget","metadata":{"name":"w"},"spec":{"colour":"blue"}}`},
	{name: "update", method: "PUT", path: widgets + "/w", save: "w2", body: `{"apiVersion":"conformance.example.com/v1","kind":"Widget","metadata":{"name":"w","resourceVersion":"{w.version}"},"spec":{"colour":"blue","replicas":1},"status":{"phase":"Ignored"}}`},
	{name: "update the status", method: "PUT", path: widgets + "/w/status", save: "w3", body: `{"apiVersion":"conformance.example.com/v1","kind":"Widget","metadata":{"name":"w","resourceVersion":"{w2.version}","labels":{"a":"b"}},"spec":{"colour":"ignored"},"status":{"phase":"Ready","replicas":1}}`},
	{name: "a stale update", method: "PUT", path: widgets + "/w", body: `{"apiVersion":"conformance.example.com/v1","kind":"Widget","metadata":{"name":"w","resourceVersion":"{w.version}"}}`},
	{name: "the scale", path: widgets + "/w/scale"},
	change("scale", widgets+"/w/scale", mergePatch, `{"spec":{"replicas":3}}`),
	change("a merge", widgets+"/w", mergePatch, `{"spec":{"colour":"green"},"metadata":{"labels":{"app":"x"}}}`),
	change("a strategic patch", widgets+"/w", strategicPatch, `{"spec":{"colour":"green"}}`),
	change("a JSON patch", widgets+"/w", jsonPatch, `[{"op":"replace","path":"/spec/colour","value":"white"}]`),
	apply("apply", widgets+"/x", "fieldManager=one", `{"apiVersion":"conformance.example.com/v1","kind":"Widget","metadata":{"name":"x"},"spec":{"colour":"red"}}`),
	apply("apply a conflict", widgets+"/x", "fieldManager=two", `{"apiVersion":"conformance.example.com/v1","kind":"Widget","metadata":{"name":"x"},"spec":{"colour":"blue"}}`),
	{name: "a table", path: widgets, accept: asTable},
	{name: "metadata", path: widgets, accept: asMetaList},
	{name: "metadata in protobuf", path: widgets, accept: "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"},
	{name: "protobuf", path: widgets, accept: asProtobuf},
	{name: "protobuf or JSON", path: widgets, accept: asProtobuf + ",application/json"},
	{name: "by a selectable field", path: widgets, query: "fieldSelector=spec.colour%3Dwhite"},
	{name: "by another field", path: widgets, query: "fieldSelector=spec.replicas%3D3"},
	{name: "by label", path: widgets, query: "labelSelector=app%3Dx"},
	{name: "by page", path: widgets, query: "limit=1"},
	{name: "watch", path: widgets, query: "watch=1&resourceVersion={w.version}", events: 6},
	{name: "W02 a streaming list", path: widgets, query: "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true", events: 3},
	{name: "the group", path: "/apis/conformance.example.com"},
	{name: "the resources", path: "/apis/conformance.example.com/v1"},
	{name: "delete", method: "DELETE", path: widgets + "/w"},
	{name: "delete a collection", method: "DELETE", path: widgets},
	{name: "create with a finalizer", method: "POST", path: widgets, body: `{"apiVersion":"conformance.example.com/v1","kind":"Widget","metadata":{"name":"kept","finalizers":["example.com/f"]}}`},
	{name: "remove the definition", method: "DELETE", path: "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.conformance.example.com"},
	{name: "create while it is terminating", method: "POST", path: widgets, body: `{"apiVersion":"conformance.example.com/v1","kind":"Widget","metadata":{"name":"late"}}`, until: "terminating"},
	{name: "define again while it is terminating", method: "POST", path: "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body: definition("conformance.example.com", "widgets", "Widget")},
	{name: "what has a finalizer is terminating", path: widgets + "/kept", until: "deletionTimestamp"},
	{name: "the definition waits", path: "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.conformance.example.com", until: "InstanceDeletionInProgress"},
	{name: "remove the finalizer", method: "PATCH", path: widgets + "/kept", typ: mergePatch, body: `{"metadata":{"finalizers":null}}`},
	{name: "the definition is removed", path: "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.conformance.example.com", until: `"status":404`},
	{name: "what is no longer defined", path: widgets, until: `"status":404`},
}

const deployments = "/apis/apps/v1/namespaces/{ns}/deployments"

const pods = "/api/v1/namespaces/{ns}/pods"

var workloads = []exchange{
	{name: "create a deployment", method: "POST", path: deployments, save: "d", body: `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d","labels":{"app":"d"}},"spec":{"replicas":2,"selector":{"matchLabels":{"app":"d"}},"template":{"metadata":{"labels":{"app":"d"}},"spec":{"containers":[{"name":"main","image":"example.com/main"}]}}},"status":{"replicas":7}}`},
	{name: "its scale", path: deployments + "/d/scale"},
	change("scale it", deployments+"/d/scale", mergePatch, `{"spec":{"replicas":3}}`),
	change("change its template", deployments+"/d", strategicPatch, `{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"example.com/other"}]}}}}`),
	change("label it", deployments+"/d", mergePatch, `{"metadata":{"labels":{"tier":"one"}}}`),
	change("change its status", deployments+"/d/status", mergePatch, `{"status":{"replicas":3,"readyReplicas":2},"spec":{"replicas":9}}`),
	{name: "its status", path: deployments + "/d/status"},
	{name: "a table of deployments", path: deployments, accept: asTable},
	{name: "delete it", method: "DELETE", path: deployments + "/d"},
	{name: "create a pod", method: "POST", path: pods, save: "p", body: `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","labels":{"app":"p"}},"spec":{"containers":[{"name":"main","image":"example.com/main"}]}}`},
	{name: "pods by phase", path: pods, query: "fieldSelector=status.phase%3DPending"},
	{name: "pods by node", path: pods, query: "fieldSelector=spec.nodeName%3Dn1"},
	{name: "pods by another field", path: pods, query: "fieldSelector=spec.colour%3Dred"},
	{name: "a table of pods", path: pods, accept: asTable},
	change("its status", pods+"/p/status", mergePatch, `{"status":{"phase":"Running","podIP":"10.0.0.9","podIPs":[{"ip":"10.0.0.9"}]}}`),
	{name: "a table of running pods", path: pods, accept: asTable},
	{name: "bind it", method: "POST", path: pods + "/p/binding", body: `{"apiVersion":"v1","kind":"Binding","metadata":{"name":"p"},"target":{"apiVersion":"v1","kind":"Node","name":"n1"}}`},
	{name: "delete it at once", method: "DELETE", path: pods + "/p", body: `{"apiVersion":"v1","kind":"DeleteOptions","gracePeriodSeconds":0}`},
	{name: "create another", method: "POST", path: pods, save: "q", body: `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"q"},"spec":{"nodeName":"n1","containers":[{"name":"main","image":"example.com/main"}]}}`},
	{name: "delete it with grace", method: "DELETE", path: pods + "/q"},
	{name: "a lease", method: "POST", path: "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases", body: `{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"l"},"spec":{"holderIdentity":"me","leaseDurationSeconds":15}}`},
	{name: "a service account", method: "POST", path: "/api/v1/namespaces/{ns}/serviceaccounts", body: `{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"sa"}}`},
	{name: "an event", method: "POST", path: "/api/v1/namespaces/{ns}/events", body: `{"apiVersion":"v1","kind":"Event","metadata":{"name":"e"},"involvedObject":{"kind":"Pod","namespace":"{ns}","name":"p"},"reason":"Testing","message":"m","type":"Normal"}`},
}

// definition is a custom resource with a status, a scale, a column and a selectable field.
func definition(group, plural, kind string) string {
	return strings.NewReplacer("GROUP", group, "PLURAL", plural, "KIND", kind, "SINGULAR", strings.ToLower(kind)).Replace(`{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "PLURAL.GROUP"},
		"spec": {"group": "GROUP", "scope": "Namespaced",
			"names": {"plural": "PLURAL", "singular": "SINGULAR", "kind": "KIND", "listKind": "KINDList", "shortNames": ["SINGULARs"]},
			"versions": [{"name": "v1", "served": true, "storage": true,
				"schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
					"properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"colour": {"type": "string"}}}}}},
				"subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}},
				"additionalPrinterColumns": [{"name": "Colour", "type": "string", "jsonPath": ".spec.colour"}, {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}],
				"selectableFields": [{"jsonPath": ".spec.colour"}]}]}}`)
}
