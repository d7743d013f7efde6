package main

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tarnproject/tarn/apiserver"
	v1 "github.com/tarnproject/tarn/examples/website/v1"
	"github.com/tarnproject/tarn/tarntest"
)

// explore runs a test once for each write of the operator that is disturbed.
func explore(t *testing.T, opts apiserver.ExploreOptions, test func(o *operator)) {
	opts.Server.CollectGarbage = true
	apiserver.Explore(t, opts, func(t testing.TB, server *apiserver.Server) {
		o := start(t, &fakeDNS{}, tarntest.Options{On: server})
		o.settle()
		test(o)
	})
}

// settle waits until the operator has nothing to do, also after a crash.
func (o *operator) settle() {
	o.Helper()
	if err := o.Server.WaitIdle(o.Context(), time.Minute); err != nil {
		o.Fatal(err)
	}
}

func TestTheSiteIsServedWhereverTheOperatorCrashes(t *testing.T) {
	opts := apiserver.ExploreOptions{
		Faults:     []apiserver.FaultKind{apiserver.KillBefore, apiserver.KillAfter, apiserver.Conflict, apiserver.WebhookDown},
		StaleCache: 2 * time.Second,
		SameState:  true,
	}
	explore(t, opts, func(o *operator) {
		o.kubelet()
		o.settle()
		o.setImage("nginx:2")
		o.settle()
		if !o.deployed("nginx:2")() {
			o.Errorf("it has %v; hosts %v", get[*appsv1.Deployment](o, childrenKey).Spec, o.dns.hosts)
		}
	})
}

func TestTheSiteIsRemovedWhereverTheOperatorCrashes(t *testing.T) {
	explore(t, apiserver.ExploreOptions{Pairs: !testing.Short()}, func(o *operator) {
		o.delete(get[*v1.Website](o, sampleKey))
		o.settle()
		if _, err := tarntest.Get[*appsv1.Deployment](o.Env, childrenKey); !apierrors.IsNotFound(err) {
			o.Errorf("deployment: %v", err)
		}
		if _, err := tarntest.Get[*corev1.Service](o.Env, childrenKey); !apierrors.IsNotFound(err) {
			o.Errorf("service: %v", err)
		}
		if !o.removed() {
			o.Errorf("hosts: %v", o.dns.hosts)
		}
	})
}
