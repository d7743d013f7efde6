package apiserver

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tarnproject/tarn/apiserver/internal/kinds"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
)

// checkEscalation rejects a role, or the binding of a role, with rules that the user does
// not have. The verbs escalate and bind permit it. old is nil for a new object.
func (s *Server) checkEscalation(r *request, old *kinds.Record, obj runtime.Object) error {
	u := userOf(r.Context())
	if !s.opts.RBAC || r.kind.Group != rbacv1.GroupName || slices.Contains(u.Groups, masters) || old != nil && sameExceptGC(old.Obj, obj) {
		return nil
	}
	var rules []rbacv1.PolicyRule
	a := attributes{verb: "escalate", group: rbacv1.GroupName, resource: r.kind.Resource.Resource, namespace: r.namespace, name: r.name}
	var ref *rbacv1.RoleRef
	aggregates := false
	switch o := obj.(type) {
	case *rbacv1.Role:
		rules = o.Rules
	case *rbacv1.ClusterRole:
		rules, aggregates = o.Rules, o.AggregationRule != nil
		if was, ok := recordObject(old).(*rbacv1.ClusterRole); ok {
			aggregates = aggregates || was.AggregationRule != nil
		}
	case *rbacv1.RoleBinding:
		ref = &o.RoleRef
	case *rbacv1.ClusterRoleBinding:
		ref = &o.RoleRef
	default:
		return nil
	}
	if ref != nil {
		a.verb, a.resource, a.name = "bind", strings.ToLower(ref.Kind)+"s", ref.Name
	}
	if ok, _ := s.allowed(u, a); ok {
		return nil
	}
	if ref != nil {
		var err error
		s.storage.Locked(func() { rules, err = s.rbac.rulesOf(s.storage, *ref, r.namespace) })
		if err != nil {
			return kinds.NotFound(r.kind, ref.Name) // as the real server names it
		}
	}
	forbidden := func(err error) error {
		s.denials.add(err.Error())
		return apierrors.NewForbidden(r.kind.GVR().GroupResource(), kinds.MetaOf(obj).GetName(), err)
	}
	if missing := s.notHeld(u, r.namespace, rules); len(missing) > 0 {
		return forbidden(fmt.Errorf("user %q (groups=%q) is attempting to grant RBAC permissions not currently held:\n%s", u.Username, u.Groups, strings.Join(missing, "\n")))
	}
	everything := []rbacv1.PolicyRule{{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}}, {Verbs: []string{"*"}, NonResourceURLs: []string{"*"}}}
	if aggregates && len(s.notHeld(u, r.namespace, everything)) > 0 {
		return forbidden(errors.New("must have cluster-admin privileges to use the aggregationRule"))
	}
	return nil
}

func recordObject(r *kinds.Record) runtime.Object {
	if r == nil {
		return nil
	}
	return r.Obj
}

// sameExceptGC reports whether an update changes at most owner references and finalizers,
// as the garbage collector does.
func sameExceptGC(old, obj runtime.Object) bool {
	was, is := old.DeepCopyObject(), obj.DeepCopyObject()
	for _, o := range []runtime.Object{was, is} {
		m := kinds.MetaOf(o)
		m.SetOwnerReferences(nil)
		m.SetFinalizers(nil)
		m.SetManagedFields(nil)
		m.SetResourceVersion("")
		m.SetSelfLink("")
	}
	return equality.Semantic.DeepEqual(was, is)
}

// notHeld describes the permissions in rules that a user does not have: verbs of the same
// resource together, sorted.
func (s *Server) notHeld(u *user, namespace string, rules []rbacv1.PolicyRule) (missing []string) {
	var held []rbacv1.PolicyRule
	for _, g := range s.rbac.of(s.storage, u, namespace) {
		held = append(held, g.rules...)
	}
	verbs := map[string][]string{}
	var lack []string
	add := func(what, verb string, single bool) {
		if !single {
			lack = append(lack, fmt.Sprintf("{%s, Verbs:%q}", what, []string{verb}))
			return
		}
		verbs[what] = append(verbs[what], verb)
	}
	for _, rule := range rules {
		for _, a := range permissions(rule) {
			// A wildcard is covered by the same wildcard only, so it is matched as a name.
			if slices.ContainsFunc(held, a.allowedBy) {
				continue
			}
			switch {
			case a.resource == "":
				add(fmt.Sprintf("NonResourceURLs:%q", []string{a.path}), a.verb, false)
			case a.name != "":
				add(fmt.Sprintf("APIGroups:%q, Resources:%q, ResourceNames:%q", []string{a.group}, []string{a.combined()}, []string{a.name}), a.verb, true)
			default:
				add(fmt.Sprintf("APIGroups:%q, Resources:%q", []string{a.group}, []string{a.combined()}), a.verb, true)
			}
		}
	}
	for what, v := range verbs {
		lack = append(lack, fmt.Sprintf("{%s, Verbs:%q}", what, v))
	}
	slices.Sort(lack)
	return slices.Compact(lack)
}

// permissions splits a rule into single permissions.
func permissions(rule rbacv1.PolicyRule) (all []attributes) {
	names := rule.ResourceNames
	if len(names) == 0 {
		names = []string{""}
	}
	for _, verb := range rule.Verbs {
		for _, group := range rule.APIGroups {
			for _, combined := range rule.Resources {
				for _, name := range names {
					resource, sub, _ := strings.Cut(combined, "/")
					all = append(all, attributes{verb: verb, group: group, resource: resource, subresource: sub, name: name})
				}
			}
		}
		for _, url := range rule.NonResourceURLs {
			all = append(all, attributes{verb: verb, path: url})
		}
	}
	return all
}
