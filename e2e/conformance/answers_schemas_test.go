package conformance

import "strings"

const (
	damDefinitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	damsPath       = "/apis/schemas.example.com/v1/namespaces/{ns}/dams"
	damsBeta       = "/apis/schemas.example.com/v1beta1/namespaces/{ns}/dams"
)

// damDefinition has two versions, the older without owner and subresources.
const damDefinition = `{
"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "dams.schemas.example.com"},
"spec": {"group": "schemas.example.com", "scope": "Namespaced", "names": {"plural": "dams", "kind": "Dam", "shortNames": ["dm"], "categories": ["all"]},
  "versions": [
    {"name": "v1", "served": true, "storage": true,
     "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.gates", "statusReplicasPath": ".status.gates", "labelSelectorPath": ".status.selector"}},
     "selectableFields": [{"jsonPath": ".spec.river"}],
     "additionalPrinterColumns": [
       {"name": "River", "type": "string", "jsonPath": ".spec.river", "description": "where it is"},
       {"name": "Open", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Open\")].status"},
       {"name": "Tags", "type": "string", "jsonPath": ".spec.tags"},
       {"name": "Gates", "type": "integer", "jsonPath": ".spec.gates"},
       {"name": "Wide", "type": "number", "jsonPath": ".spec.gates", "priority": 1},
       {"name": "Wrong", "type": "boolean", "jsonPath": ".spec.gates"}],
     "schema": {"openAPIV3Schema": {"type": "object", "description": "Dam holds back a river.", "properties": {
       "spec": {"type": "object", "required": ["river"],
         "x-kubernetes-validations": [{"rule": "self.low <= self.high", "message": "low must not be above high"}, {"rule": "!has(self.owner) || self.owner != self.river", "messageExpression": "'the river ' + self.river + ' owns nothing'", "reason": "FieldValueForbidden", "fieldPath": ".owner"}],
         "properties": {
           "river": {"type": "string", "maxLength": 20, "description": "The river that it holds back.", "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "a dam cannot be moved"}]},
           "kind": {"type": "string", "enum": ["Arch", "Gravity"], "default": "Gravity"},
           "gates": {"type": "integer", "minimum": 0, "default": 2},
           "low": {"type": "integer", "default": 0},
           "high": {"type": "integer", "default": 100},
           "owner": {"type": "string"},
           "built": {"type": "string", "format": "date-time"},
           "code": {"type": "string", "pattern": "^[A-Z]+$"},
           "port": {"x-kubernetes-int-or-string": true},
           "nothing": {"type": "string", "nullable": true},
           "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
           "extra": {"type": "object", "additionalProperties": {"type": "integer"}, "maxProperties": 2},
           "embedded": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true},
           "one": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
           "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
           "list": {"type": "array", "items": {"type": "string"}, "maxItems": 3},
           "turbines": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
             "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "power": {"type": "integer", "default": 7}}}}}},
       "status": {"type": "object", "properties": {
         "gates": {"type": "integer"}, "selector": {"type": "string"}, "level": {"type": "integer", "maximum": 100},
         "conditions": {"type": "array", "items": {"type": "object", "properties": {"type": {"type": "string"}, "status": {"type": "string"}}}}}}}}}},
    {"name": "v1beta1", "served": true, "storage": false, "deprecated": true,
     "schema": {"openAPIV3Schema": {"type": "object", "properties": {
       "spec": {"type": "object", "properties": {"river": {"type": "string"}, "gates": {"type": "integer"}, "colour": {"type": "string"}}}}}}}
  ]}}`

func damOf(name, spec string) string {
	return `{"apiVersion":"schemas.example.com/v1","kind":"Dam","metadata":{"name":"` + name + `"},"spec":` + spec + `}`
}

func createDam(name, spec string) exchange {
	return exchange{name: name, method: "POST", path: damsPath, body: damOf("bad", spec)}
}

// defineBadly posts the definition with one change.
func defineBadly(name, old, replacement string) exchange {
	return exchange{name: name, method: "POST", path: damDefinitions, body: strings.Replace(damDefinition, old, replacement, 1)}
}

var schemas = []exchange{
	defineBadly("a type is missing", `"gates": {"type": "integer", "minimum": 0, "default": 2}`, `"gates": {"minimum": 0}`),
	defineBadly("an unknown field in a rule", "self.low <= self.high", "self.low <= self.top"),
	defineBadly("a rule that is not boolean", "self.low <= self.high", "self.low"),
	defineBadly("a rule that cannot be parsed", "self.low <= self.high", "self.low <="),
	defineBadly("a default that is invalid", `"default": "Gravity"`, `"default": "Earth"`),
	defineBadly("no storage version", `"storage": true`, `"storage": false`),
	defineBadly("two storage versions", `"storage": false`, `"storage": true`),
	defineBadly("another name", `"name": "dams.schemas.example.com"`, `"name": "ponds.schemas.example.com"`),
	defineBadly("an unknown scope", `"scope": "Namespaced"`, `"scope": "Galaxy"`),
	defineBadly("a selectable list", `"jsonPath": ".spec.river"}]`, `"jsonPath": ".spec.turbines"}]`),
	defineBadly("a group of Kubernetes", `schemas.example.com`, `schemas.k8s.io`),
	defineBadly("no schema", `"schema": {"openAPIV3Schema": {"type": "object", "properties": {
       "spec": {"type": "object", "properties": {"river": {"type": "string"}, "gates": {"type": "integer"}, "colour": {"type": "string"}}}}}}`, `"deprecated": true`),
	defineBadly("unknown fields are preserved", `"scope"`, `"preserveUnknownFields": true, "scope"`),
	defineBadly("a bad plural", `"plural": "dams"`, `"plural": "Dams"`),
	defineBadly("a list key is missing", `"x-kubernetes-list-map-keys": ["name"],`, ``),
	defineBadly("a wrong type in the definition", `"served": true`, `"served": "yes"`),
	defineBadly("an unknown field in the definition", `"scope"`, `"colour": "red", "scope"`),
	{name: "the definition is established", path: damDefinitions + "/dams.schemas.example.com", until: "InitialNamesAccepted", save: "def"},
	{name: "nothing", path: damsPath, until: "DamList"},
	{name: "the definition as a table", path: damDefinitions + "/dams.schemas.example.com", accept: asTable},
	{name: "defaults and pruning", method: "POST", path: damsPath, save: "a", body: damOf("a", `{"river":"Enns","depth":3,"any":{"x":1},"owner":null,"kind":null,"nothing":null,"turbines":[{"name":"one","speed":2}]}`)},
	{name: "a strict create", method: "POST", path: damsPath, query: "fieldValidation=Strict", body: damOf("b", `{"river":"Enns","depth":3,"low":1,"low":2}`)},
	{name: "a create with warnings", method: "POST", path: damsPath, body: damOf("b", `{"river":"Enns","depth":3,"low":1,"low":2}`)},
	{name: "an ignoring create", method: "POST", path: damsPath, query: "fieldValidation=Ignore", body: damOf("c", `{"river":"Enns","depth":3}`)},
	{name: "unknown metadata", method: "POST", path: damsPath, body: `{"apiVersion":"schemas.example.com/v1","kind":"Dam","metadata":{"name":"m","colour":"red"},"spec":{"river":"Enns"}}`},
	{name: "wrong metadata", method: "POST", path: damsPath, body: `{"apiVersion":"schemas.example.com/v1","kind":"Dam","metadata":{"name":"m","labels":{"a":1}},"spec":{"river":"Enns"}}`},
	{name: "a wrong name and a wrong field", method: "POST", path: damsPath, body: damOf("A_B", `{"river":1}`)},
	createDam("a required field", `{}`),
	createDam("no spec", `null`),
	createDam("a spec that is a list", `[]`),
	createDam("a wrong type", `{"river":1}`),
	createDam("not in the enum", `{"river":"Enns","kind":"Earth"}`),
	createDam("below the minimum", `{"river":"Enns","gates":-1}`),
	createDam("a rule", `{"river":"Enns","low":9,"high":3}`),
	createDam("a rule with a message expression", `{"river":"Enns","owner":"Enns"}`),
	createDam("two rules", `{"river":"Enns","owner":"Enns","low":9,"high":3}`),
	createDam("a rule that is not reached", `{"low":9,"high":3}`),
	createDam("duplicates in a set", `{"river":"Enns","tags":["a","a"]}`),
	createDam("duplicates in a map", `{"river":"Enns","turbines":[{"name":"a"},{"name":"a"}]}`),
	createDam("a missing key", `{"river":"Enns","turbines":[{"power":1}]}`),
	createDam("too long", `{"river":"Ennsennsennsennsennsenns"}`),
	createDam("too many", `{"river":"Enns","list":["a","b","c","d"]}`),
	createDam("too many properties", `{"river":"Enns","extra":{"a":1,"b":2,"c":3}}`),
	createDam("a wrong additional property", `{"river":"Enns","extra":{"a":"x"}}`),
	createDam("a wrong format", `{"river":"Enns","built":"yesterday"}`),
	createDam("a wrong pattern", `{"river":"Enns","code":"abc"}`),
	createDam("neither a number nor a string", `{"river":"Enns","port":true}`),
	createDam("two of one", `{"river":"Enns","one":{"a":"x","b":"y"}}`),
	createDam("an embedded resource without a kind", `{"river":"Enns","embedded":{"metadata":{"name":"x"}}}`),
	createDam("an embedded resource with a bad name", `{"river":"Enns","embedded":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"/"}}}`),
	createDam("null in a list", `{"river":"Enns","tags":[null]}`),
	{name: "dry run", method: "POST", path: damsPath, query: "dryRun=All", body: damOf("d", `{"river":"Enns"}`)},
	{name: "an update that breaks a transition rule", method: "PUT", path: damsPath + "/a", body: strings.Replace(damOf("a", `{"river":"Inn"}`), `"name"`, `"resourceVersion":"{a.version}","name"`, 1)},
	{name: "an update", method: "PUT", path: damsPath + "/a", save: "a2", body: strings.Replace(damOf("a", `{"river":"Enns","tags":["x"],"depth":9}`), `"name"`, `"resourceVersion":"{a.version}","name"`, 1)},
	{name: "an update without a change", method: "PUT", path: damsPath + "/a", body: strings.Replace(damOf("a", `{"river":"Enns","tags":["x"]}`), `"name"`, `"resourceVersion":"{a2.version}","name"`, 1)},
	change("a merge with an unknown field", damsPath+"/a", mergePatch, `{"spec":{"depth":4,"gates":3}}`),
	{name: "a strict merge with an unknown field", method: "PATCH", path: damsPath + "/a", typ: mergePatch, query: "fieldValidation=Strict", body: `{"spec":{"depth":4}}`},
	change("a merge that removes a default", damsPath+"/a", mergePatch, `{"spec":{"gates":null}}`),
	change("a merge that is invalid", damsPath+"/a", mergePatch, `{"spec":{"gates":"many"}}`),
	change("a JSON patch that is invalid", damsPath+"/a", jsonPatch, `[{"op":"add","path":"/spec/kind","value":"Earth"}]`),
	change("a status", damsPath+"/a/status", mergePatch, `{"spec":{"gates":9},"metadata":{"labels":{"a":"b"}},"status":{"level":5,"gates":1,"selector":"a=b","more":1,"conditions":[{"type":"Full","status":"False"},{"type":"Open","status":"True"}]}}`),
	change("a status that is invalid", damsPath+"/a/status", mergePatch, `{"status":{"level":101}}`),
	change("a status of a wrong type", damsPath+"/a/status", mergePatch, `{"status":{"gates":"x"}}`),
	{name: "the status", path: damsPath + "/a/status"},
	{name: "the scale", path: damsPath + "/a/scale"},
	change("scale", damsPath+"/a/scale", mergePatch, `{"spec":{"replicas":5}}`),
	change("a negative scale", damsPath+"/a/scale", mergePatch, `{"spec":{"replicas":-5}}`),
	{name: "a table", path: damsPath, accept: asTable},
	{name: "an older version", path: damsBeta + "/a"},
	{name: "a list of an older version", path: damsBeta},
	{name: "a table of an older version", path: damsBeta, accept: asTable},
	{name: "the status of an older version", path: damsBeta + "/a/status"},
	{name: "by a selectable field", path: damsPath, query: "fieldSelector=spec.river%3DEnns%2Cmetadata.name%3Da"},
	{name: "by a selectable field of another version", path: damsBeta, query: "fieldSelector=spec.river%3DEnns"},
	{name: "an owner", method: "POST", path: damsPath, body: damOf("o", `{"river":"Enns","owner":"me"}`)},
	change("a write through an older version", damsBeta+"/o", mergePatch, `{"spec":{"colour":"red","gates":4},"status":{"level":1}}`),
	{name: "what the older version wrote", path: damsPath + "/o"},
	{name: "create through an older version", method: "POST", path: damsBeta, body: strings.Replace(damOf("p", `{"gates":1,"owner":"me"}`), "/v1", "/v1beta1", 1)},
	{name: "what the older version created", path: damsPath + "/p"},
	change("an update of what is invalid in this version", damsPath+"/p", mergePatch, `{"metadata":{"labels":{"a":"b"}}}`),
	{name: "a watch of an older version", path: damsBeta, query: "watch=1&resourceVersion={a.version}", events: 3},
	apply("apply", damsPath+"/s", "fieldManager=one", damOf("s", `{"river":"Enns","tags":["x"],"turbines":[{"name":"one","power":1}]}`)),
	apply("apply to a set and a map", damsPath+"/s", "fieldManager=two", damOf("s", `{"tags":["y"],"turbines":[{"name":"two","power":2}]}`)),
	apply("apply a conflict in a map", damsPath+"/s", "fieldManager=two", damOf("s", `{"turbines":[{"name":"one","power":3}]}`)),
	apply("apply less", damsPath+"/s", "fieldManager=one", damOf("s", `{"river":"Enns","turbines":[{"name":"one","power":4}]}`)),
	apply("apply an undeclared field", damsPath+"/s", "fieldManager=one", damOf("s", `{"river":"Enns","depth":4}`)),
	apply("apply what is invalid", damsPath+"/s", "fieldManager=one", damOf("s", `{"river":"Enns","kind":"Earth"}`)),
	apply("apply a new object that is invalid", damsPath+"/t", "fieldManager=one", damOf("t", `{"gates":1}`)),
	apply("apply a status to the object", damsPath+"/s", "fieldManager=three", `{"apiVersion":"schemas.example.com/v1","kind":"Dam","metadata":{"name":"s"},"status":{"level":1}}`),
	apply("apply the status", damsPath+"/s/status", "fieldManager=three", `{"apiVersion":"schemas.example.com/v1","kind":"Dam","metadata":{"name":"s"},"status":{"level":1}}`),
	apply("apply a conflict through an older version", damsBeta+"/s", "fieldManager=four", strings.Replace(damOf("s", `{"river":"Inn"}`), "/v1", "/v1beta1", 1)),
	apply("apply through an older version", damsBeta+"/s", "fieldManager=four", strings.Replace(damOf("s", `{"river":"Enns","gates":4}`), "/v1", "/v1beta1", 1)),
	apply("apply a field that only the older version has", damsBeta+"/s", "fieldManager=four", strings.Replace(damOf("s", `{"river":"Enns","colour":"red"}`), "/v1", "/v1beta1", 1)),
	{name: "what applies left", path: damsPath + "/s"},
	{name: "the resources", path: "/apis/schemas.example.com/v1"},
	{name: "the resources of an older version", path: "/apis/schemas.example.com/v1beta1"},
	{name: "the group", path: "/apis/schemas.example.com"},
	{name: "OpenAPI", path: "/openapi/v3/apis/schemas.example.com/v1", until: "holds back"},
	{name: "OpenAPI of an older version", path: "/openapi/v3/apis/schemas.example.com/v1beta1", until: "colour"},
	{name: "a definition with names in use", method: "POST", path: damDefinitions, body: strings.NewReplacer(`"dams`, `"weirs`, `"Dam"`, `"Weir"`).Replace(damDefinition)},
	{name: "the names are not accepted", path: damDefinitions + "/weirs.schemas.example.com", until: "ShortNamesConflict"},
	change("rename the kind", damDefinitions+"/dams.schemas.example.com", mergePatch, `{"spec":{"names":{"kind":"Weir"}}}`),
	change("change the scope", damDefinitions+"/dams.schemas.example.com", mergePatch, `{"spec":{"scope":"Cluster"}}`),
	change("remove a stored version", damDefinitions+"/dams.schemas.example.com", jsonPatch, `[{"op":"remove","path":"/spec/versions/0"},{"op":"replace","path":"/spec/versions/0/storage","value":true}]`),
	change("allow less", damDefinitions+"/dams.schemas.example.com", jsonPatch, `[{"op":"replace","path":"/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/tags/items","value":{"type":"string","maxLength":0}},{"op":"add","path":"/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/code/default","value":"NEW"}]`),
	{name: "a new default of an old object", path: damsPath + "/a", until: `"code":"NEW"`},
	change("an update that keeps what is not allowed", damsPath+"/a", mergePatch, `{"spec":{"gates":6}}`),
	change("an update that changes what is not allowed", damsPath+"/a", mergePatch, `{"spec":{"tags":["y"]}}`),
	{name: "delete", method: "DELETE", path: damsPath + "/a"},
	{name: "delete a collection", method: "DELETE", path: damsBeta},
	{name: "remove the definition", method: "DELETE", path: damDefinitions + "/dams.schemas.example.com"},
	{name: "the names are accepted", path: damDefinitions + "/weirs.schemas.example.com", until: "InitialNamesAccepted"},
	{name: "remove the other definition", method: "DELETE", path: damDefinitions + "/weirs.schemas.example.com"},
	{name: "what is no longer defined", path: damsPath, until: "404 page not found"},
}

const (
	lockDefinition = damDefinitions + "/locks.gone.example.com"
	locks          = "/apis/gone.example.com/v1/namespaces/{ns}/locks"
	lockVersion    = `{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}`
)

// goneVersions write an object whose managed fields name a version that its definition no longer has.
var goneVersions = []exchange{
	{name: "define", method: "POST", path: damDefinitions, body: `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"locks.gone.example.com"},
		"spec":{"group":"gone.example.com","scope":"Namespaced","names":{"plural":"locks","kind":"Lock"},"versions":[` + lockVersion + `,` +
		strings.NewReplacer(`"v1"`, `"v1alpha1"`, `"storage":true`, `"storage":false`).Replace(lockVersion) + `]}}`},
	{name: "served", path: strings.Replace(locks, "v1", "v1alpha1", 1), until: "LockList"},
	{name: "create in the old version", method: "POST", path: strings.Replace(locks, "v1", "v1alpha1", 1), query: "fieldManager=old", body: `{"apiVersion":"gone.example.com/v1alpha1","kind":"Lock","metadata":{"name":"a"},"spec":{"keys":1}}`},
	change("remove the version", lockDefinition, mergePatch, `{"spec":{"versions":[`+lockVersion+`]}}`),
	{name: "not served", path: strings.Replace(locks, "v1", "v1alpha1", 1), until: "404"},
	{name: "apply", method: "PATCH", path: locks + "/a", query: "fieldManager=new", typ: applyPatch, until: "invalid group", body: `{"apiVersion":"gone.example.com/v1","kind":"Lock","spec":{"keys":2}}`},
	{name: "apply by force", method: "PATCH", path: locks + "/a", query: "fieldManager=new&force=true", typ: applyPatch, body: `{"apiVersion":"gone.example.com/v1","kind":"Lock","spec":{"keys":2}}`},
	{name: "apply a new one", method: "PATCH", path: locks + "/b", query: "fieldManager=new", typ: applyPatch, body: `{"apiVersion":"gone.example.com/v1","kind":"Lock","spec":{"keys":2}}`},
	remove("remove the definition", lockDefinition, ""),
}
