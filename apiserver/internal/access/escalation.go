package access

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tarnproject/tarn/apiserver/internal/kinds"
	"github.com/tarnproject/tarn/object"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
)

// CheckEscalation rejects a role, or the binding of a role, with rules that the user does
// not have. The verbs escalate and bind permit it. at is the key in the request, and old is nil for a new object.
func (s *Control) CheckEscalation(u *User, k *kinds.Kind, at object.Key, old *kinds.Record, obj runtime.Object) error {
	if !s.evaluates || k.Group != rbacv1.GroupName || slices.Contains(u.Groups, masters) || old != nil && sameExceptGC(old.Obj, obj) {
		return nil
	}
	var rules []rbacv1.PolicyRule
	a := Attributes{Verb: "escalate", Group: rbacv1.GroupName, Resource: k.Resource.Resource, namespace: at.Namespace, Name: at.Name}
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
		a.Verb, a.Resource, a.Name = "bind", strings.ToLower(ref.Kind)+"s", ref.Name
	}
	if ok, _ := s.allowed(u, a); ok {
		return nil
	}
	if ref != nil {
		var err error
		s.storage.Locked(func() { rules, err = s.rbac.rulesOf(s.storage, *ref, at.Namespace) })
		if err != nil {
			return kinds.NotFound(k, ref.Name) // as the real server names it
		}
	}
	forbidden := func(err error) error {
		s.denials.add(err.Error())
		return apierrors.NewForbidden(k.GVR().GroupResource(), kinds.MetaOf(obj).GetName(), err)
	}
	if missing := s.notHeld(u, at.Namespace, rules); len(missing) > 0 {
		return forbidden(fmt.Errorf("user %q (groups=%q) is attempting to grant RBAC permissions not currently held:\n%s", u.Username, u.Groups, strings.Join(missing, "\n")))
	}
	everything := []rbacv1.PolicyRule{{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}}, {Verbs: []string{"*"}, NonResourceURLs: []string{"*"}}}
	if aggregates && len(s.notHeld(u, at.Namespace, everything)) > 0 {
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
func (s *Control) notHeld(u *User, namespace string, rules []rbacv1.PolicyRule) (missing []string) {
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
			case a.Resource == "":
				add(fmt.Sprintf("NonResourceURLs:%q", []string{a.Path}), a.Verb, false)
			case a.Name != "":
				add(fmt.Sprintf("APIGroups:%q, Resources:%q, ResourceNames:%q", []string{a.Group}, []string{a.combined()}, []string{a.Name}), a.Verb, true)
			default:
				add(fmt.Sprintf("APIGroups:%q, Resources:%q", []string{a.Group}, []string{a.combined()}), a.Verb, true)
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
func permissions(rule rbacv1.PolicyRule) (all []Attributes) {
	names := rule.ResourceNames
	if len(names) == 0 {
		names = []string{""}
	}
	for _, verb := range rule.Verbs {
		for _, group := range rule.APIGroups {
			for _, combined := range rule.Resources {
				for _, name := range names {
					resource, sub, _ := strings.Cut(combined, "/")
					all = append(all, Attributes{Verb: verb, Group: group, Resource: resource, subresource: sub, Name: name})
				}
			}
		}
		for _, url := range rule.NonResourceURLs {
			all = append(all, Attributes{Verb: verb, Path: url})
		}
	}
	return all
}
