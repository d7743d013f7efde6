package apiserver_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/tarnproject/tarn/apiserver"
)

func mustCreate(t *testing.T, s *apiserver.Server, objects ...runtime.Object) {
	t.Helper()
	for _, obj := range objects {
		if _, err := s.Create(obj); err != nil {
			t.Fatal(err)
		}
	}
}

func rule(verbs, groups, resources string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: strings.Fields(verbs), APIGroups: strings.Split(groups, ","), Resources: strings.Fields(resources), ResourceNames: names}
}

func clusterRole(name string, rules ...rbacv1.PolicyRule) *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}
}

func clusterBinding(role string, subjects ...rbacv1.Subject) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role}, Subjects: subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
	}
}

func binding(namespace, kind, role string, subjects ...rbacv1.Subject) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: role}, Subjects: subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: role},
	}
}

func subject(kind, name string) rbacv1.Subject {
	s := rbacv1.Subject{Kind: kind, Name: name}
	if kind == "ServiceAccount" {
		s.Namespace, s.Name, _ = strings.Cut(name, "/")
	}
	return s
}

// What a user may do is what the rules of the bindings allow, and nothing else.
func TestRulesAreEvaluated(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{RBAC: true})
	aggregated := clusterRole("aggregated")
	aggregated.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{"to": "aggregated"}}}}
	part := clusterRole("part", rule("get", "apps", "deployments"))
	part.Labels = map[string]string{"to": "aggregated"}
	mustCreate(t, s,
		clusterRole("wide", rule("get list", ",apps", "pods deployments/status"), rule("*", "example.com", "*"), rule("update", "", "*/scale"),
			rbacv1.PolicyRule{Verbs: []string{"get"}, NonResourceURLs: []string{"/metrics", "/logs/*"}}),
		clusterBinding("wide", subject("User", "ann"), subject("Group", "team"), subject("ServiceAccount", "default/robot")),
		clusterRole("named", rule("get update watch", "", "configmaps", "one", "two")),
		clusterBinding("named", subject("User", "ann")),
		&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "local"}, Rules: []rbacv1.PolicyRule{rule("get", "", "secrets namespaces")}},
		binding("default", "Role", "local", subject("User", "ann")),
		binding("kube-system", "ClusterRole", "wide", subject("User", "bob")),
		aggregated, part, clusterBinding("aggregated", subject("Group", "system:serviceaccounts:default")),
		clusterBinding("absent", subject("User", "cas")),
		binding("default", "ClusterRole", "view", subject("Group", "viewers")), binding("default", "ClusterRole", "admin", subject("Group", "admins")),
	)
	for _, test := range []struct {
		user, groups, verb, what string // what is namespace:group/resource/subresource/name or a path
		want                     string // reason, or "" if it is denied
	}{
		{"ann", "", "get", ":/pods", `RBAC: allowed by ClusterRoleBinding "wide" of ClusterRole "wide" to User "ann"`},
		{"ann", "", "list", "default:/pods", "wide"},
		{"ann", "", "watch", ":/pods", ""},
		{"ann", "", "get", ":apps/pods", "wide"},
		{"ann", "", "get", ":batch/pods", ""},
		{"ann", "", "get", ":/pods/log", ""},
		{"ann", "", "get", ":apps/deployments/status", "wide"},
		{"ann", "", "get", ":apps/deployments", ""},
		{"ann", "", "escalate", "x:example.com/any/sub/name", "wide"},
		{"ann", "", "update", ":/replicationcontrollers/scale", "wide"},
		{"ann", "", "update", ":/scale", ""},
		{"ann", "", "get", "/metrics", "wide"},
		{"ann", "", "get", "/metrics/x", ""},
		{"ann", "", "get", "/logs/x/y", "wide"},
		{"ann", "", "post", "/metrics", ""},
		{"ann", "", "get", "/version", "system:discovery"},
		{"ann", "", "get", "default:/configmaps//two", "named"},
		{"ann", "", "get", "default:/configmaps//three", ""},
		{"ann", "", "get", "default:/configmaps", ""},
		{"ann", "", "get", "default:/secrets//x", `RBAC: allowed by RoleBinding "local/default" of Role "local" to User "ann"`},
		{"ann", "", "get", "other:/secrets//x", ""},
		{"ann", "", "get", ":/secrets//x", ""},
		{"eve", "team other", "list", ":/pods", `to Group "team"`},
		{"eve", "other", "list", ":/pods", ""},
		{"bob", "", "list", "kube-system:/pods", `RBAC: allowed by RoleBinding "wide/kube-system" of ClusterRole "wide" to User "bob"`},
		{"bob", "", "list", ":/pods", ""},
		{"bob", "", "get", "/metrics", ""},
		{"system:serviceaccount:default:robot", "", "list", ":/pods", `to ServiceAccount "robot/default"`},
		{"system:serviceaccount:other:robot", "", "list", ":/pods", ""},
		{"x", "system:serviceaccounts:default", "get", ":apps/deployments", "aggregated"},
		{"x", "viewers", "get", "default:apps/deployments", "RoleBinding \"view/default\""},
		{"x", "viewers", "create", "default:apps/deployments", ""},
		{"x", "viewers", "get", "default:/secrets", ""},
		{"x", "admins", "create", "default:rbac.authorization.k8s.io/roles", "admin"},
		{"x", "admins", "get", "default:/pods/log", "admin"},
		{"x", "system:masters", "anything", ":/pods", "masters"},
	} {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: test.user, Groups: strings.Fields(test.groups + " system:authenticated")}}
		if strings.HasPrefix(test.what, "/") {
			review.Spec.NonResourceAttributes = &authorizationv1.NonResourceAttributes{Verb: test.verb, Path: test.what}
		} else {
			namespace, rest, _ := strings.Cut(test.what, ":")
			parts := append(strings.Split(rest, "/"), "", "")
			review.Spec.ResourceAttributes = &authorizationv1.ResourceAttributes{
				Verb: test.verb, Namespace: namespace, Group: parts[0], Resource: parts[1], Subresource: parts[2], Name: parts[3],
			}
		}
		got, err := clientsetOf(t, s.Config()).AuthorizationV1().SubjectAccessReviews().Create(t.Context(), review, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if want := strings.TrimPrefix(test.want, "masters"); got.Status.Allowed != (test.want != "") || got.Status.Allowed && !strings.Contains(got.Status.Reason, want) {
			t.Errorf("%+v: %+v", test, got.Status)
		}
	}
	_, err := clientsetOf(t, s.ConfigFor("cas")).CoreV1().Pods("default").Get(t.Context(), "web", metav1.GetOptions{})
	const want = `pods "web" is forbidden: User "cas" cannot get resource "pods" in API group "" in the namespace "default": RBAC: clusterrole.rbac.authorization.k8s.io "absent" not found`
	if err == nil || err.Error() != want {
		t.Errorf("err = %v, want %s", err, want)
	}
}

// A change of a role or binding applies to the next request, and a watch that is open
// continues.
func TestRulesApplyFromTheNextRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := apiserver.Start(t, apiserver.Options{RBAC: true})
		maps := clientsetOf(t, s.ConfigFor("ann")).CoreV1().ConfigMaps("default")
		list := func() bool {
			_, err := maps.List(t.Context(), metav1.ListOptions{})
			if err != nil && !apierrors.IsForbidden(err) {
				t.Fatal(err)
			}
			return err == nil
		}
		if list() {
			t.Error("allowed without a role")
		}
		mustCreate(t, s, clusterRole("reader", rule("list watch", "", "configmaps")))
		if list() {
			t.Error("allowed without a binding")
		}
		mustCreate(t, s, clusterBinding("reader", subject("User", "ann")))
		if !list() {
			t.Error("denied with a binding")
		}
		watch, err := maps.Watch(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer watch.Stop()
		before := s.Version()
		if _, err := s.Update(clusterRole("reader", rule("watch", "", "configmaps"))); err != nil {
			t.Fatal(err)
		}
		if list() {
			t.Error("allowed after the rule was removed")
		}
		mustCreate(t, s, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "one"}})
		if ev := <-watch.ResultChan(); ev.Type != "ADDED" {
			t.Errorf("event %+v", ev)
		}
		s.Rewind(int(s.Version() - before))
		if !list() {
			t.Error("denied after the change was undone")
		}
		if got := s.Denied(); len(got) != 1 || got[0] != `User "ann" cannot list resource "configmaps" in API group "" in the namespace "default"` {
			t.Errorf("denied: %q", got)
		}
	})
}

// A user cannot grant what it does not have.
func TestEscalationIsRejected(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{RBAC: true})
	mustCreate(t, s,
		clusterRole("granter", rule("*", rbacv1.GroupName, "roles rolebindings clusterroles clusterrolebindings"), rule("get list", "", "pods pods/log")),
		clusterRole("other", rule("delete", "", "pods")))
	granter := s.ConfigFor("ann")
	// Without escalate and bind, which "*" has.
	if _, err := s.Update(clusterRole("granter", rule("create update patch get", rbacv1.GroupName, "roles rolebindings clusterroles clusterrolebindings"), rule("get list", "", "pods pods/log"))); err != nil {
		t.Fatal(err)
	}
	mustCreate(t, s, clusterBinding("granter", subject("User", "ann")))
	api := clientsetOf(t, granter).RbacV1()
	if _, err := api.ClusterRoles().Create(t.Context(), clusterRole("mine", rule("get", "", "pods")), metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
	_, err := api.ClusterRoles().Create(t.Context(), clusterRole("more", rule("list get delete watch", "", "pods secrets")), metav1.CreateOptions{})
	const want = `clusterroles.rbac.authorization.k8s.io "more" is forbidden: user "ann" (groups=["system:authenticated"]) is attempting to grant RBAC permissions not currently held:
{APIGroups:[""], Resources:["pods"], Verbs:["delete" "watch"]}
{APIGroups:[""], Resources:["secrets"], Verbs:["list" "get" "delete" "watch"]}`
	if err == nil || err.Error() != want {
		t.Errorf("err = %v", err)
	}
	_, denial, _ := strings.Cut(want, " is forbidden: ")
	if denied := s.Denied(); !slices.Equal(denied, []string{denial}) {
		t.Errorf("denied: %q", denied)
	}
	for _, role := range []string{"mine", "other", "absent", "cluster-admin"} {
		_, err := api.RoleBindings("default").Create(t.Context(), binding("default", "ClusterRole", role, subject("User", "eve")), metav1.CreateOptions{})
		if want := role == "mine"; (err == nil) != want {
			t.Errorf("binding of %s: %v", role, err)
		}
	}
	role, err := api.ClusterRoles().Get(t.Context(), "mine", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	role.Rules[0].Verbs = []string{"*"}
	if _, err := api.ClusterRoles().Update(t.Context(), role, metav1.UpdateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("update: %v", err)
	}
	role.Rules, role.AggregationRule = nil, &rbacv1.AggregationRule{}
	if _, err := api.ClusterRoles().Update(t.Context(), role, metav1.UpdateOptions{}); err == nil || !strings.Contains(err.Error(), "must have cluster-admin privileges") {
		t.Errorf("aggregation: %v", err)
	}
	mustCreate(t, s, clusterRole("binder", rule("bind", rbacv1.GroupName, "clusterroles", "other"), rule("escalate", rbacv1.GroupName, "clusterroles")), clusterBinding("binder", subject("User", "ann")))
	if _, err := api.RoleBindings("default").Create(t.Context(), binding("default", "ClusterRole", "other", subject("User", "eve")), metav1.CreateOptions{}); err != nil {
		t.Errorf("with bind: %v", err)
	}
	if _, err := api.ClusterRoles().Update(t.Context(), role, metav1.UpdateOptions{}); err != nil {
		t.Errorf("with escalate: %v", err)
	}
}

// Clients are who their tokens and Impersonate headers say.
func TestUsersAreAuthenticated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := apiserver.Start(t, apiserver.Options{RBAC: true})
		whoami := func(cfg *rest.Config) string {
			r, err := clientsetOf(t, cfg).AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
			if err != nil {
				return err.Error()
			}
			return r.Status.UserInfo.Username + " " + strings.Join(r.Status.UserInfo.Groups, ",")
		}
		expect := func(cfg *rest.Config, want string) {
			t.Helper()
			if got := whoami(cfg); got != want {
				t.Errorf("user %q, want %q", got, want)
			}
		}
		expect(s.Config(), "admin system:masters,system:authenticated")
		expect(s.ConfigFor("ann", "team"), "ann team,system:authenticated")
		none := s.Config()
		none.BearerToken = ""
		expect(none, `selfsubjectreviews.authentication.k8s.io is forbidden: User "system:anonymous" cannot create resource "selfsubjectreviews" in API group "authentication.k8s.io" at the cluster scope`)
		none.BearerToken = s.ConfigFor("ann").BearerToken + "x"
		expect(none, "Unauthorized")

		account, err := s.ServiceAccountConfig("default", "robot")
		if err != nil {
			t.Fatal(err)
		}
		const robot = "system:serviceaccount:default:robot system:serviceaccounts,system:serviceaccounts:default,system:authenticated"
		expect(account, robot)
		seconds := int64(600)
		admin := clientsetOf(t, s.Config())
		request, err := admin.CoreV1().ServiceAccounts("default").CreateToken(t.Context(), "robot",
			&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		short := s.Config()
		short.BearerToken = request.Status.Token
		expect(short, robot)
		if left := time.Until(request.Status.ExpirationTimestamp.Time); left != 10*time.Minute {
			t.Errorf("expires in %v", left)
		}
		<-time.After(12 * time.Minute)
		expect(short, "Unauthorized")
		expect(account, robot)
		if err := s.Delete(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "robot"}}); err != nil {
			t.Fatal(err)
		}
		expect(account, "Unauthorized")

		as := s.Config()
		as.Impersonate = rest.ImpersonationConfig{UserName: "bob", Groups: []string{"team"}}
		expect(as, "bob team,system:authenticated")
		as.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:default:robot"}
		expect(as, robot)
		as = s.ConfigFor("ann")
		as.Impersonate = rest.ImpersonationConfig{UserName: "bob", Groups: []string{"team"}}
		lacking := `selfsubjectreviews.authentication.k8s.io is forbidden: User "ann" cannot impersonate-on:user-info:create resource "selfsubjectreviews" in API group "authentication.k8s.io" at the cluster scope`
		expect(as, lacking)
		mustCreate(t, s, clusterRole("as", rule("impersonate", "", "users", "bob")), clusterBinding("as", subject("User", "ann")))
		expect(as, lacking)
		as.Impersonate.Groups = nil
		expect(as, "bob system:authenticated")

		// Constrained impersonation is limited to some requests.
		const authentication = "authentication.k8s.io"
		as.Impersonate = rest.ImpersonationConfig{UserName: "eve", Groups: []string{"team"}}
		mustCreate(t, s, clusterRole("on", rule("impersonate-on:user-info:create", authentication, "selfsubjectreviews")), clusterBinding("on", subject("User", "ann")))
		expect(as, `users.authentication.k8s.io "eve" is forbidden: User "ann" cannot impersonate:user-info resource "users" in API group "authentication.k8s.io" at the cluster scope`)
		mustCreate(t, s, clusterRole("eve", rule("impersonate:user-info", authentication, "users", "eve"), rule("impersonate:user-info", authentication, "groups")), clusterBinding("eve", subject("User", "ann")))
		expect(as, "eve team,system:authenticated")
		as.Impersonate.Groups = []string{"system:masters"}
		expect(as, `groups.authentication.k8s.io "system:masters" is forbidden: User "ann" cannot impersonate:user-info resource "groups" in API group "authentication.k8s.io" at the cluster scope: impersonating the system:masters group is not allowed`)
		as.Impersonate = rest.ImpersonationConfig{UserName: "system:node:n1"}
		mustCreate(t, s, clusterRole("node", rule("impersonate-on:arbitrary-node:create", authentication, "selfsubjectreviews"), rule("impersonate:arbitrary-node", authentication, "nodes", "n1")), clusterBinding("node", subject("User", "ann")))
		expect(as, "system:node:n1 system:nodes,system:authenticated")
	})
}

// A client that is denied many different things does not fill the memory.
func TestOnlyTheLastDenialsAreKept(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{RBAC: true})
	clients := clientsetOf(t, s.ConfigFor("ann"))
	denial := func(i int) string {
		return fmt.Sprintf(`User "ann" cannot list resource "configmaps" in API group "" in the namespace "n%d"`, i)
	}
	for i := range 1010 {
		if _, err := clients.CoreV1().ConfigMaps(fmt.Sprint("n", i)).List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
			t.Fatal(err)
		}
	}
	got := s.Denied()
	if len(got) != 1000 || got[0] != denial(10) || got[999] != denial(1009) {
		t.Fatalf("%d denials from %q to %q", len(got), got[0], got[len(got)-1])
	}
	if _, err := clients.CoreV1().ConfigMaps("n0").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Fatal(err)
	}
	if got := s.Denied(); len(got) != 1000 || got[999] != denial(0) {
		t.Errorf("%d denials to %q", len(got), got[len(got)-1])
	}
}
