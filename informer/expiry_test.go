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
				if slices.Contains(at, "107") {
					t.Errorf("at %q, of which there may be more", at)
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

// drop deletes a pod at the present version, which the deletion before it has moved to.
func (w *world) drop(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	pod := w.pods[object.RawKey(key)].DeepCopy()
	pod.ResourceVersion = strconv.Itoa(w.version)
	delete(w.pods, object.RawKey(key))
	w.tell(object.Deleted, pod)
	w.cuts++ // a stream that was told of a version goes on after it
	w.touch()
}

// Between two deletions of one version, that version is neither claimed nor reached.
func TestH10_TheVersionOfADeletionIsReachedWhenItIsComplete(t *testing.T) {
	for name, opts := range map[string]podOptions{"everything": {}, "a namespace": {Namespaces: []string{"a"}}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				w := newWorld("a/1", "a/2", "a/3") // 101 to 103
				inf := newInformer(t, w, opts)
				start(t, inf)
				pass(time.Minute)
				scope := object.Everything
				if opts.Namespaces != nil {
					scope = "a"
				}
				old, _ := inf.Get(object.RawKey("a/1"))
				if err := inf.Writes().Deleted(old); err != nil {
					t.Fatal(err)
				}
				reached := make(chan error, 1)
				check := func(when string, at object.Version, want bool) {
					t.Helper()
					synctest.Wait()
					snap := inf.Snapshot()
					defer snap.Release()
					if got := snap.Mark(scope).Version; got != at || (len(reached) > 0) != want {
						t.Errorf("%s: at %s, reached %v; want %s, %v", when, got, len(reached) > 0, at, want)
					}
				}
				w.remove("a/1") // 104
				go func() { reached <- inf.WaitFor(t.Context(), "104") }()
				check("after the first deletion", "103", false)
				if inf.Writes().Pending(object.RawKey("a/1")) {
					t.Error("the write is not seen, though the object is deleted")
				}
				w.drop("a/2")
				pass(time.Minute)
				check("after the second", "103", false)
				want(t, "held", held(inf.Snapshot()), []string{"a/3"})
				w.bookmark() // 105
				check("after a bookmark", "105", true)
				if err := <-reached; err != nil {
					t.Error(err)
				}

				w.remove("a/3") // 106
				go func() { reached <- inf.WaitForKey(t.Context(), object.RawKey("a/3"), "106") }()
				check("after a third deletion", "105", false)
				w.set("a/4") // 107
				check("after an addition", "107", true)
			})
		})
	}
}

// held returns the keys of a snapshot, which it releases.
func held(snap store.Snapshot[*corev1.Pod]) (keys []string) {
	defer snap.Release()
	for _, k := range slices.SortedFunc(snap.Keys(), object.Key.Compare) {
		keys = append(keys, k.String())
	}
	return keys
}
