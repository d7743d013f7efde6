package main

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarnproject/tarn/apiserver"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// The embedded API server is tested here, too, with the clients that its own folder may
// not import.

// streamed counts the requests for streaming lists.
type streamed struct {
	slog.Handler
	n atomic.Int32
}

func (s *streamed) Enabled(context.Context, slog.Level) bool { return true }

func (s *streamed) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if strings.Contains(a.Value.String(), "sendInitialEvents=true") {
			s.n.Add(1)
		}
		return true
	})
	return nil
}

func labelled(name, value string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"n": value}}}
}

func TestClientGoInformersMirrorTheEmbeddedServer(t *testing.T) {
	requests := &streamed{Handler: slog.DiscardHandler}
	s := apiserver.Start(t, apiserver.Options{Logger: slog.New(requests)})
	if _, err := s.Create(labelled("a", "0")); err != nil {
		t.Fatal(err)
	}
	clients, err := kubernetes.NewForConfig(s.Config())
	if err != nil {
		t.Fatal(err)
	}
	factory := informers.NewSharedInformerFactory(clients, 0)
	defer factory.Shutdown()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	seen := make(chan string, 100)
	inf := factory.Core().V1().Pods()
	if _, err := inf.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { seen <- "add " + obj.(*corev1.Pod).Name },
		UpdateFunc: func(_, obj any) { seen <- "update " + obj.(*corev1.Pod).Labels["n"] },
		DeleteFunc: func(obj any) {
			if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = gone.Obj
			}
			seen <- "delete " + obj.(*corev1.Pod).Name
		},
	}); err != nil {
		t.Fatal(err)
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), inf.Informer().HasSynced) {
		t.Fatal("not synced")
	}
	expect := func(want string) {
		t.Helper()
		select {
		case got := <-seen:
			if got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%s did not come", want)
		}
	}
	expect("add a")
	if requests.n.Load() == 0 {
		t.Error("client-go did not ask for a streaming list")
	}
	if _, err := s.Update(labelled("a", "1")); err != nil {
		t.Fatal(err)
	}
	expect("update 1")
	// What happens while the watch is down, and forgotten, is found by a relist.
	s.Cut("pods")
	if _, err := s.Create(labelled("b", "0")); err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(labelled("a", "")); err != nil {
		t.Fatal(err)
	}
	s.Compact(0)
	got := map[string]bool{}
	for range 2 {
		select {
		case what := <-seen:
			got[what] = true
		case <-time.After(time.Minute):
			t.Fatalf("only %v came", got)
		}
	}
	if !got["add b"] || !got["delete a"] {
		t.Errorf("got %v", got)
	}
}

func TestControllerRuntimesManagerWorksWithTheEmbeddedServer(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{})
	again := true // the test may run more than once in a process
	mgr, err := ctrl.NewManager(s.Config(), ctrl.Options{
		Metrics: metricsserver.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: &again},
	})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan string, 10)
	err = ctrl.NewControllerManagedBy(mgr).For(&corev1.Pod{}).Complete(reconciler(func(ctx context.Context, req ctrl.Request) error {
		var pod corev1.Pod
		if err := mgr.GetClient().Get(ctx, req.NamespacedName, &pod); err != nil {
			return client.IgnoreNotFound(err)
		}
		if pod.Labels["seen"] == "yes" {
			done <- pod.Name
			return nil
		}
		before := pod.DeepCopy()
		pod.Labels["seen"] = "yes"
		return mgr.GetClient().Patch(ctx, &pod, client.MergeFrom(before))
	}))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- mgr.Start(ctx) }()
	if _, err := s.Create(labelled("a", "0")); err != nil {
		t.Fatal(err)
	}
	select {
	case name := <-done:
		if name != "a" {
			t.Errorf("got %s", name)
		}
	case <-time.After(time.Minute):
		t.Error("the controller did not see its own patch")
	}
	cancel()
	if err := <-ran; err != nil {
		t.Error(err)
	}
}

type reconciler func(context.Context, ctrl.Request) error

func (r reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	return ctrl.Result{}, r(ctx, req)
}
