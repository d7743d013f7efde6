package main

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/controllerruntime/managertest"
	"github.com/tarnproject/tarn/tarntest"
)

// The manager creates the policy of a new namespace, creates it again when a user deletes it,
// and corrects it when a user changes it.
func TestEachNamespaceHasItsPolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := managertest.Start(t, managertest.Options{Manager: newManager})
		created := createNamespace(t, env)
		if err := env.Client().Delete(t.Context(), created); err != nil {
			t.Fatal(err)
		}
		changed := policyAfter(t, env, time.Minute)
		if changed.UID == created.UID {
			t.Error("the policy was not deleted")
		}
		changed.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{{}}
		if err := env.Client().Update(t.Context(), changed); err != nil {
			t.Fatal(err)
		}
		if got := policyAfter(t, env, time.Minute); len(got.Spec.Ingress) > 0 {
			t.Error("the change of the policy is still there")
		}
	})
}

// The same wherever the manager crashes, and with a cache that is behind.
func TestEachNamespaceHasItsPolicyAfterACrash(t *testing.T) {
	opts := apiserver.ExploreOptions{StaleCache: 2 * time.Second, SameState: true}
	apiserver.Explore(t, opts, func(t testing.TB, server *apiserver.Server) {
		createNamespace(t, managertest.Start(t, managertest.Options{Manager: newManager, Env: tarntest.Options{On: server}}))
	})
}

// createNamespace acts as a user, and returns the policy that the manager creates.
func createNamespace(t testing.TB, env *managertest.Env) *networkingv1.NetworkPolicy {
	t.Helper()
	if err := env.Client().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}); err != nil {
		t.Fatal(err)
	}
	return policyAfter(t, env, time.Minute)
}

// policyAfter reads the policy after some virtual time.
func policyAfter(t testing.TB, env *managertest.Env, d time.Duration) *networkingv1.NetworkPolicy {
	t.Helper()
	<-time.After(d)
	got := &networkingv1.NetworkPolicy{}
	if err := env.Client().Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "deny-ingress"}, got); err != nil {
		t.Fatal(err)
	}
	return got
}
