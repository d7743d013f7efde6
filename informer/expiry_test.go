package informer_test

import (
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tarnproject/tarn/internal/sim/simtest"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/store"
)

// Events that expire together are deleted at one version. A watch that ends between two of
// them must lose none, nor tell of one twice, in whatever form a mirror has them.
func TestW14_WatchesMayEndBetweenDeletionsOfOneVersion(t *testing.T) {
	for name, opts := range map[string]podOptions{
		"decoded":    {},
		"compact":    {Form: packed()},
		"namespaces": {Namespaces: []string{"a", "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			simtest.Each(t, func(t *testing.T, via simtest.Via) {
				srv := simtest.Pods("a/1", "a/2", "a/3", "b/1", "b/2", "b/3") // 101 to 106
				inf := newInformer(t, srv.Source(via), opts)
				var d simtest.Recorder
				subscribe(t, inf, d.PodHandler(), podSub{})
				start(t, inf)
				simtest.Advance(time.Minute)
				lists := srv.Counts().Lists
				d.Take()
				srv.DeleteTogether(2, "a/1", "b/1", "a/2", "b/2", "a/3") // 107
				srv.Cut(io.EOF)
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
				simtest.Advance(time.Minute)
				simtest.Want(t, "marks", marks(), at)
				lines := d.Take()
				slices.Sort(lines)
				simtest.Want(t, "received", lines, []string{"delete a/1@107", "delete a/2@107", "delete a/3@107", "delete b/1@107", "delete b/2@107"})
				simtest.Want(t, "held", held(inf.Snapshot()), []string{"b/3"})
				srv.Set("a/1")
				srv.Set("b/3")
				simtest.Advance(time.Minute)
				lines = d.Take()
				slices.Sort(lines)
				simtest.Want(t, "received", lines, []string{"add a/1@108", "update b/3@106>109"})
				simtest.Want(t, "lists", srv.Counts().Lists, lists)
			})
		})
	}
}

// Between two deletions of one version, that version is neither claimed nor reached.
func TestH10_TheVersionOfADeletionIsReachedWhenItIsComplete(t *testing.T) {
	for name, opts := range map[string]podOptions{"everything": {}, "a namespace": {Namespaces: []string{"a"}}} {
		t.Run(name, func(t *testing.T) {
			simtest.Each(t, func(t *testing.T, via simtest.Via) {
				srv := simtest.Pods("a/1", "a/2", "a/3") // 101 to 103
				inf := newInformer(t, srv.Source(via), opts)
				start(t, inf)
				simtest.Advance(time.Minute)
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
				srv.DeleteTogether(1, "a/1", "a/2") // 104
				go func() { reached <- inf.WaitFor(t.Context(), "104") }()
				check("after the first deletion", "103", false)
				if inf.Writes().Pending(object.RawKey("a/1")) {
					t.Error("the write is not seen, though the object is deleted")
				}
				srv.Cut(io.EOF)
				simtest.Advance(time.Minute)
				check("after the second", "103", false)
				simtest.Want(t, "held", held(inf.Snapshot()), []string{"a/3"})
				srv.Bookmark() // 105
				check("after a bookmark", "105", true)
				if err := <-reached; err != nil {
					t.Error(err)
				}

				srv.Delete("a/3") // 106
				go func() { reached <- inf.WaitForKey(t.Context(), object.RawKey("a/3"), "106") }()
				check("after a third deletion", "105", false)
				srv.Set("a/4") // 107
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
