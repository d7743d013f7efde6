package informer_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarnproject/tarn/internal/sim/simtest"
	"github.com/tarnproject/tarn/object"
)

// A namespace that is covered again is not shown as it was before it left: neither at an
// older version, nor in an epoch that is over.
func TestL02_ANamespaceThatIsCoveredAgainDoesNotGoBack(t *testing.T) {
	simtest.Each(t, func(t *testing.T, via simtest.Via) {
		srv := simtest.Pods("a/1", "b/1")
		var mu sync.Mutex
		var asked []object.Version
		srv.OnList = func(_ int, opts object.ListOptions, _ func(podItem) error) (object.Page, error, bool) {
			mu.Lock()
			defer mu.Unlock()
			asked = append(asked, opts.Version)
			return object.Page{}, nil, false
		}
		inf := newInformer(t, srv.Source(via), podOptions{Namespaces: []string{"a"}})
		start(t, inf)
		synctest.Wait()
		rewind(srv, 50)
		simtest.Advance(time.Minute)
		before := inf.Snapshot()
		defer before.Release()
		mark := before.Mark("a")
		if mark.Epoch != 1 {
			t.Fatalf("at %+v, want epoch 1", mark)
		}
		for _, set := range [][]string{{}, {"a"}} {
			if err := inf.SetNamespaces(set...); err != nil {
				t.Fatal(err)
			}
			simtest.Advance(time.Minute)
		}
		after := inf.Snapshot()
		defer after.Release()
		if got := after.Mark("a"); !got.Reached(mark) || got.Epoch != mark.Epoch {
			t.Errorf("covered again, it is at %+v; it was at %+v", got, mark)
		}
		mu.Lock()
		defer mu.Unlock()
		// Any older state could lack what this process wrote while the namespace was not mirrored.
		if last := asked[len(asked)-1]; last != "" {
			t.Errorf("the list asked for %q, want the most recent state", last)
		}
	})
}

// Of two namespaces only one has seen a version that the restored server does not have yet.
func TestW19_ARewindThatOneNamespaceFindsBeginsTheEpochForAll(t *testing.T) {
	simtest.Each(t, func(t *testing.T, via simtest.Via) {
		srv := simtest.Pods("a/1", "b/1") // up to 102
		inf := newInformer(t, srv.Source(via), podOptions{Namespaces: []string{"a", "b"}})
		start(t, inf)
		synctest.Wait()
		for range 8 {
			srv.Set("a/1") // up to 110
		}
		synctest.Wait()
		rewind(srv, 105, onNode("restored"))
		simtest.Advance(time.Minute)
		if err := inf.SetNamespaces("a", "b", "c"); err != nil {
			t.Fatal(err)
		}
		simtest.Advance(time.Minute)
		snap := inf.Snapshot()
		defer snap.Release()
		for mark := range snap.Marks() {
			if mark.Epoch != 1 {
				t.Errorf("%q is in epoch %d, want 1", mark.Scope, mark.Epoch)
			}
		}
		if p, _ := snap.Get(object.Key{Namespace: "b", Name: "1"}); p == nil || p.Spec.NodeName != "restored" {
			t.Errorf("b/1 is %v", p)
		}
	})
}
