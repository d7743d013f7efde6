package main

import (
	"context"
	"log/slog"
	"os"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/apiserver"
	v1 "github.com/tarnproject/tarn/examples/website/v1"
)

// explored is the cluster of one run, with the site of config/sample.yaml.
type explored struct {
	testing.TB
	server *apiserver.Server
	dns    *fakeDNS
}

var (
	websites    = new(v1.Website).APIResource().GVR()
	deployments = appsv1.SchemeGroupVersion.WithResource("deployments")
	services    = corev1.SchemeGroupVersion.WithResource("services")
)

// explore runs a test once for each write of the operator that is disturbed.
func explore(t *testing.T, opts apiserver.ExploreOptions, test func(e *explored)) {
	opts.Server.CollectGarbage = true
	apiserver.Explore(t, opts, func(t testing.TB, server *apiserver.Server) {
		e := &explored{t, server, &fakeDNS{hosts: map[string]bool{}}}
		if err := server.Load(os.DirFS("config")); err != nil {
			t.Fatal(err)
		}
		server.Supervise(t, func(ctx context.Context, cfg *rest.Config) error {
			cluster, err := tarn.Connect(tarn.WithConfig(cfg), tarn.WithNamespace("website-system"), tarn.WithLeaderElection("website"),
				tarn.WithLogger(slog.New(slog.DiscardHandler)))
			if err != nil {
				return err
			}
			if err := addController(cluster, e.dns); err != nil {
				return err
			}
			return cluster.Run(ctx)
		})
		e.settle()
		test(e)
	})
}

// settle waits until the operator has nothing to do, also after a crash.
func (e *explored) settle() {
	e.Helper()
	if err := e.server.WaitIdle(e.Context(), time.Minute); err != nil {
		e.Fatal(err)
	}
}

// get returns a copy of an object of the site, or nil.
func (e *explored) get(resource schema.GroupVersionResource) runtime.Object {
	e.Helper()
	obj, err := e.server.Get(resource, tarn.Key{Namespace: "default", Name: "shop"})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		e.Fatal(err)
	}
	return obj.DeepCopyObject()
}

func (e *explored) update(obj runtime.Object) {
	e.Helper()
	if _, err := e.server.Update(obj); err != nil {
		e.Fatal(err)
	}
	e.settle()
}

func TestTheSiteIsServedWhereverTheOperatorCrashes(t *testing.T) {
	opts := apiserver.ExploreOptions{
		Faults:     []apiserver.FaultKind{apiserver.KillBefore, apiserver.KillAfter, apiserver.Conflict, apiserver.WebhookDown},
		StaleCache: 2 * time.Second,
		SameState:  true,
	}
	explore(t, opts, func(e *explored) {
		deployment, ok := e.get(deployments).(*appsv1.Deployment)
		if !ok {
			e.Fatal("there is no deployment")
		}
		deployment.Status.ReadyReplicas = 2 // by the kubelet
		e.update(deployment)
		site := e.get(websites).(*unstructured.Unstructured)
		if err := unstructured.SetNestedField(site.Object, "nginx:2", "spec", "image"); err != nil {
			e.Fatal(err)
		}
		e.update(site)
		if image := e.get(deployments).(*appsv1.Deployment).Spec.Template.Spec.Containers[0].Image; image != "nginx:2" || !e.dns.has("shop.example.com") {
			e.Errorf("image %s; hosts %v", image, e.dns.hosts)
		}
	})
}

func TestTheSiteIsRemovedWhereverTheOperatorCrashes(t *testing.T) {
	explore(t, apiserver.ExploreOptions{Pairs: !testing.Short()}, func(e *explored) {
		if err := e.server.Delete(e.get(websites)); err != nil {
			e.Fatal(err)
		}
		e.settle()
		for _, resource := range []schema.GroupVersionResource{websites, deployments, services} {
			if left := e.get(resource); left != nil {
				e.Errorf("left: %v", left)
			}
		}
		if len(e.dns.hosts) > 0 {
			e.Errorf("hosts: %v", e.dns.hosts)
		}
	})
}
