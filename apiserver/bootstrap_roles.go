package apiserver

import (
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// bootstrapRoles are the ClusterRoles of every cluster that clients rely on. Each rule is
// "verbs: groups: resources" or "verbs: URLs".
var bootstrapRoles = []struct {
	name     string
	rules    []string
	subjects []string // groups that the role is bound to
}{
	{"cluster-admin", []string{"*: *: *", "*: *"}, []string{masters}},
	{"system:discovery", []string{"get: /api /api/* /apis /apis/* /healthz /livez /openapi /openapi/* /readyz /version /version/"}, []string{authenticated}},
	{"system:public-info-viewer", []string{"get: /healthz /livez /readyz /version /version/"}, []string{authenticated, unauthenticated}},
	{"system:basic-user", []string{
		"create: authorization.k8s.io: selfsubjectaccessreviews selfsubjectrulesreviews", "create: authentication.k8s.io: selfsubjectreviews"}, []string{authenticated}},
}

// newRule parses a rule of bootstrapRoles.
func newRule(text string) rbacv1.PolicyRule {
	parts := strings.Split(text, ": ")
	rule := rbacv1.PolicyRule{Verbs: strings.Fields(parts[0])}
	if len(parts) == 2 {
		rule.NonResourceURLs = strings.Fields(parts[1])
		return rule
	}
	for group := range strings.FieldsSeq(parts[1]) {
		rule.APIGroups = append(rule.APIGroups, strings.TrimPrefix(group, "core"))
	}
	rule.Resources = strings.Fields(parts[2])
	return rule
}

// startRBAC prepares the evaluation of rules, and creates the roles and bindings of a new
// cluster.
func (s *Server) startRBAC() error {
	for resource, into := range map[string]**kind{
		"roles": &s.rbac.roles, "clusterroles": &s.rbac.clusterRoles, "rolebindings": &s.rbac.bindings, "clusterrolebindings": &s.rbac.clusterBindings,
	} {
		var err error
		if *into, err = s.catalog.get(rbacv1.SchemeGroupVersion.WithResource(resource)); err != nil {
			return err
		}
	}
	var objects []runtime.Object
	for _, b := range bootstrapRoles {
		meta := metav1.ObjectMeta{
			Name: b.name, Labels: map[string]string{"kubernetes.io/bootstrapping": "rbac-defaults"},
			Annotations: map[string]string{rbacv1.AutoUpdateAnnotationKey: "true"},
		}
		role := &rbacv1.ClusterRole{ObjectMeta: meta}
		for _, text := range b.rules {
			role.Rules = append(role.Rules, newRule(text))
		}
		binding := &rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: b.name}}
		for _, group := range b.subjects {
			binding.Subjects = append(binding.Subjects, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: group})
		}
		objects = append(objects, role, binding)
	}
	for _, obj := range objects {
		if _, err := s.Create(obj); err != nil {
			return err
		}
	}
	return nil
}
