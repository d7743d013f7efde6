package tarn

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/yaml"
)

// Rules are the permissions that mirrors need: get, list and watch. Add permissions for
// writes yourself.
type Rules struct {
	// Name is the name of the roles; change it before printing them. Defaults to "tarn".
	Name string
	// Cluster has the rules for resources mirrored in all namespaces and cluster-scoped ones.
	Cluster []rbacv1.PolicyRule
	// Namespaces has the rules for each namespace that is mirrored on its own.
	Namespaces map[string][]rbacv1.PolicyRule
}

// RBAC returns the rules for all mirrors with an open handle. It sends no request, so it
// works before Run and without a server.
func (c *Cluster) RBAC() Rules {
	needs := map[string]map[need]bool{} // by namespace; "" is all of them
	for _, m := range c.declared() {
		namespaces := m.namespaces
		if namespaces == nil {
			namespaces = []string{""}
		}
		for _, ns := range namespaces {
			if needs[ns] == nil {
				needs[ns] = map[need]bool{}
			}
			needs[ns][m.id.need()] = true
		}
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

// need is one resource, or one object of it.
type need struct{ group, resource, name string }

// need returns what a mirror reads. The server authorizes a list with metadata.name=x by the
// permission for that name.
func (id identity) need() need {
	n := need{group: id.resource.Group, resource: id.resource.Resource}
	if s, err := fields.ParseSelector(id.fields); err == nil {
		n.name, _ = s.RequiresExactMatch("metadata.name")
	}
	return n
}

// rulesOf returns the rules for needs, except those already met: one rule for each group, and
// one for each resource of which single objects are needed.
func rulesOf(needs, met map[need]bool) []rbacv1.PolicyRule {
	whole := func(n need) need { return need{group: n.group, resource: n.resource} }
	type rule struct{ group, named string }
	resources, names := map[rule][]string{}, map[rule][]string{}
	for n := range needs {
		if met[n] || met[whole(n)] || n.name != "" && needs[whole(n)] {
			continue
		}
		r := rule{group: n.group}
		if n.name != "" {
			r.named = n.resource
			names[r] = append(names[r], n.name)
		}
		if !slices.Contains(resources[r], n.resource) {
			resources[r] = append(resources[r], n.resource)
		}
	}
	order := slices.SortedFunc(maps.Keys(resources), func(a, b rule) int {
		return cmp.Or(cmp.Compare(a.group, b.group), cmp.Compare(a.named, b.named))
	})
	var rules []rbacv1.PolicyRule
	for _, r := range order {
		slices.Sort(resources[r])
		slices.Sort(names[r])
		rules = append(rules, rbacv1.PolicyRule{
			APIGroups: []string{r.group}, Resources: resources[r], ResourceNames: names[r],
			Verbs: []string{"get", "list", "watch"},
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
