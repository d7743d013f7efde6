package access

import (
	"fmt"
	"slices"
	"sync"

	"github.com/tarnproject/tarn/apiserver/internal/kinds"
	"github.com/tarnproject/tarn/apiserver/internal/storage"
	"github.com/tarnproject/tarn/object"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
)

// rbac evaluates the stored roles and bindings. They are compiled for the first request after
// a change.
type rbac struct {
	roles, clusterRoles, bindings, clusterBindings *kinds.Kind // set by startRBAC
	aggregates                                     bool        // set by startRBAC

	mu     sync.Mutex // guards the rest
	edits  uint64     // of the buckets when grants was compiled
	grants map[string]map[string][]grant
}

// grant is what one binding gives to one subject. It is not modified after it is compiled.
type grant struct {
	source  string // the binding, as access reviews name it
	rules   []rbacv1.PolicyRule
	missing error // the role does not exist
}

// compiled returns the grants by namespace, "" for all, and subject.
func (b *rbac) compiled(s *storage.Storage) map[string]map[string][]grant {
	b.mu.Lock()
	defer b.mu.Unlock()
	s.Locked(func() {
		if edits := s.Edits(b.roles, b.clusterRoles, b.bindings, b.clusterBindings); b.grants == nil || edits != b.edits {
			b.edits, b.grants = edits, b.compile(s)
		}
	})
	return b.grants
}

// compile returns the grants of all bindings. The caller must hold the storage lock.
func (b *rbac) compile(s *storage.Storage) map[string]map[string][]grant {
	grants := map[string]map[string][]grant{}
	for _, r := range slices.Concat(s.Records(b.clusterBindings), s.Records(b.bindings)) {
		var subjects []rbacv1.Subject
		var ref rbacv1.RoleRef
		var what string
		switch o := r.Obj.(type) {
		case *rbacv1.ClusterRoleBinding:
			subjects, ref, what = o.Subjects, o.RoleRef, fmt.Sprintf("ClusterRoleBinding %q", o.Name)
		case *rbacv1.RoleBinding:
			subjects, ref, what = o.Subjects, o.RoleRef, fmt.Sprintf("RoleBinding %q", o.Name+"/"+o.Namespace)
		}
		of := grants[r.Key.Namespace]
		if of == nil {
			of = map[string][]grant{}
			grants[r.Key.Namespace] = of
		}
		rules, missing := b.rulesOf(s, ref, r.Key.Namespace)
		for _, subject := range subjects {
			name := subject.Name
			if subject.Kind == rbacv1.ServiceAccountKind {
				if subject.Namespace == "" {
					subject.Namespace = r.Key.Namespace
				}
				name += "/" + subject.Namespace
			}
			id := subjectID(subject)
			of[id] = append(of[id], grant{fmt.Sprintf("%s of %s %q to %s %q", what, ref.Kind, ref.Name, subject.Kind, name), rules, missing})
		}
	}
	return grants
}

// subjectID returns the key of a subject in the grants.
func subjectID(s rbacv1.Subject) string {
	if s.Kind == rbacv1.ServiceAccountKind {
		return rbacv1.UserKind + " " + serviceaccount.MakeUsername(s.Namespace, s.Name)
	}
	return s.Kind + " " + s.Name
}

// rulesOf returns the rules of a role, or a NotFound error. The caller must hold the storage
// lock.
func (b *rbac) rulesOf(s *storage.Storage, ref rbacv1.RoleRef, namespace string) ([]rbacv1.PolicyRule, error) {
	k, key := b.clusterRoles, object.Key{Name: ref.Name}
	if ref.Kind == "Role" {
		k, key.Namespace = b.roles, namespace
	}
	r := s.Find(k, key)
	if r == nil {
		return nil, apierrors.NewNotFound(schema.GroupResource{Group: k.Group, Resource: k.Singular}, ref.Name)
	}
	return b.withAggregated(s, r.Obj, map[string]bool{}), nil
}

// withAggregated returns the rules of a role and of the roles that its aggregation rule
// selects, as kube-controller-manager adds them. The caller must hold the storage lock.
func (b *rbac) withAggregated(s *storage.Storage, role runtime.Object, seen map[string]bool) []rbacv1.PolicyRule {
	cluster, ok := role.(*rbacv1.ClusterRole)
	if !ok {
		return role.(*rbacv1.Role).Rules
	}
	rules := cluster.Rules
	if seen[cluster.Name] || cluster.AggregationRule == nil || !b.aggregates {
		return rules
	}
	seen[cluster.Name] = true
	for i := range cluster.AggregationRule.ClusterRoleSelectors {
		sel, err := metav1.LabelSelectorAsSelector(&cluster.AggregationRule.ClusterRoleSelectors[i])
		if err != nil {
			continue // kube-controller-manager logs it
		}
		for _, r := range s.Records(b.clusterRoles) {
			if r.Key.Name != cluster.Name && sel.Matches(labels.Set(r.Meta.GetLabels())) {
				rules = slices.Concat(rules, b.withAggregated(s, r.Obj, seen))
			}
		}
	}
	return rules
}

// of returns the grants of a user in a namespace, cluster-wide ones first.
func (b *rbac) of(s *storage.Storage, u *User, namespace string) (found []grant) {
	all := b.compiled(s)
	for _, in := range slices.Compact([]string{"", namespace}) {
		found = append(found, all[in][rbacv1.UserKind+" "+u.Username]...)
		for _, g := range u.Groups {
			found = append(found, all[in][rbacv1.GroupKind+" "+g]...)
		}
	}
	return found
}

// allowed reports whether a rule allows a request, and the reason for access reviews.
func (b *rbac) allowed(s *storage.Storage, u *User, a Attributes) (ok bool, reason string) {
	var errs []error
	for _, g := range b.of(s, u, a.namespace) {
		if slices.ContainsFunc(g.rules, a.allowedBy) {
			return true, "RBAC: allowed by " + g.source
		}
		if g.missing != nil {
			errs = append(errs, g.missing)
		}
	}
	if len(errs) > 0 {
		return false, fmt.Sprintf("RBAC: %v", utilerrors.NewAggregate(errs))
	}
	return false, ""
}
