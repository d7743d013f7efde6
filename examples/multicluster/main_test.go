package main

import (
	"bytes"
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/apiserver"
)

// A pod is scheduled in time in one cluster and not in the other, which does not answer at first.
func TestPendingPodsOfAllClustersArePrinted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		fleet, err := newFleet(&out)
		if err != nil {
			t.Fatal(err)
		}
		servers := map[string]*apiserver.Server{}
		for _, name := range []string{"eu", "us"} {
			srv := apiserver.Start(t, apiserver.Options{AnyNamespace: true, Seed: 1})
			servers[name] = srv
			if _, err := srv.Create(pod(corev1.PodPending)); err != nil {
				t.Fatal(err)
			}
			cluster, err := tarn.Connect(tarn.WithConfig(srv.MemoryConfig()), tarn.WithLogger(slog.New(slog.DiscardHandler)))
			if err != nil {
				t.Fatal(err)
			}
			if err := fleet.Add(name, cluster); err != nil {
				t.Fatal(err)
			}
		}
		answer, err := servers["us"].Inject(apiserver.Fault{Kind: apiserver.Refuse})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- fleet.Run(ctx) }()

		<-time.After(4 * time.Minute)
		if _, err := servers["eu"].Update(pod(corev1.PodRunning)); err != nil {
			t.Fatal(err)
		}
		answer()
		<-time.After(4 * time.Minute)
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if got, want := out.String(), "us: pod shop/web has been pending for 5m0s\n"; got != want {
			t.Errorf("printed %q, want %q", got, want)
		}
	})
}

func TestAContextThatDoesNotExistIsAnError(t *testing.T) {
	t.Setenv("KUBECONFIG", t.TempDir()+"/none")
	if err := run(t.Context(), []string{"eu"}); err == nil {
		t.Error("run returned no error")
	}
}

func pod(phase corev1.PodPhase) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Status: corev1.PodStatus{Phase: phase}}
}
