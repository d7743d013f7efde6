package informer_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/internal/sim/simtest"
	"github.com/tarnproject/tarn/object"
)

var keyA = object.RawKey("shop/a")

// deleting is an edit: the pod has a deletion time and these finalizers.
func deleting(finalizers ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		now := metav1.Now()
		p.DeletionTimestamp, p.Finalizers = &now, finalizers
	}
}

func labeled(labels map[string]string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Labels = labels }
}

// answer is what a server returns for a write: the pod at a version.
func answer(pod *corev1.Pod, version string, edit ...func(*corev1.Pod)) *corev1.Pod {
	pod = pod.DeepCopy()
	pod.ResourceVersion = version
	for _, f := range edit {
		f(pod)
	}
	return pod
}

func newPod(key, uid string) *corev1.Pod {
	k := object.RawKey(key)
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: k.Namespace, Name: k.Name, UID: object.UID(uid)}}
}

func wrote(t *testing.T, inf *podInformer, pod *corev1.Pod) {
	t.Helper()
	if err := inf.Writes().Wrote(pod); err != nil {
		t.Fatal(err)
	}
}

// read is Get of a reader that does not wait for long.
func read(t *testing.T, inf *podInformer, key object.Key) (*corev1.Pod, bool, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	return inf.Writes().Get(ctx, key)
}

func TestR01_AWriteThatRemovesTheLastFinalizerWaitsForTheDeletion(t *testing.T) {
	simtest.Each(t, func(t *testing.T, via simtest.Via) {
		srv := simtest.Pods()
		srv.Set("shop/a", deleting("example.com/f"))
		inf := newInformer(t, srv.Source(via), podOptions{})
		start(t, inf)
		synctest.Wait()
		srv.Hold(true)
		held := srv.Set("shop/a") // another client's write, just before
		// The server deletes the object, and answers with the version it had.
		srv.Delete("shop/a")
		wrote(t, inf, answer(held, held.ResourceVersion, deleting()))
		if !inf.Writes().Pending(keyA) {
			t.Error("not pending while the cache has the object with its finalizer")
		}
		if pod, ok, err := read(t, inf, keyA); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("read %v, %v, %v", pod, ok, err)
		}
		srv.Hold(false)
		synctest.Wait()
		if _, ok, err := read(t, inf, keyA); ok || err != nil {
			t.Errorf("after the deletion: %v, %v", ok, err)
		}
	})
}

// Pods in their grace period and terminating namespaces stay without finalizers.
func TestR01_AnObjectThatStaysWithoutFinalizersIsNotWaitedFor(t *testing.T) {
	simtest.Each(t, func(t *testing.T, via simtest.Via) {
		srv := simtest.Pods()
		srv.Set("shop/a", deleting("example.com/f"))
		inf := newInformer(t, srv.Source(via), podOptions{})
		start(t, inf)
		synctest.Wait()
		wrote(t, inf, srv.Set("shop/a", deleting()))
		synctest.Wait()
		if pod, ok, err := read(t, inf, keyA); !ok || err != nil || len(pod.Finalizers) > 0 {
			t.Errorf("%v, %v, %v", pod, ok, err)
		}
		// A write that changes nothing is answered with the version that there is.
		held, _ := inf.Get(keyA)
		wrote(t, inf, held)
		if inf.Writes().Pending(keyA) {
			t.Error("a write without a change is pending")
		}
	})
}

func TestR01_ADeletionOfAnObjectThatTheCacheHasNotShownYet(t *testing.T) {
	simtest.Each(t, func(t *testing.T, via simtest.Via) {
		srv := simtest.Pods()
		inf := newInformer(t, srv.Source(via), podOptions{})
		start(t, inf)
		synctest.Wait()
		inf.Writes().Begin(keyA).Deleting(object.Deletion{UID: "u101"})
		if inf.Writes().Pending(keyA) {
			t.Error("pending while there is nothing to see")
		}
		srv.Set("shop/a") // its UID is u101
		synctest.Wait()
		if !inf.Writes().Pending(keyA) {
			t.Error("the object of before the deletion counts as current")
		}
		srv.Delete("shop/a")
		synctest.Wait()
		if inf.Writes().Pending(keyA) || inf.Status().PendingWrites != 0 {
			t.Error("still pending")
		}
	})
}

var errBad = errors.New("the transform does not like it")

func picky(p *corev1.Pod) (*corev1.Pod, error) {
	if p.Labels["bad"] != "" {
		return nil, errBad
	}
	return p, nil
}

func TestR02_AWrittenObjectInQuarantineIsNotReadAsTheOlderOne(t *testing.T) {
	simtest.Each(t, func(t *testing.T, via simtest.Via) {
		srv := simtest.Pods("shop/a")
		inf := newInformer(t, srv.Source(via), podOptions{Transform: picky})
		start(t, inf)
		synctest.Wait()
		bad := labeled(map[string]string{"bad": "1"})
		for _, key := range []string{"shop/a", "shop/new"} { // updated, created
			pod := srv.Set(key, bad)
			wrote(t, inf, pod)
			synctest.Wait()
			for range 2 { // it is not forgotten by the first read
				got, ok, err := read(t, inf, simtest.KeyOf(pod))
				var q *informer.QuarantinedError
				if !errors.As(err, &q) || !errors.Is(err, errBad) || q.Key != simtest.KeyOf(pod) || q.Version != object.Version(pod.ResourceVersion) {
					t.Errorf("%s: %v, %v, %v", key, got, ok, err)
				}
				if pending, err := inf.Writes().Check(simtest.KeyOf(pod)); pending || !errors.Is(err, errBad) {
					t.Errorf("%s: Check: %v, %v", key, pending, err)
				}
			}
			srv.Set(key, labeled(nil))
			synctest.Wait()
			if _, ok, err := read(t, inf, simtest.KeyOf(pod)); !ok || err != nil {
				t.Errorf("%s: after a good version: %v, %v", key, ok, err)
			}
		}
	})
}

func TestR02_AWriteOutsideTheSelectionBlocksNoReaderAndReadsSaySo(t *testing.T) {
	for name, sel := range map[string]object.Selection{
		"labels":    {Labels: "app=web"},
		"namespace": {Namespace: "store"},
		"name":      {Fields: "metadata.name=b,status.phase=Running"},
	} {
		t.Run(name, func(t *testing.T) {
			simtest.Each(t, func(t *testing.T, via simtest.Via) {
				srv := simtest.Pods()
				inf := newInformer(t, srv.Source(via), podOptions{Selection: sel})
				start(t, inf)
				synctest.Wait()
				wrote(t, inf, answer(newPod("shop/a", "u9"), "101"))
				if inf.Writes().Pending(keyA) {
					t.Error("pending")
				}
				begin := time.Now()
				if _, ok, err := read(t, inf, keyA); ok || !errors.Is(err, informer.ErrNotCovered) {
					t.Errorf("%v, %v", ok, err)
				}
				if snap, err := inf.Writes().Snapshot(t.Context()); err != nil {
					t.Error(err)
				} else {
					snap.Release()
				}
				simtest.Want(t, "waited", time.Since(begin), 0)
				srv.Bookmark()
				synctest.Wait()
				if _, ok, err := read(t, inf, keyA); ok || err != nil {
					t.Errorf("once the cache has reached the version: %v, %v", ok, err)
				}
			})
		})
	}
}

func TestR02_AWriteThatLeavesTheSelectionWaitsForItsRemoval(t *testing.T) {
	simtest.Each(t, func(t *testing.T, via simtest.Via) {
		srv := simtest.Pods()
		held := srv.Set("shop/a", labeled(map[string]string{"app": "web"}))
		inf := newInformer(t, srv.Source(via), podOptions{Selection: object.Selection{Labels: "app=web"}})
		start(t, inf)
		synctest.Wait()
		wrote(t, inf, answer(held, "102", labeled(nil)))
		if !inf.Writes().Pending(keyA) {
			t.Error("not pending")
		}
		srv.Delete("shop/a") // which is how a selection reports it
		synctest.Wait()
		if _, ok, err := read(t, inf, keyA); ok || err != nil {
			t.Errorf("%v, %v", ok, err)
		}
		// The event may be quicker than the answer.
		held = srv.Set("shop/a", labeled(map[string]string{"app": "web"}))
		synctest.Wait()
		b := inf.Writes().Begin(keyA)
		left := srv.Delete("shop/a")
		synctest.Wait()
		if err := b.Wrote(answer(held, left.ResourceVersion, labeled(nil))); err != nil {
			t.Fatal(err)
		}
		if pending, err := inf.Writes().Check(keyA); pending || err != nil {
			t.Errorf("%v, %v", pending, err)
		}
	})
}

func TestR02_WhatCannotBeEvaluatedIsWaitedFor(t *testing.T) {
	simtest.Each(t, func(t *testing.T, via simtest.Via) {
		srv := simtest.Pods()
		inf := newInformer(t, srv.Source(via), podOptions{Selection: object.Selection{Fields: "status.phase=Running"}})
		start(t, inf)
		synctest.Wait()
		wrote(t, inf, answer(newPod("shop/a", "u9"), "101"))
		if !inf.Writes().Pending(keyA) {
			t.Error("not pending")
		}
		srv.Bookmark()
		synctest.Wait()
		if inf.Writes().Pending(keyA) {
			t.Error("pending though the cache has reached the version")
		}
	})
}
