package builtin

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func defaultBinding(ref *rbacv1.RoleRef, subjects []rbacv1.Subject) {
	setText(&ref.APIGroup, rbacv1.GroupName)
	for i := range subjects {
		if kind := subjects[i].Kind; kind == rbacv1.UserKind || kind == rbacv1.GroupKind {
			setText(&subjects[i].APIGroup, rbacv1.GroupName)
		}
	}
}

func (p *problems) rules(rules []rbacv1.PolicyRule, namespaced bool) {
	for i, rule := range rules {
		at := field.NewPath("rules").Index(i)
		if len(rule.Verbs) == 0 {
			p.required(at.Child("verbs"), "verbs must contain at least one value")
		}
		if len(rule.NonResourceURLs) > 0 {
			if namespaced {
				p.invalid(at.Child("nonResourceURLs"), rule.NonResourceURLs, "namespaced rules cannot apply to non-resource URLs")
			}
			if len(rule.APIGroups)+len(rule.Resources)+len(rule.ResourceNames) > 0 {
				p.invalid(at.Child("nonResourceURLs"), rule.NonResourceURLs, "rules cannot apply to both regular resources and non-resource URLs")
			}
			continue
		}
		if len(rule.APIGroups) == 0 {
			p.required(at.Child("apiGroups"), "resource rules must supply at least one api group")
		}
		if len(rule.Resources) == 0 {
			p.required(at.Child("resources"), "resource rules must supply at least one resource")
		}
	}
}

func (p *problems) aggregation(rule *rbacv1.AggregationRule) {
	if rule == nil {
		return
	}
	at := field.NewPath("aggregationRule", "clusterRoleSelectors")
	if len(rule.ClusterRoleSelectors) == 0 {
		p.required(at, "at least one clusterRoleSelector required if aggregationRule is non-nil")
	}
	for i := range rule.ClusterRoleSelectors {
		p.labelSelector(at.Index(i), &rule.ClusterRoleSelectors[i])
		if _, ok := parsed(&rule.ClusterRoleSelectors[i]); !ok {
			p.invalid(at.Index(i), nil, "invalid label selector.")
		}
	}
}

// sameRole checks that a binding still refers to the same role.
func (p *problems) sameRole(ref, old rbacv1.RoleRef) {
	if ref != old {
		// The value has the field names of kube-apiserver's own type.
		p.invalid(field.NewPath("roleRef"), struct{ APIGroup, Kind, Name string }(ref), "cannot change roleRef")
	}
}

func (p *problems) binding(ref rbacv1.RoleRef, subjects []rbacv1.Subject, namespaced bool) {
	at := field.NewPath("roleRef")
	if ref.APIGroup != rbacv1.GroupName {
		p.add(field.NotSupported(at.Child("apiGroup"), ref.APIGroup, []string{rbacv1.GroupName}))
	}
	kinds := []string{"ClusterRole"}
	if namespaced {
		kinds = []string{"Role", "ClusterRole"}
	}
	if !slices.Contains(kinds, ref.Kind) {
		p.add(field.NotSupported(at.Child("kind"), ref.Kind, kinds))
	}
	p.needValid(at.Child("name"), ref.Name, content.IsPathSegmentName)
	for i, s := range subjects {
		p.subject(s, namespaced, field.NewPath("subjects").Index(i))
	}
}

func (p *problems) subject(s rbacv1.Subject, namespaced bool, at *field.Path) {
	p.need(at.Child("name"), s.Name)
	group := rbacv1.GroupName
	switch s.Kind {
	case rbacv1.ServiceAccountKind:
		group = ""
		if s.Name != "" {
			p.subdomain(at.Child("name"), s.Name)
		}
	case rbacv1.UserKind, rbacv1.GroupKind:
	default:
		p.add(field.NotSupported(at.Child("kind"), s.Kind, []string{rbacv1.ServiceAccountKind, rbacv1.UserKind, rbacv1.GroupKind}))
		return
	}
	if s.APIGroup != group {
		p.add(field.NotSupported(at.Child("apiGroup"), s.APIGroup, []string{group}))
	}
	if s.Kind == rbacv1.ServiceAccountKind && !namespaced && s.Namespace == "" {
		p.required(at.Child("namespace"), "")
	}
}
