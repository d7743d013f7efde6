package clients

import (
	"context"
	"testing"
	"time"

	"github.com/tarnproject/tarn/e2e/patience"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

func TestTheClientsetReadsAndWrites(t *testing.T) {
	onBoth(t, func(t *testing.T, s server) {
		pods := s.clientset(t).CoreV1().Pods(s.namespace)
		ctx := patience.Context(t)
		made, err := pods.Create(ctx, pod(s.namespace, "a", map[string]string{"n": "0"}), metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if made.UID == "" || made.ResourceVersion == "" || made.CreationTimestamp.IsZero() || made.Status.Phase != corev1.PodPending {
			t.Errorf("created %+v", made)
		}
		if _, err := pods.Create(ctx, pod(s.namespace, "a", nil), metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
			t.Errorf("a second of that name: %v", err)
		}
		w, err := pods.Watch(ctx, metav1.ListOptions{ResourceVersion: made.ResourceVersion})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()

		stale := made.DeepCopy()
		made.Labels["n"] = "1"
		if made, err = pods.Update(ctx, made, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := pods.Update(ctx, stale, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
			t.Errorf("an update of an older version: %v", err)
		}
		made.Status.Phase = corev1.PodRunning
		made.Spec.Containers[0].Image = "example.com/other" // ignored by the status subresource
		if made, err = pods.UpdateStatus(ctx, made, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		if made.Status.Phase != corev1.PodRunning || made.Spec.Containers[0].Image != "example.com/main" {
			t.Errorf("after an update of the status: %s %v", made.Status.Phase, made.Spec)
		}
		patch := []byte(`{"metadata":{"labels":{"n":"2"}}}`)
		if made, err = pods.Patch(ctx, "a", types.StrategicMergePatchType, patch, metav1.PatchOptions{}); err != nil || made.Labels["n"] != "2" {
			t.Errorf("patched: %v, %v", made, err)
		}
		applied, err := pods.Apply(ctx, applycorev1.Pod("a", s.namespace).WithLabels(map[string]string{"owner": "e2e"}), metav1.ApplyOptions{FieldManager: "e2e"})
		if err != nil || applied.Labels["owner"] != "e2e" || applied.Labels["n"] != "2" {
			t.Errorf("applied: %v, %v", applied, err)
		}
		list, err := pods.List(ctx, metav1.ListOptions{LabelSelector: "n=2", FieldSelector: "status.phase=Running"})
		if err != nil || len(list.Items) != 1 {
			t.Errorf("listed: %v, %v", list, err)
		}
		zero := int64(0)
		if err := pods.Delete(ctx, "a", metav1.DeleteOptions{GracePeriodSeconds: &zero}); err != nil {
			t.Fatal(err)
		}
		if _, err := pods.Get(ctx, "a", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("after the deletion: %v", err)
		}
		// The real server marks a pod before it deletes it, also without a grace period.
		for modified := 0; ; {
			select {
			case ev := <-w.ResultChan():
				if ev.Type == watch.Modified {
					modified++
					continue
				}
				if ev.Type != watch.Deleted || modified < 4 || modified > 5 {
					t.Errorf("got %s after %d modifications", ev.Type, modified)
				}
				return
			case <-ctx.Done():
				t.Fatalf("no deletion came, only %d modifications", modified)
			}
		}
	})
}

// widgets is a custom resource definition that asks for nothing special.
func widgets() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "widgets.example.com"},
		"spec": map[string]any{
			"group": "example.com", "scope": "Namespaced",
			"names": map[string]any{"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList", "shortNames": []any{"wd"}},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true,
				"schema":       map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
				"subresources": map[string]any{"status": map[string]any{}},
			}},
		},
	}}
}

var (
	definitionResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	widgetResource     = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
)

// define makes the custom resource for one test and waits until it is served.
func define(t *testing.T, client dynamic.Interface) {
	t.Helper()
	ctx := patience.Context(t)
	if _, err := client.Resource(definitionResource).Create(ctx, widgets(), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience.Limit)
		defer cancel()
		if err := client.Resource(definitionResource).Delete(ctx, "widgets.example.com", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
		// The next test defines it again.
		every(ctx, func() bool {
			_, err := client.Resource(definitionResource).Get(ctx, "widgets.example.com", metav1.GetOptions{})
			return apierrors.IsNotFound(err)
		})
	})
	if !every(ctx, func() bool {
		_, err := client.Resource(widgetResource).List(ctx, metav1.ListOptions{})
		return err == nil
	}) {
		t.Fatal("the custom resource was never served")
	}
}

// every asks again and again until it is answered with yes or the context ends.
func every(ctx context.Context, yes func() bool) bool {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !yes() {
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
	return true
}

func TestTheDynamicClientWorksOnACustomResource(t *testing.T) {
	onBoth(t, func(t *testing.T, s server) {
		client, err := dynamic.NewForConfig(s.config)
		if err != nil {
			t.Fatal(err)
		}
		define(t, client)
		ctx := patience.Context(t)
		widgets := client.Resource(widgetResource).Namespace(s.namespace)
		w, err := widgets.Watch(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
		made, err := widgets.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"generateName": "w-"},
			"spec": map[string]any{"size": int64(1)}, "status": map[string]any{"ready": true},
		}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if _, found := made.Object["status"]; found || made.GetGeneration() != 1 {
			t.Errorf("created with a status, or generation %d", made.GetGeneration())
		}
		patched, err := widgets.Patch(ctx, made.GetName(), types.MergePatchType, []byte(`{"spec":{"size":2}}`), metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if size, _, _ := unstructured.NestedInt64(patched.Object, "spec", "size"); size != 2 || patched.GetGeneration() != 2 {
			t.Errorf("size %d, generation %d", size, patched.GetGeneration())
		}
		if err := widgets.Delete(ctx, made.GetName(), metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		for _, want := range []watch.EventType{watch.Added, watch.Modified, watch.Deleted} {
			select {
			case ev := <-w.ResultChan():
				if ev.Type != want {
					t.Errorf("got %s, want %s", ev.Type, want)
				}
			case <-ctx.Done():
				t.Fatalf("no %s came", want)
			}
		}
	})
}

func TestClientGosInformersMirror(t *testing.T) {
	onBoth(t, func(t *testing.T, s server) {
		clients := s.clientset(t)
		pods := clients.CoreV1().Pods(s.namespace)
		write := patience.Context(t)
		if _, err := pods.Create(write, pod(s.namespace, "a", map[string]string{"n": "0"}), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		factory := informers.NewSharedInformerFactoryWithOptions(clients, 0, informers.WithNamespace(s.namespace))
		defer factory.Shutdown()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		seen := make(chan string, 100)
		inf := factory.Core().V1().Pods()
		if _, err := inf.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(obj any) { seen <- "add " + obj.(*corev1.Pod).Name },
			UpdateFunc: func(_, obj any) { seen <- "update " + obj.(*corev1.Pod).Labels["n"] },
			DeleteFunc: func(obj any) {
				if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
					obj = tombstone.Obj
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
		next := func() string {
			t.Helper()
			select {
			case what := <-seen:
				return what
			case <-time.After(patience.Limit):
				t.Fatal("nothing more came")
				return ""
			}
		}
		if got := next(); got != "add a" {
			t.Errorf("got %s", got)
		}
		if s.streamed.Load() == 0 {
			t.Error("client-go did not ask for a streaming list")
		}
		if _, err := pods.Patch(write, "a", types.MergePatchType, []byte(`{"metadata":{"labels":{"n":"1"}}}`), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		if got := next(); got != "update 1" {
			t.Errorf("got %s", got)
		}
		// What happens while the watch is down, and forgotten, is found by a relist.
		s.missed(t, func(clients *kubernetes.Clientset) {
			pods, zero := clients.CoreV1().Pods(s.namespace), int64(0)
			if _, err := pods.Create(write, pod(s.namespace, "b", nil), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			if err := pods.Delete(write, "a", metav1.DeleteOptions{GracePeriodSeconds: &zero}); err != nil {
				t.Fatal(err)
			}
		})
		got := map[string]bool{next(): true}
		got[next()] = true
		if !got["add b"] || !got["delete a"] {
			t.Errorf("got %v", got)
		}
	})
}
