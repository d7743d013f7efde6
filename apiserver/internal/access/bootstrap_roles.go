package access

import (
	"strings"

	"github.com/tarnproject/tarn/apiserver/internal/kinds"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

const (
	readVerbs  = "get list watch"
	writeVerbs = "create delete deletecollection patch update"
	allVerbs   = "create delete deletecollection get list patch update watch"

	aggregateTo = "rbac.authorization.k8s.io/aggregate-to-" // and the name of the role
)

// bootstrapRoles are the ClusterRoles of every cluster that users and clients rely on. Each
// rule is "verbs: groups: resources" or "verbs: URLs".
var bootstrapRoles = []struct {
	name   string
	groups string // that the role is bound to
	into   string // aggregated ClusterRole that selects it
	gather bool   // aggregates the roles whose into is its name
	rules  []string
}{
	{name: "cluster-admin", groups: masters, rules: []string{"*: *: *", "*: *"}},
	{name: "system:discovery", groups: authenticated, rules: []string{"get: /api /api/* /apis /apis/* /healthz /livez /openapi /openapi/* /readyz /version /version/"}},
	{name: "system:public-info-viewer", groups: authenticated + " " + unauthenticated, rules: []string{"get: /healthz /livez /readyz /version /version/"}},
	{name: "system:basic-user", groups: authenticated, rules: []string{
		"create: authorization.k8s.io: selfsubjectaccessreviews selfsubjectrulesreviews",
		"create: authentication.k8s.io: selfsubjectreviews",
	}},
	{name: "admin", gather: true},
	{name: "edit", gather: true, into: "admin"},
	{name: "view", gather: true, into: "edit"},
	{name: "system:aggregate-to-admin", into: "admin", rules: []string{
		"create: authorization.k8s.io: localsubjectaccessreviews",
		allVerbs + ": rbac.authorization.k8s.io: rolebindings roles",
	}},
	{name: "system:aggregate-to-edit", into: "edit", rules: []string{
		readVerbs + ": core: pods/attach pods/exec pods/portforward pods/proxy secrets services/proxy",
		"impersonate: core: serviceaccounts",
		writeVerbs + ": core: pods pods/attach pods/exec pods/portforward pods/proxy",
		"create: core: pods/eviction",
		writeVerbs + ": core: configmaps persistentvolumeclaims replicationcontrollers replicationcontrollers/scale secrets serviceaccounts services services/proxy",
		"create: core: serviceaccounts/token",
		writeVerbs + ": core events.k8s.io: events",
		writeVerbs + ": apps: daemonsets deployments deployments/rollback deployments/scale replicasets replicasets/scale statefulsets statefulsets/scale",
		writeVerbs + ": autoscaling: horizontalpodautoscalers",
		writeVerbs + ": batch: cronjobs jobs",
		writeVerbs + ": policy: poddisruptionbudgets",
		writeVerbs + ": networking.k8s.io: ingresses networkpolicies",
		allVerbs + ": coordination.k8s.io: leases",
		writeVerbs + ": resource.k8s.io: resourceclaims resourceclaimtemplates",
	}},
	{name: "system:aggregate-to-view", into: "view", rules: []string{
		readVerbs + ": core: configmaps endpoints persistentvolumeclaims persistentvolumeclaims/status pods replicationcontrollers replicationcontrollers/scale serviceaccounts services services/status",
		readVerbs + ": core: bindings limitranges namespaces/status pods/log pods/status replicationcontrollers/status resourcequotas resourcequotas/status",
		readVerbs + ": core: namespaces",
		readVerbs + ": core events.k8s.io: events",
		readVerbs + ": discovery.k8s.io: endpointslices",
		readVerbs + ": apps: controllerrevisions daemonsets daemonsets/status deployments deployments/scale deployments/status replicasets replicasets/scale replicasets/status statefulsets statefulsets/scale statefulsets/status",
		readVerbs + ": autoscaling: horizontalpodautoscalers horizontalpodautoscalers/status",
		readVerbs + ": batch: cronjobs cronjobs/status jobs jobs/status",
		readVerbs + ": policy: poddisruptionbudgets poddisruptionbudgets/status",
		readVerbs + ": networking.k8s.io: ingresses ingresses/status networkpolicies",
		readVerbs + ": resource.k8s.io: resourceclaims resourceclaims/status resourceclaimtemplates",
	}},
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

// Start prepares the evaluation of rules. It returns the roles and bindings of a new cluster. Without
// aggregates, a role does not have the rules of the roles that it selects.
func (s *Control) Start(aggregates bool) (objects []runtime.Object, err error) {
	for resource, into := range map[string]**kinds.Kind{
		"roles": &s.rbac.roles, "clusterroles": &s.rbac.clusterRoles, "rolebindings": &s.rbac.bindings, "clusterrolebindings": &s.rbac.clusterBindings,
	} {
		if *into, err = s.catalog.Get(rbacv1.SchemeGroupVersion.WithResource(resource)); err != nil {
			return nil, err
		}
	}
	s.rbac.aggregates = aggregates
	for _, b := range bootstrapRoles {
		meta := metav1.ObjectMeta{
			Name: b.name, Labels: map[string]string{"kubernetes.io/bootstrapping": "rbac-defaults"},
			Annotations: map[string]string{rbacv1.AutoUpdateAnnotationKey: "true"},
		}
		role := &rbacv1.ClusterRole{ObjectMeta: *meta.DeepCopy()}
		if b.into != "" {
			role.Labels[aggregateTo+b.into] = "true"
		}
		if b.gather {
			role.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{aggregateTo + b.name: "true"}}}}
		}
		for _, text := range b.rules {
			role.Rules = append(role.Rules, newRule(text))
		}
		objects = append(objects, role)
		if b.groups == "" {
			continue
		}
		binding := &rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: b.name}}
		for group := range strings.FieldsSeq(b.groups) {
			binding.Subjects = append(binding.Subjects, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: group})
		}
		objects = append(objects, binding)
	}
	return objects, nil
}
