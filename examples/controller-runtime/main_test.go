package main

import (
	"context"
	"iter"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/apiserver"
)

// The manager creates the policy of a new namespace, creates it again when a user deletes it,
// and corrects it when a user changes it.
func TestEachNamespaceHasItsPolicy(t *testing.T) {
	server := apiserver.Start(t, apiserver.Options{Seed: 1})
	mgr, err := newManager(server.Config(), ctrl.Options{Metrics: metricsserver.Options{BindAddress: "0"}, Logger: logr.Discard()})
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := tarn.Connect(tarn.WithConfig(server.Config()))
	if err != nil {
		t.Fatal(err)
	}
	policies, err := tarn.MirrorOf[*networkingv1.NetworkPolicy](cluster, tarn.InNamespaces("shop"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 2)
	go func() { done <- mgr.Start(ctx) }()
	go func() { done <- cluster.Run(ctx) }()
	events, end := iter.Pull(policies.Events(ctx))
	until := func(holds func(*networkingv1.NetworkPolicy) bool) *networkingv1.NetworkPolicy {
		for {
			event, ok := events()
			if !ok {
				t.Fatal("the events ended")
			}
			if policy := event.New(); holds(policy) {
				return policy
			}
		}
	}

	if _, err := server.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}); err != nil {
		t.Fatal(err)
	}
	created := until(func(*networkingv1.NetworkPolicy) bool { return true })
	if err := server.Delete(created); err != nil {
		t.Fatal(err)
	}
	recreated := until(func(p *networkingv1.NetworkPolicy) bool { return p.UID != created.UID })
	changed := recreated.DeepCopy()
	changed.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{{}}
	if _, err := server.Update(changed); err != nil {
		t.Fatal(err)
	}
	until(func(p *networkingv1.NetworkPolicy) bool {
		return p.ResourceVersion != recreated.ResourceVersion && len(p.Spec.Ingress) == 0
	})

	stop()
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	end()
}

// The same wherever the manager crashes, and with a cache that is behind.
func TestEachNamespaceHasItsPolicyAfterACrash(t *testing.T) {
	opts := apiserver.ExploreOptions{StaleCache: 2 * time.Second, SameState: true}
	apiserver.Explore(t, opts, func(t testing.TB, server *apiserver.Server) {
		server.Supervise(t, func(ctx context.Context, cfg *rest.Config) error {
			mgr, err := newManager(cfg, ctrl.Options{
				Metrics: metricsserver.Options{BindAddress: "0"}, Logger: logr.Discard(),
				Controller: config.Controller{SkipNameValidation: new(true)}, // it starts several times in one process
			})
			if err != nil {
				return err
			}
			return mgr.Start(ctx)
		})
		if _, err := server.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}); err != nil {
			t.Fatal(err)
		}
		if err := server.WaitIdle(t.Context(), time.Minute); err != nil {
			t.Fatal(err)
		}
		if _, err := server.Get(networkingv1.SchemeGroupVersion.WithResource("networkpolicies"), tarn.Key{Namespace: "shop", Name: "deny-ingress"}); err != nil {
			t.Error(err)
		}
	})
}
