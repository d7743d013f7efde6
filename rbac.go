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

// Rules are the permissions that a cluster's mirrors, clients, recorders and leader election
// need.
type Rules struct {
	// Name is the name of the roles; change it before printing them. Defaults to "tarn".
	Name string
	// Cluster has the rules for resources in all namespaces and cluster-scoped ones.
	Cluster []rbacv1.PolicyRule
	// Namespaces has the rules for single namespaces.
	Namespaces map[string][]rbacv1.PolicyRule
}

// The verbs that each use of a resource needs, separated by commas.
const (
	readVerbs      = "get,list,watch"
	writeVerbs     = "create,delete,patch,update"
	statusVerbs    = "patch,update"
	finalizerVerbs = "update"
	eventVerbs     = "create,patch"
	leaseVerbs     = "create,get,update"
)

// RBAC returns the rules for everything that is declared: all open mirrors; all verbs on the
// resources of which there is a [Client], with status and finalizers; the events of recorders;
// and the leases of leader election, in the namespace of [Cluster.Namespace]. It sends no
// request, so it works before Run and without a server.
func (c *Cluster) RBAC() Rules {
	needs := map[string]map[need]bool{} // by namespace; "" is all of them
	add := func(namespace string, n need) {
		if needs[namespace] == nil {
			needs[namespace] = map[need]bool{}
		}
		needs[namespace][n] = true
	}
	for _, m := range c.declared() {
		namespaces := m.namespaces
		if namespaces == nil {
			namespaces = []string{""}
		}
		for _, ns := range namespaces {
			add(ns, m.id.need())
			for _, n := range c.writes(m) {
				add(ns, n)
			}
		}
	}
	c.mu.Lock()
	recording := len(c.recorders) > 0
	c.mu.Unlock()
	if recording {
		add("", need{group: "events.k8s.io", resource: "events", verbs: eventVerbs})
	}
	if c.elector != nil {
		add(c.namespace, need{group: "coordination.k8s.io", resource: "leases", verbs: leaseVerbs})
	}
	r := Rules{Name: "tarn", Cluster: rulesOf(needs[""], nil), Namespaces: map[string][]rbacv1.PolicyRule{}}
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

// need is the use of one resource, or of one object of it.
type need struct{ group, resource, name, verbs string }

// need returns what a mirror reads. The server authorizes a list with metadata.name=x by the
// permission for that name.
func (id identity) need() need {
	n := need{group: id.resource.Group, resource: id.resource.Resource, verbs: readVerbs}
	if s, err := fields.ParseSelector(id.fields); err == nil {
		n.name, _ = s.RequiresExactMatch("metadata.name")
	}
	return n
}

// writes returns what the clients of a mirror write. Objects that are created cannot be
// restricted to a name.
func (c *Cluster) writes(m *shared) []need {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.clients[m] {
		return nil
	}
	n := need{group: m.id.resource.Group, resource: m.id.resource.Resource, verbs: writeVerbs}
	status, finalizers := n, n
	status.resource, status.verbs = n.resource+"/status", statusVerbs
	finalizers.resource, finalizers.verbs = n.resource+"/finalizers", finalizerVerbs
	if !hasStatus(m.id.object) {
		return []need{n, finalizers}
	}
	return []need{n, status, finalizers}
}

// hasStatus reports whether objects of a type may have a status.
func hasStatus(t reflect.Type) bool {
	if t == reflect.TypeFor[*unstructured.Unstructured]() {
		return true
	}
	_, ok := t.Elem().FieldByName("Status")
	return ok
}

// rulesOf returns the rules for needs, except those already met: one rule for each group and
// set of verbs, and one for each resource of which single objects are needed.
func rulesOf(needs, met map[need]bool) []rbacv1.PolicyRule {
	whole := func(n need) need { return need{group: n.group, resource: n.resource, verbs: n.verbs} }
	type rule struct{ group, named, verbs string }
	resources, names := map[rule][]string{}, map[rule][]string{}
	for n := range needs {
		if met[n] || met[whole(n)] || n.name != "" && needs[whole(n)] {
			continue
		}
		r := rule{group: n.group, verbs: n.verbs}
		if n.name != "" {
			r.named = n.resource
			names[r] = append(names[r], n.name)
		}
		if !slices.Contains(resources[r], n.resource) {
			resources[r] = append(resources[r], n.resource)
		}
	}
	order := slices.SortedFunc(maps.Keys(resources), func(a, b rule) int {
		return cmp.Or(cmp.Compare(a.group, b.group), cmp.Compare(a.named, b.named), -cmp.Compare(len(a.verbs), len(b.verbs)), cmp.Compare(a.verbs, b.verbs))
	})
	var rules []rbacv1.PolicyRule
	for _, r := range order {
		slices.Sort(resources[r])
		slices.Sort(names[r])
		rules = append(rules, rbacv1.PolicyRule{
			APIGroups: []string{r.group}, Resources: resources[r], ResourceNames: names[r],
			Verbs: strings.Split(r.verbs, ","),
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
