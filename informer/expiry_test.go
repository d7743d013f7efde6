package informer_test

import (
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/store"
)

// expire deletes pods at one version, as the end of an etcd lease does, and ends all watches
// when they have told of the first few.
func (w *world) expire(told int, keys ...string) {
	w.mu.Lock()
	w.version++
	version := w.version
	w.mu.Unlock()
	for i, key := range keys {
		if i == told {
			synctest.Wait() // a stream that was told of a version goes on after it
		}
		w.mu.Lock()
		pod := w.pods[object.RawKey(key)].DeepCopy()
		pod.ResourceVersion = strconv.Itoa(version)
		delete(w.pods, object.RawKey(key))
		w.tell(object.Deleted, pod)
		w.mu.Unlock()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cuts++
	w.touch()
}

// Events that expire together are deleted at one version. A watch that ends between two of
// them must lose none, nor tell of one twice, in whatever form a mirror has them.
func TestW14_WatchesMayEndBetweenDeletionsOfOneVersion(t *testing.T) {
	for name, opts := range map[string]podOptions{
		"decoded":    {},
		"compact":    {Form: packed()},
		"namespaces": {Namespaces: []string{"a", "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				w := newWorld("a/1", "a/2", "a/3", "b/1", "b/2", "b/3") // 101 to 106
				inf := newInformer(t, w, opts)
				var d diary
				subscribe(t, inf, d.handler(), podSub{})
				start(t, inf)
				pass(time.Minute)
				lists := w.listCount()
				d.read()
				w.expire(2, "a/1", "b/1", "a/2", "b/2", "a/3") // 107
				synctest.Wait()
				marks := func() (at []object.Version) {
					snap := inf.Snapshot()
					defer snap.Release()
					for _, ns := range opts.Namespaces {
						at = append(at, snap.Mark(object.Scope(ns)).Version)
					}
					return append(at, snap.Mark(object.Everything).Version)
				}
				at := marks()
				if !slices.Contains(at, "107") {
					t.Errorf("at %q", at)
				}
				pass(time.Minute)
				want(t, "marks", marks(), at)
				lines := d.read()
				slices.Sort(lines)
				want(t, "told", lines, []string{"delete a/1@107", "delete a/2@107", "delete a/3@107", "delete b/1@107", "delete b/2@107"})
				want(t, "held", held(inf.Snapshot()), []string{"b/3"})
				w.set("a/1")
				w.set("b/3")
				pass(time.Minute)
				lines = d.read()
				slices.Sort(lines)
				want(t, "told", lines, []string{"add a/1@108", "update b/3@106>109"})
				want(t, "lists", w.listCount(), lists)
			})
		})
	}
}

// held returns the keys of a snapshot, which it releases.
func held(snap store.Snapshot[*corev1.Pod]) (keys []string) {
	defer snap.Release()
	for k := range snap.Keys() {
		keys = append(keys, k.String())
	}
	return keys
}
