package controllerruntime_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/controllerruntime"
)

// A kind that the server does not serve yet is an error, and works as soon as it is served.
func TestAKindMayAppearLater(t *testing.T) {
	bubble(t, func(t *testing.T, server *apiserver.Server) {
		namespaces(t, server, "shop")
		c := start(t, server, controllerruntime.Options{}, cache.Options{Scheme: widgetScheme(t)})
		key := client.ObjectKey{Namespace: "shop", Name: "a"}
		if err := c.Get(t.Context(), key, &Widget{}); err == nil || !strings.Contains(err.Error(), "no matches for") {
			t.Errorf("before: %v", err)
		}
		if err := server.Define(apiserver.Definition{Resource: widgets}); err != nil {
			t.Fatal(err)
		}
		create(t, server, widget("a", "red"))
		var got Widget
		if err := c.Get(t.Context(), key, &got); err != nil || got.Spec.Colour != "red" {
			t.Errorf("afterwards: %+v, %v", got, err)
		}
	})
}

// Clusters come and go while a program runs. The cache of one ends with its context, and the others go on.
func TestTheCacheOfAClusterEndsAlone(t *testing.T) {
	bubble(t, func(t *testing.T, first *apiserver.Server) {
		second := apiserver.Start(t, apiserver.Options{Seed: 2})
		for _, server := range []*apiserver.Server{first, second} {
			namespaces(t, server, "shop")
			create(t, server, pod("shop", "web", nil))
		}
		stays := events(t, start(t, first, controllerruntime.Options{}, cache.Options{}), &corev1.Pod{})
		added, err := cluster.New(second.Config(), func(o *cluster.Options) { o.NewCache = controllerruntime.NewCache })
		if err != nil {
			t.Fatal(err)
		}
		ctx, leave := context.WithCancel(context.Background())
		ended := goes(func() error { return added.Start(ctx) })
		goes := events(t, added.GetCache(), &corev1.Pod{})
		inf, err := added.GetCache().GetInformer(t.Context(), &corev1.Pod{})
		if err != nil {
			t.Fatal(err)
		}
		leave()
		if err := <-ended; err != nil || !inf.IsStopped() {
			t.Errorf("the cluster that was removed: %v, stopped %v", err, inf.IsStopped())
		}
		for _, server := range []*apiserver.Server{first, second} {
			create(t, server, pod("shop", "late", nil))
		}
		synctest.Wait()
		if len(*stays) != 2 || len(*goes) != 1 {
			t.Errorf("the handlers saw %q and %q", *stays, *goes)
		}
	})
}
