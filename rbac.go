package tarn

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/yaml"
)

// Rules are the permissions that a cluster's mirrors, clients, recorders, and leader election or
// sharding need.
type Rules struct {
	// Name is the name of the roles; change it before printing them. Defaults to the
	// field manager of [WithFieldManager], or else to "tarn".
	Name string
	// Cluster has the rules for resources in all namespaces and cluster-scoped ones.
	Cluster []rbacv1.PolicyRule
	// Namespaces has the rules for single namespaces.
	Namespaces map[string][]rbacv1.PolicyRule
}

// verbs is a set of verbs.
type verbs uint8

const (
	getVerb verbs = 1 << iota
	listVerb
	watchVerb
	createVerb
	updateVerb
	patchVerb
	deleteVerb
)

var verbNames = []string{"get", "list", "watch", "create", "update", "patch", "delete"}

func (v verbs) names() (names []string) {
	for i, name := range verbNames {
		if v&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// RBAC returns the rules for everything that is declared: all open mirrors; the verbs of each
// [Client], see [Mirror.Client]; the events of recorders, in
// the namespaces of the mirrors; and the leases of leader election or sharding, in the namespace
// of [Cluster.Namespace]. It sends no request, so it works before Run and without a server.
func (c *Cluster) RBAC() Rules {
	needs := map[string]map[target]verbs{} // by namespace; "" is all of them
	add := func(namespace string, t target, v verbs) {
		if needs[namespace] == nil {
			needs[namespace] = map[target]verbs{}
		}
		needs[namespace][t] |= v
	}
	for _, m := range c.declared() {
		namespaces := m.namespaces
		if namespaces == nil {
			namespaces = []string{""}
		}
		for _, ns := range namespaces {
			add(ns, m.id.target(), getVerb|listVerb|watchVerb)
			for _, verb := range c.verbsOf(m) {
				// Not by name: what is created has none yet.
				need := clientVerbs[verb]
				add(ns, target{group: m.id.resource.Group, resource: m.id.resource.Resource + need.subresource}, need.verb)
			}
		}
	}
	if c.hasRecorder() {
		for _, ns := range eventNamespaces(c.declared()) {
			add(ns, target{group: "events.k8s.io", resource: "events"}, createVerb|patchVerb)
		}
	}
	if c.elector != nil {
		add(c.namespace, target{group: "coordination.k8s.io", resource: "leases"}, getVerb|createVerb|updateVerb)
	}
	if c.group != nil {
		add(c.namespace, target{group: "coordination.k8s.io", resource: "leases"}, getVerb|listVerb|watchVerb|createVerb|updateVerb|deleteVerb)
	}
	if c.journal != nil {
		add("", target{resource: "namespaces", name: kubeSystem}, getVerb)
	}
	r := Rules{Name: cmp.Or(c.opts.fieldManager, "tarn"), Cluster: rulesOf(needs[""], nil), Namespaces: map[string][]rbacv1.PolicyRule{}}
	for ns, of := range needs {
		if ns == "" {
			continue
		}
		if rules := rulesOf(of, needs[""]); len(rules) > 0 {
			r.Namespaces[ns] = rules
		}
	}
	return r
}

// eventNamespaces returns where events about the objects of mirrors are: in the objects'
// namespaces, for cluster-scoped ones in "default". "" is all namespaces.
func eventNamespaces(mirrors []*shared) (namespaces []string) {
	for _, m := range mirrors {
		switch {
		case !m.id.resource.Namespaced:
			namespaces = append(namespaces, metav1.NamespaceDefault)
		case m.namespaces == nil:
			return []string{""}
		default:
			namespaces = append(namespaces, m.namespaces...)
		}
	}
	if namespaces == nil {
		return []string{""}
	}
	return namespaces
}

// verbsOf returns the verbs of all clients of a mirror.
func (c *Cluster) verbsOf(m *shared) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Keys(c.clients[m]))
}

func (c *Cluster) hasRecorder() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.recorders) > 0
}

// hasStatus reports whether objects of a type may have a status.
func hasStatus(t reflect.Type) bool {
	if t == reflect.TypeFor[*unstructured.Unstructured]() {
		return true
	}
	_, ok := t.Elem().FieldByName("Status")
	return ok
}

// target is a resource, or one object of it.
type target struct{ group, resource, name string }

// target returns what a mirror reads. The server authorizes a list with metadata.name=x by the
// permission for that name.
func (id identity) target() target {
	t := target{group: id.resource.Group, resource: id.resource.Resource}
	if s, err := fields.ParseSelector(id.fields); err == nil {
		t.name, _ = s.RequiresExactMatch("metadata.name")
	}
	return t
}

// rulesOf returns the rules for needs, except those already met: one rule for each group and
// set of verbs, and one for each resource of which single objects are needed.
func rulesOf(needs, met map[target]verbs) []rbacv1.PolicyRule {
	type rule struct {
		group, named string
		verbs        verbs
	}
	resources, names := map[rule][]string{}, map[rule][]string{}
	for t, v := range needs {
		whole := target{group: t.group, resource: t.resource}
		if t.name != "" {
			v &^= needs[whole]
		}
		if v &^= met[t] | met[whole]; v == 0 {
			continue
		}
		r := rule{group: t.group, verbs: v}
		if t.name != "" {
			r.named = t.resource
			names[r] = append(names[r], t.name)
		}
		if !slices.Contains(resources[r], t.resource) {
			resources[r] = append(resources[r], t.resource)
		}
	}
	for r := range resources {
		slices.Sort(resources[r])
		slices.Sort(names[r])
	}
	order := slices.SortedFunc(maps.Keys(resources), func(a, b rule) int {
		return cmp.Or(cmp.Compare(a.group, b.group), cmp.Compare(a.named, b.named), slices.Compare(resources[a], resources[b]))
	})
	var rules []rbacv1.PolicyRule
	for _, r := range order {
		rules = append(rules, rbacv1.PolicyRule{
			APIGroups: []string{r.group}, Resources: resources[r], ResourceNames: names[r], Verbs: r.verbs.names(),
		})
	}
	return rules
}

// ClusterRole returns the cluster-wide rules as an object, nil if there are none.
func (r Rules) ClusterRole() *rbacv1.ClusterRole {
	if len(r.Cluster) == 0 {
		return nil
	}
	return &rbacv1.ClusterRole{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole"},
		ObjectMeta: metav1.ObjectMeta{Name: r.Name},
		Rules:      r.Cluster,
	}
}

// Roles returns the rules of single namespaces as objects, sorted by namespace.
func (r Rules) Roles() []*rbacv1.Role {
	var roles []*rbacv1.Role
	for _, ns := range slices.Sorted(maps.Keys(r.Namespaces)) {
		roles = append(roles, &rbacv1.Role{
			TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "Role"},
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: r.Name},
			Rules:      r.Namespaces[ns],
		})
	}
	return roles
}

// String returns the roles as YAML, ready for kubectl apply.
func (r Rules) String() string {
	var docs []string
	add := func(obj any) {
		text, err := yaml.Marshal(obj)
		if err != nil {
			// A name that YAML cannot hold, which no API server would accept either.
			text = fmt.Appendf(nil, "# a role cannot be written as YAML: %v\n", err)
		}
		docs = append(docs, string(text))
	}
	if role := r.ClusterRole(); role != nil {
		add(role)
	}
	for _, role := range r.Roles() {
		add(role)
	}
	return strings.Join(docs, "---\n")
}
