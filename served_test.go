package tarn_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/internal/sim/simtest"
	"github.com/tarnproject/tarn/wire"
)

func TestW23_ResourcesAreWaitedForAndTheirRemovalDeletes(t *testing.T) {
	withCluster(t, with(), func(t *testing.T, r *testCluster) {
		gears := must(tarn.MirrorResource(r.Cluster, wire.Unstructured(widgets)))
		var calls []string
		must(gears.Subscribe(informer.Handler[*unstructured.Unstructured]{
			OnAdd:    func(u *unstructured.Unstructured, _ bool) { calls = append(calls, "add "+u.GetName()) },
			OnDelete: func(u *unstructured.Unstructured, _ bool) { calls = append(calls, "delete "+u.GetName()) },
		}, informer.SubOptions[*unstructured.Unstructured]{}))
		r.start()
		expectCalls := func(want string) {
			t.Helper()
			synctest.Wait()
			if got := strings.Join(calls, ", "); got != want {
				t.Errorf("handler calls: %q, want %q", got, want)
			}
			calls = nil
		}
		waiting := func(objects int) {
			t.Helper()
			st := gears.Status()
			if st.State != tarn.Waiting || st.Objects != objects || !strings.Contains(st.String(), "waiting for the resource widgets.example.com to be served in version v1") {
				t.Errorf("%v", st)
			}
		}

		simtest.Advance(10 * time.Minute) // until the back-off has its maximum
		waiting(0)
		if err := r.srv.Define(apiserver.Definition{Resource: widgets}); err != nil {
			t.Fatal(err)
		}
		r.create(widget("gear"))
		simtest.Advance(4 * time.Second)
		if st := gears.Status(); st.State != tarn.Live || st.Cause != nil {
			t.Errorf("defined: %v", st)
		}
		expectCalls("add gear")

		r.srv.Undefine(widgets.Group, widgets.Resource)
		simtest.Advance(5 * time.Minute)
		waiting(0)
		expectCalls("delete gear")

		if err := r.srv.Define(apiserver.Definition{Resource: widgets}); err != nil {
			t.Fatal(err)
		}
		r.create(widget("cog"))
		simtest.Advance(4 * time.Second)
		if st := gears.Status(); st.State != tarn.Live {
			t.Errorf("back again: %v", st)
		}
		expectCalls("add cog")
	})
}

// The mirror is disconnected while the resource is removed, so it receives no DELETED events.
func TestW23_ARemovalDuringADisconnectDeletes(t *testing.T) {
	withCluster(t, with(tarn.WithTuning(tarn.Tuning{RemovedAfter: 10 * time.Second})), func(t *testing.T, r *testCluster) {
		if err := r.srv.Define(apiserver.Definition{Resource: widgets}); err != nil {
			t.Fatal(err)
		}
		r.create(widget("gear"))
		gears := must(tarn.MirrorByName(t.Context(), r.Cluster, "widgets"))
		r.start()
		if gears.Len() != 1 {
			t.Fatal(gears.Status())
		}
		must(r.srv.Inject(apiserver.Fault{Kind: apiserver.NotServed, Resource: "widgets.example.com"}))
		r.srv.Cut("widgets.example.com")
		r.srv.Compact(0)
		simtest.Advance(5 * time.Second)
		if st := gears.Status(); st.State != tarn.Waiting && st.State != tarn.Stale || st.Objects != 1 {
			t.Errorf("before RemovedAfter: %v", st)
		}
		simtest.Advance(5 * time.Minute)
		if st := gears.Status(); st.State != tarn.Waiting || st.Objects != 0 {
			t.Errorf("removed: %v", st)
		}
	})
}

// Discovery lists the resource but requests for it fail. The cluster must not wake the mirror.
func TestAResourceThatIsNotServedIsNotPolledFaster(t *testing.T) {
	withCluster(t, with(), func(t *testing.T, r *testCluster) {
		if err := r.srv.Define(apiserver.Definition{Resource: widgets}); err != nil {
			t.Fatal(err)
		}
		must(r.srv.Inject(apiserver.Fault{Kind: apiserver.NotServed, Resource: "widgets.example.com"}))
		gears := must(tarn.MirrorResource(r.Cluster, wire.Unstructured(widgets)))
		r.start()
		simtest.Advance(10 * time.Minute)
		if n := r.srv.Injected(apiserver.NotServed); n > 80 {
			t.Errorf("%d requests in ten minutes", n)
		}
		gears.Close()
		simtest.Advance(time.Minute) // until the cluster stops polling discovery
	})
}
