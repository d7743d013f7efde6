package conformance

import "fmt"

const (
	rbacPath = "/apis/rbac.authorization.k8s.io/v1"
	inRBAC   = rbacPath + "/namespaces/{ns}"

	metadataOnly = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
)

// role returns a request that creates a role in the namespace.
func newRole(name, rules string) exchange {
	return exchange{name: "role " + name, method: "POST", path: inRBAC + "/roles",
		body: fmt.Sprintf(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"name":%q},"rules":[%s]}`, name, rules)}
}

// bound returns a request that binds a role to a user in the namespace.
func bound(name, kind, role, user string) exchange {
	return exchange{name: "binding " + name, method: "POST", path: inRBAC + "/rolebindings", body: fmt.Sprintf(
		`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","metadata":{"name":%q},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":%q,"name":%q},`+
			`"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":%q}]}`, name, kind, role, user)}
}

// by is a request of another user.
func (x exchange) by(user string) exchange { x.as = user; return x }

// named gives a request another name.
func (x exchange) named(name string) exchange { x.name = name; return x }

const patchBody = `{"data":{"a":"b"}}`

var permissions = []exchange{
	configMap("a", ""),
	{name: "get without permission", path: "a", as: "ann"},
	{name: "list without permission", as: "ann"},
	{name: "list all namespaces", path: "/api/v1/configmaps", as: "ann"},
	{name: "watch", query: "watch=true", as: "ann"},
	{name: "watch by name", path: "/api/v1/watch/namespaces/{ns}/configmaps/a", as: "ann"},
	{name: "list by name", query: "fieldSelector=metadata.name%3Da", as: "ann"},
	configMap("b", "").named("create without permission").by("ann"),
	{name: "update without permission", method: "PUT", path: "a", body: configMap("a", "").body, as: "ann"},
	{name: "patch without permission", method: "PATCH", path: "a", typ: mergePatch, body: patchBody, as: "ann"},
	{name: "apply without permission", method: "PATCH", path: "a", typ: applyPatch, query: "fieldManager=x", body: configMap("a", "").body, as: "ann"},
	{name: "delete without permission", method: "DELETE", path: "a", as: "ann"},
	{name: "delete a collection without permission", method: "DELETE", as: "ann"},
	{name: "a status", method: "PUT", path: "/api/v1/namespaces/{ns}/pods/p/status", body: "{}", as: "ann"},
	{name: "a group", path: "/apis/apps/v1/namespaces/{ns}/deployments/d/scale", as: "ann"},
	{name: "a namespace", path: "/api/v1/namespaces/{ns}", as: "ann"},
	{name: "a cluster-scoped kind", path: "/api/v1/nodes/n", as: "ann"},
	{name: "an unknown kind", path: "/api/v1/namespaces/{ns}/nonsense/n", as: "ann"},
	{name: "an unknown group", path: "/apis/nonsense.example.com/v1/things", as: "ann"},
	{name: "a page", path: "/metrics", as: "ann"},
	{name: "a page with odd letters", path: "/a%3Cb%3E&c", as: "ann"},
	{name: "discovery", path: "/apis/apps/v1/nonsense", as: "ann"},
	{name: "health for everyone", path: "/livez", as: "anonymous"},
	{name: "without credentials", path: "a", as: "anonymous"},
	{name: "discovery without credentials", path: "/api", as: "anonymous"},
	{name: "a token that is none", path: "a", as: "anonymous", header: []string{"Authorization", "Bearer nonsense"}},

	newRole("reader", `{"apiGroups":[""],"resources":["configmaps"],"verbs":["get","list","patch"]},{"apiGroups":[""],"resources":["secrets"],"resourceNames":["one"],"verbs":["get","list"]},`+
		`{"apiGroups":[""],"resources":["namespaces"],"verbs":["get"]},{"apiGroups":["rbac.authorization.k8s.io"],"resources":["roles","rolebindings"],"verbs":["create","update"]}`),
	bound("reader", "Role", "reader", "ann"),
	{name: "get with permission", path: "a", as: "ann", until: `"status":200`},
	{name: "watch without the verb", query: "watch=true", as: "ann"},
	{name: "a secret by name", path: "/api/v1/namespaces/{ns}/secrets/one", as: "ann"},
	{name: "another secret", path: "/api/v1/namespaces/{ns}/secrets/two", as: "ann"},
	{name: "secrets", path: "/api/v1/namespaces/{ns}/secrets", as: "ann"},
	{name: "secrets by name", path: "/api/v1/namespaces/{ns}/secrets", query: "fieldSelector=metadata.name%3Done", as: "ann"},
	{name: "the namespace with permission", path: "/api/v1/namespaces/{ns}", as: "ann", accept: metadataOnly},
	{name: "apply a new object without create", method: "PATCH", path: "new", typ: applyPatch, query: "fieldManager=x", body: configMap("new", "").body, as: "ann"},
	{name: "apply with permission", method: "PATCH", path: "a", typ: applyPatch, query: "fieldManager=x", body: configMap("a", "").body, as: "ann"},

	newRole("same", `{"apiGroups":[""],"resources":["configmaps"],"verbs":["get"]}`).by("ann"),
	newRole("more", `{"apiGroups":[""],"resources":["configmaps","pods"],"verbs":["watch","get","*"]}`).by("ann"),
	newRole("names", `{"apiGroups":[""],"resources":["secrets"],"resourceNames":["one","two"],"verbs":["get"]}`).by("ann"),
	newRole("all", `{"apiGroups":["*"],"resources":["*"],"verbs":["*"]}`).by("ann"),
	bound("same", "Role", "same", "bob").by("ann"),
	newRole("powers", `{"apiGroups":["","apps"],"resources":["pods/exec"],"verbs":["create","get"]}`),
	bound("powers", "Role", "powers", "bob").named("bind more").by("ann"),
	bound("admin", "ClusterRole", "cluster-admin", "bob").named("bind everything").by("ann"),
	bound("absent", "ClusterRole", "absent", "bob").named("bind a role that does not exist").by("ann"),
	{name: "grant more to a role", method: "PUT", path: inRBAC + "/roles/same", as: "ann",
		body: `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"name":"same"},"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["get"]}]}`},
	bound("lost", "ClusterRole", "{ns}-lost", "cas"),
	{name: "a role that does not exist", path: "a", as: "cas", until: "not found"},

	{name: "impersonate without permission", path: "a", as: "bob", header: []string{"Impersonate-User", "ann"}},
	{name: "impersonate an account without permission", path: "a", as: "bob", header: []string{"Impersonate-User", "system:serviceaccount:{ns}:robot"}},
	{name: "impersonate", path: "a", header: []string{"Impersonate-User", "ann"}},
	{name: "impersonate with a group", path: "a", header: []string{"Impersonate-User", "dan", "Impersonate-Group", "team"}},
	{name: "impersonate only a group", path: "a", header: []string{"Impersonate-Group", "team"}},
}

// review returns a request for a review.
func review(name, group, kind, spec string) exchange {
	resource := map[string]string{
		"SelfSubjectAccessReview": "selfsubjectaccessreviews", "SubjectAccessReview": "subjectaccessreviews", "LocalSubjectAccessReview": "namespaces/{ns}/localsubjectaccessreviews",
		"SelfSubjectRulesReview": "selfsubjectrulesreviews", "SelfSubjectReview": "selfsubjectreviews", "TokenReview": "tokenreviews",
	}[kind]
	return exchange{name: name, method: "POST", path: "/apis/" + group + "/v1/" + resource,
		body: fmt.Sprintf(`{"apiVersion":"%s/v1","kind":%q,"spec":%s}`, group, kind, spec)}
}

func access(name, kind, spec string) exchange {
	return review(name, "authorization.k8s.io", kind, spec)
}

var reviews = []exchange{
	newRole("reader", `{"apiGroups":[""],"resources":["configmaps"],"verbs":["get","list"]}`),
	bound("reader", "Role", "reader", "eve"),
	access("may get", "SelfSubjectAccessReview", `{"resourceAttributes":{"namespace":"{ns}","verb":"get","resource":"configmaps"}}`).by("eve").waits(`"allowed":true`),
	access("may not delete", "SelfSubjectAccessReview", `{"resourceAttributes":{"namespace":"{ns}","verb":"delete","resource":"configmaps","name":"x"}}`).by("eve"),
	access("elsewhere", "SelfSubjectAccessReview", `{"resourceAttributes":{"verb":"get","resource":"configmaps"}}`).by("eve"),
	access("a path", "SelfSubjectAccessReview", `{"nonResourceAttributes":{"verb":"get","path":"/metrics"}}`).by("eve"),
	access("nothing asked", "SelfSubjectAccessReview", `{}`).by("eve"),
	access("both asked", "SelfSubjectAccessReview", `{"resourceAttributes":{"verb":"get"},"nonResourceAttributes":{"verb":"get"}}`).by("eve"),
	access("an administrator", "SelfSubjectAccessReview", `{"resourceAttributes":{"verb":"delete","resource":"nodes"}}`),
	access("another user", "SubjectAccessReview", `{"user":"eve","resourceAttributes":{"namespace":"{ns}","verb":"list","resource":"configmaps"}}`),
	access("another user without permission", "SubjectAccessReview", `{"user":"eve","resourceAttributes":{"namespace":"{ns}","verb":"list","resource":"pods"}}`),
	access("a group", "SubjectAccessReview", `{"user":"x","groups":["system:masters"],"resourceAttributes":{"verb":"list","resource":"pods"}}`),
	access("without a user", "SubjectAccessReview", `{"resourceAttributes":{"verb":"list","resource":"pods"}}`),
	access("not permitted to ask", "SubjectAccessReview", `{"user":"eve","resourceAttributes":{"verb":"list","resource":"pods"}}`).by("eve"),
	access("locally", "LocalSubjectAccessReview", `{"user":"eve","resourceAttributes":{"namespace":"{ns}","verb":"list","resource":"configmaps"}}`),
	access("locally in another namespace", "LocalSubjectAccessReview", `{"user":"eve","resourceAttributes":{"namespace":"default","verb":"list","resource":"configmaps"}}`),
	access("rules", "SelfSubjectRulesReview", `{"namespace":"{ns}"}`).by("eve"),
	access("rules of an administrator", "SelfSubjectRulesReview", `{"namespace":"{ns}"}`),
	access("rules without a namespace", "SelfSubjectRulesReview", `{}`).by("eve"),
	review("who I am", "authentication.k8s.io", "SelfSubjectReview", `{}`).by("eve"),
	review("who the anonymous user is", "authentication.k8s.io", "SelfSubjectReview", `{}`).by("anonymous"),
	{name: "who I am as another", method: "POST", path: "/apis/authentication.k8s.io/v1/selfsubjectreviews", body: `{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}`,
		header: []string{"Impersonate-User", "dan", "Impersonate-Group", "team", "Impersonate-Uid", "7", "Impersonate-Extra-Scopes", "a"}},
	{name: "who I am as an account", method: "POST", path: "/apis/authentication.k8s.io/v1/selfsubjectreviews", body: `{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}`,
		header: []string{"Impersonate-User", "system:serviceaccount:{ns}:robot"}},
	{name: "get a review", path: "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"},
}

// waits asks again until the answer has a text in it.
func (x exchange) waits(until string) exchange { x.until = until; return x }

// tokenFor returns a request for a token.
func tokenFor(name, account, spec string) exchange {
	return exchange{name: name, method: "POST", path: "/api/v1/namespaces/{ns}/serviceaccounts/" + account + "/token",
		body: fmt.Sprintf(`{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":%s}`, spec)}
}

func (x exchange) saves(name string) exchange { x.save = name; return x }

func (x exchange) with(token string) exchange {
	x.as, x.header = "anonymous", []string{"Authorization", "Bearer " + token}
	return x
}

var tokens = []exchange{
	{name: "an account", method: "POST", path: "/api/v1/namespaces/{ns}/serviceaccounts", body: `{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"robot"}}`},
	tokenFor("a token", "robot", `{}`).saves("t"),
	tokenFor("with an expiry", "robot", `{"expirationSeconds":1000}`),
	tokenFor("for an audience", "robot", `{"audiences":["vault"]}`).saves("vault"),
	tokenFor("that expires too early", "robot", `{"expirationSeconds":10}`),
	tokenFor("that expires too late", "robot", `{"expirationSeconds":99999999999}`),
	tokenFor("of an account that does not exist", "absent", `{}`),
	tokenFor("bound to a pod that does not exist", "robot", `{"boundObjectRef":{"apiVersion":"v1","kind":"Pod","name":"p"}}`),
	tokenFor("bound to something", "robot", `{"boundObjectRef":{"apiVersion":"v1","kind":"ConfigMap","name":"p"}}`),
	{name: "a secret", method: "POST", path: "/api/v1/namespaces/{ns}/secrets", body: `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"}}`},
	tokenFor("bound to a secret", "robot", `{"boundObjectRef":{"apiVersion":"v1","kind":"Secret","name":"s"}}`).saves("bound"),
	tokenFor("bound to another UID", "robot", `{"boundObjectRef":{"apiVersion":"v1","kind":"Secret","name":"s","uid":"x"}}`),
	review("who it is", "authentication.k8s.io", "SelfSubjectReview", `{}`).with("{t.token}"),
	{name: "it may not read", path: "a", as: "anonymous", header: []string{"Authorization", "Bearer {t.token}"}},
	review("for another audience", "authentication.k8s.io", "SelfSubjectReview", `{}`).with("{vault.token}"),
	review("a review", "authentication.k8s.io", "TokenReview", `{"token":"{t.token}"}`),
	review("a review for the audience", "authentication.k8s.io", "TokenReview", `{"token":"{vault.token}","audiences":["vault","x"]}`),
	review("a review for another audience", "authentication.k8s.io", "TokenReview", `{"token":"{t.token}","audiences":["vault"]}`),
	review("a review of nonsense", "authentication.k8s.io", "TokenReview", `{"token":"nonsense"}`),
	review("a review of nothing", "authentication.k8s.io", "TokenReview", `{}`),
	{name: "delete the secret", method: "DELETE", path: "/api/v1/namespaces/{ns}/secrets/s"},
	review("its token", "authentication.k8s.io", "SelfSubjectReview", `{}`).with("{bound.token}").waits(`"status":401`),
	{name: "delete the account", method: "DELETE", path: "/api/v1/namespaces/{ns}/serviceaccounts/robot"},
	review("its token then", "authentication.k8s.io", "SelfSubjectReview", `{}`).with("{t.token}").waits(`"status":401`),
}
