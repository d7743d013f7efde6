package tarn_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/wire"
)

// offline is a cluster whose server does not exist.
func offline(t testing.TB) *tarn.Cluster {
	t.Helper()
	return connect(t, tarn.WithConfig(&rest.Config{Host: "https://127.0.0.1:1"}))
}

func TestRBACRulesCoverOpenHandlesOnly(t *testing.T) {
	c := offline(t)
	if rules := c.RBAC(); rules.ClusterRole() != nil || len(rules.Roles()) != 0 || rules.String() != "" {
		t.Errorf("rules for nothing:\n%s", rules)
	}
	must(tarn.MirrorOf[*corev1.Pod](c))
	must(tarn.MirrorOf[*corev1.Pod](c, tarn.InNamespaces("shop"), tarn.Compact())) // covered by the cluster-wide rule
	must(tarn.MirrorOf[*corev1.Node](c))
	must(tarn.MirrorResource(c, wire.Metadata(widgets)))
	must(tarn.MirrorOf[*corev1.ConfigMap](c, tarn.MatchingFields("metadata.name=settings")))
	must(tarn.MirrorOf[*corev1.ConfigMap](c, tarn.MatchingFields("metadata.name=more")))
	must(tarn.MirrorOf[*corev1.Secret](c, tarn.InNamespaces("shop", "bank")))
	must(tarn.MirrorOf[*corev1.Secret](c, tarn.InNamespaces("shop"), tarn.MatchingFields("metadata.name=token"))) // covered by the rule for all of shop
	must(tarn.MirrorOf[*appsv1.Deployment](c, tarn.InNamespaces("shop")))
	must(tarn.MirrorOf[*corev1.Service](c)).Close()

	rules := c.RBAC()
	rules.Name = "shopkeeper"
	const want = `apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: shopkeeper
rules:
- apiGroups:
  - ""
  resources:
  - nodes
  - pods
  verbs:
  - get
  - list
  - watch
- apiGroups:
  - ""
  resourceNames:
  - more
  - settings
  resources:
  - configmaps
  verbs:
  - get
  - list
  - watch
- apiGroups:
  - example.com
  resources:
  - widgets
  verbs:
  - get
  - list
  - watch
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: shopkeeper
  namespace: bank
rules:
- apiGroups:
  - ""
  resources:
  - secrets
  verbs:
  - get
  - list
  - watch
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: shopkeeper
  namespace: shop
rules:
- apiGroups:
  - ""
  resources:
  - secrets
  verbs:
  - get
  - list
  - watch
- apiGroups:
  - apps
  resources:
  - deployments
  verbs:
  - get
  - list
  - watch
`
	if got := rules.String(); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

// demoConfig is for examples that send no requests.
var demoConfig = &rest.Config{Host: "https://127.0.0.1:1"}

func TestRBACRulesWithNamesThatYAMLCannotEncodeDoNotPanic(t *testing.T) {
	rules := tarn.Rules{Name: "r", Cluster: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods\x7f"}}}}
	if text := rules.String(); !strings.Contains(text, "cannot be written as YAML") {
		t.Errorf("%q", text)
	}
}

func TestE03_AClientIsLimitedToItsVerbs(t *testing.T) {
	c := offline(t)
	pods := must(tarn.MirrorOf[*corev1.Pod](c))
	first, second := pods.Client("create", "patch/status"), pods.Client("delete", "update/finalizers")
	secrets := must(tarn.MirrorOf[*corev1.Secret](c, tarn.InNamespaces("shop")))
	secrets.Client("update")
	got := c.RBAC()
	want := tarn.Rules{Name: "tarn", Cluster: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "list", "watch", "create", "delete"}},
		{APIGroups: []string{""}, Resources: []string{"pods/finalizers"}, Verbs: []string{"update"}},
		{APIGroups: []string{""}, Resources: []string{"pods/status"}, Verbs: []string{"patch"}},
	}, Namespaces: map[string][]rbacv1.PolicyRule{"shop": {
		{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get", "list", "watch", "update"}},
	}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%v\nwant\n%v", got, want)
	}

	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", ResourceVersion: "1"}}
	key := tarn.Key{Namespace: "shop", Name: "web"}
	changed := pod.DeepCopy()
	changed.Labels, changed.Status.Phase = map[string]string{"a": "b"}, corev1.PodRunning
	for verb, write := range map[string]func(opts ...tarn.WriteOption) error{
		"create": func(opts ...tarn.WriteOption) error { _, err := second.Create(t.Context(), pod, opts...); return err },
		"update": func(opts ...tarn.WriteOption) error { _, err := first.Update(t.Context(), pod, opts...); return err },
		"patch": func(opts ...tarn.WriteOption) error {
			_, err := first.PatchFrom(t.Context(), pod, changed, opts...)
			return err
		},
		"delete": func(opts ...tarn.WriteOption) error { return first.Delete(t.Context(), key, opts...) },
		"update/status": func(opts ...tarn.WriteOption) error {
			_, err := first.UpdateStatus(t.Context(), pod, opts...)
			return err
		},
		"patch/status": func(opts ...tarn.WriteOption) error {
			_, err := second.ApplyStatus(t.Context(), changed, opts...)
			return err
		},
		"update/finalizers": func(...tarn.WriteOption) error { return first.SetOwner(&corev1.Secret{}, pod) },
	} {
		for _, opts := range [][]tarn.WriteOption{nil, {tarn.DryRun()}} {
			if err := write(opts...); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("add %q to the call of Mirror.Client", verb)) {
				t.Errorf("%s: %v", verb, err)
			}
		}
	}
	if err := second.SetOwner(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop"}}, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "1"}}); err != nil {
		t.Error(err)
	}
	defer func() {
		if recover() == nil {
			t.Error("an unknown verb was accepted")
		}
	}()
	pods.Client("get")
}
