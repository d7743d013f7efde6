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
	withCluster(t, tarn.Options{}, func(t *testing.T, r *fixture) {
		gears := must(tarn.InformerOf(r.Cluster, wire.Unstructured(widgets)))
		var told []string
		must(gears.Subscribe(informer.Handler[*unstructured.Unstructured]{
			OnAdd:    func(u *unstructured.Unstructured, _ bool) { told = append(told, "add "+u.GetName()) },
			OnDelete: func(u *unstructured.Unstructured, _ bool) { told = append(told, "delete "+u.GetName()) },
		}, informer.SubOptions[*unstructured.Unstructured]{}))
		r.start()
		toldIs := func(want string) {
			t.Helper()
			synctest.Wait()
			if got := strings.Join(told, ", "); got != want {
				t.Errorf("told %q, want %q", got, want)
			}
			told = nil
		}
		waiting := func(objects int) {
			t.Helper()
			st := gears.Status()
			if st.State != tarn.Waiting || st.Objects != objects || !strings.Contains(st.String(), "waiting for the resource widgets.example.com to be served in version v1") {
				t.Errorf("%v", st)
			}
		}

		simtest.Advance(10 * time.Minute) // so that the back-off is as long as it gets
		waiting(0)
		if err := r.srv.Define(apiserver.Definition{Resource: widgets}); err != nil {
			t.Fatal(err)
		}
		r.put(widget("gear"))
		simtest.Advance(4 * time.Second)
		if st := gears.Status(); st.State != tarn.Live || st.Cause != nil {
			t.Errorf("defined: %v", st)
		}
		toldIs("add gear")

		r.srv.Undefine(widgets.Group, widgets.Resource)
		simtest.Advance(5 * time.Minute)
		waiting(0)
		toldIs("delete gear")

		if err := r.srv.Define(apiserver.Definition{Resource: widgets}); err != nil {
			t.Fatal(err)
		}
		r.put(widget("cog"))
		simtest.Advance(4 * time.Second)
		if st := gears.Status(); st.State != tarn.Live {
			t.Errorf("back again: %v", st)
		}
		toldIs("add cog")
	})
}

// A server that is cut off while the resource is removed tells nobody of the deletions.
func TestW23_RemovalThatNobodySawDeletes(t *testing.T) {
	withCluster(t, tarn.Options{GoneAfter: 10 * time.Second}, func(t *testing.T, r *fixture) {
		if err := r.srv.Define(apiserver.Definition{Resource: widgets}); err != nil {
			t.Fatal(err)
		}
		r.put(widget("gear"))
		gears := must(tarn.InformerByName(t.Context(), r.Cluster, "widgets"))
		r.start()
		if gears.Len() != 1 {
			t.Fatal(gears.Status())
		}
		must(r.srv.Inject(apiserver.Fault{Kind: apiserver.NotServed, Resource: "widgets.example.com"}))
		r.srv.Cut("widgets.example.com")
		r.srv.Compact(0)
		simtest.Advance(5 * time.Second)
		if st := gears.Status(); st.State != tarn.Waiting && st.State != tarn.Stale || st.Objects != 1 {
			t.Errorf("too early to tell: %v", st)
		}
		simtest.Advance(5 * time.Minute)
		if st := gears.Status(); st.State != tarn.Waiting || st.Objects != 0 {
			t.Errorf("removed: %v", st)
		}
	})
}

// Discovery names the resource all along: that is no reason to hurry.
func TestResourceThatIsNamedButNotServedIsNotHurried(t *testing.T) {
	withCluster(t, tarn.Options{}, func(t *testing.T, r *fixture) {
		if err := r.srv.Define(apiserver.Definition{Resource: widgets}); err != nil {
			t.Fatal(err)
		}
		must(r.srv.Inject(apiserver.Fault{Kind: apiserver.NotServed, Resource: "widgets.example.com"}))
		gears := must(tarn.InformerOf(r.Cluster, wire.Unstructured(widgets)))
		r.start()
		simtest.Advance(10 * time.Minute)
		if n := r.srv.Struck(apiserver.NotServed); n > 80 {
			t.Errorf("%d requests in ten minutes", n)
		}
		gears.Close()
		simtest.Advance(time.Minute) // lets the cluster notice that nothing is missing any more
	})
}
