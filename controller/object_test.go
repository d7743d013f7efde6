package controller_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/internal/sim/simtest"
	"github.com/tarnproject/tarn/object"
)

func TestAFinalizerIsAddedAndRemovedOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := controller.Finalizer("example.com/f")
		others := rapid.SliceOfDistinct(rapid.StringMatching(`[a-z]{1,3}/x`), rapid.ID[string]).Draw(t, "others")
		shared := append(slices.Clone(others), "room")[:len(others)]
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Finalizers: shared}}
		if f.On(pod) || f.Remove(pod) || !f.Add(pod) || !f.On(pod) || f.Add(pod) {
			t.Fatal("adding")
		}
		if shared[:len(shared)+1][len(others)] != "room" {
			t.Fatal("the array of the old list was written to")
		}
		if !f.Remove(pod) || f.On(pod) || !slices.Equal(pod.Finalizers, others) {
			t.Fatal("removing", pod.Finalizers)
		}
	})
}

func TestFinalizeAddsCleansUpAndRemoves(t *testing.T) {
	const f = controller.Finalizer("example.com/f")
	srv := simtest.Pods("shop/web")
	var cleaned int
	var fails error
	finalize := func() (*corev1.Pod, bool, error) {
		pod := srv.Get("shop/web")
		before := pod.DeepCopy()
		now, gone, err := controller.Finalize(t.Context(), replace(srv), pod, f, func(context.Context, *corev1.Pod) error {
			cleaned++
			return fails
		})
		simtest.Want(t, "the object that was passed", pod, before)
		return now, gone, err
	}
	for range 2 { // the second call has nothing to do
		now, gone, err := finalize()
		if gone || err != nil || !f.On(now) || now.ResourceVersion != "102" {
			t.Fatal(now, gone, err)
		}
	}
	deleteAsUser(srv, "shop/web")
	fails = errOops
	if _, gone, err := finalize(); !gone || !errors.Is(err, errOops) {
		t.Fatal(gone, err)
	}
	if srv.Get("shop/web") == nil {
		t.Fatal("it went without having been cleaned up")
	}
	fails = nil
	if _, gone, err := finalize(); !gone || err != nil || cleaned != 2 {
		t.Fatal(gone, err, cleaned)
	}
	if srv.Get("shop/web") != nil {
		t.Fatal("it is still there")
	}
	// Another client added it first.
	now := metav1.Now()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "x", Finalizers: []string{string(f)}, DeletionTimestamp: &now}}
	if _, gone, err := controller.Finalize(t.Context(), replace(srv), pod, f, func(context.Context, *corev1.Pod) error { return nil }); !gone || err != nil {
		t.Fatal(gone, err)
	}
	// Being deleted, without our finalizer.
	pod.Finalizers = []string{"other/f"}
	if _, gone, err := controller.Finalize(t.Context(), replace(srv), pod, f, func(context.Context, *corev1.Pod) error { panic("called") }); !gone || err != nil {
		t.Fatal(gone, err)
	}
}

func TestSetOwner(t *testing.T) {
	cmType := object.Resource{Version: "v1", Resource: "configmaps", Kind: "ConfigMap", Namespaced: true}
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "o", UID: "u-1"}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "p"}}
	if _, ok := controller.OwnerOf(pod); ok {
		t.Error("an owner out of nowhere")
	}
	for range 2 { // the second call changes nothing
		if err := controller.SetOwner(pod, owner, cmType); err != nil {
			t.Fatal(err)
		}
	}
	ref, ok := controller.OwnerOf(pod)
	if !ok || len(pod.OwnerReferences) != 1 || ref.Kind != "ConfigMap" || ref.APIVersion != "v1" || ref.UID != "u-1" || !*ref.Controller {
		t.Errorf("%+v", pod.OwnerReferences)
	}
	var owned *controller.OwnedError
	other := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "x", UID: "u-2"}}
	if err := controller.SetOwner(pod, other, cmType); !errors.As(err, &owned) || owned.Owner.UID != "u-1" || owned.Key.Name != "p" {
		t.Error(err)
	}
	for what, o := range map[string]*corev1.ConfigMap{
		"no UID":            {ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "x"}},
		"another namespace": {ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "x", UID: "u-3"}},
	} {
		if err := controller.SetOwner(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop"}}, o, cmType); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
	if err := controller.SetOwner(pod, owner, object.Resource{}); err == nil {
		t.Error("a resource without a kind: no error")
	}
}
