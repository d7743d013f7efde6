package tarn_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/internal/sim/simtest"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
	"github.com/tarnproject/tarn/store"
	"github.com/tarnproject/tarn/wire"
)

func TestEqualRequestsShareOneMirrorUntilTheLastHandleCloses(t *testing.T) {
	withCluster(t, with(), func(t *testing.T, r *testCluster) {
		r.create(pod("shop", "web", "node-1"))
		first := must(tarn.MirrorOf[*corev1.Pod](r.Cluster, tarn.Matching("app in (web), app")))
		second := must(tarn.MirrorOf[*corev1.Pod](r.Cluster, tarn.Matching("app"), tarn.Matching("app in (web)")))
		r.start()
		third := must(tarn.MirrorOf[*corev1.Pod](r.Cluster, tarn.Matching("app,app in (web)")))
		r.watches("pods", 1)
		if first.Informer() != second.Informer() || first.Informer() != third.Informer() {
			t.Error("equal requests have different mirrors")
		}
		st := r.Status()
		if len(st.Mirrors) != 1 || len(st.Mirrors[0].Handles) != 3 || !st.Live() || st.Mirrors[0].Objects != 1 {
			t.Errorf("%+v", st)
		}
		for _, site := range st.Mirrors[0].Handles {
			if !strings.Contains(site, "/cluster_test.go:") {
				t.Errorf("call site of a handle: %s", site)
			}
		}

		first.Close()
		first.Close()
		second.Close()
		r.watches("pods", 1)
		third.Close()
		r.watches("pods", 0)
		if st := r.Status(); len(st.Mirrors) != 0 {
			t.Errorf("left over: %v", st)
		}
		if st := third.Status(); st.State != tarn.Stopped {
			t.Errorf("status of a closed handle: %v", st)
		}
		if _, ok := third.Get(key("shop", "web")); !ok {
			t.Error("the last state is lost")
		}

		again := must(tarn.MirrorOf[*corev1.Pod](r.Cluster, tarn.Matching("app in (web),app")))
		defer again.Close()
		r.watches("pods", 1)
		if again.Len() != 1 {
			t.Errorf("%d pods in a new mirror", again.Len())
		}
	})
}

func TestDifferentScopesOrFormsHaveSeparateMirrors(t *testing.T) {
	withCluster(t, with(), func(t *testing.T, r *testCluster) {
		r.create(pod("shop", "web", "node-1"), pod("bank", "web", "node-2"), pod("bank", "db", "node-2"))
		pods := wire.MustOf[*corev1.Pod]()
		of := func(opts ...tarn.Option) *tarn.Mirror[*corev1.Pod] {
			return must(tarn.MirrorOf[*corev1.Pod](r.Cluster, opts...))
		}
		sizes := map[string]interface{ Len() int }{
			"3 all":       of(),
			"3 compact":   of(tarn.Compact()),
			"1 shop":      of(tarn.InNamespaces("shop")),
			"3 both":      of(tarn.InNamespaces("shop", "bank", "shop")),
			"2 web":       of(tarn.Matching("app=web")),
			"2 node-2":    of(tarn.MatchingFields("spec.nodeName=node-2")),
			"3 untyped":   must(tarn.MirrorResource(r.Cluster, wire.Unstructured(pods.Resource))),
			"3 metadata":  must(tarn.MirrorResource(r.Cluster, wire.Metadata(pods.Resource))),
			"3 in JSON":   must(tarn.MirrorResource(r.Cluster, pods.Encoded(wire.JSON))),
			"3 by name":   must(tarn.MirrorByName(t.Context(), r.Cluster, "po")),
			"3 half name": must(tarn.MirrorMetadata(t.Context(), r.Cluster, "Pod")),
		}
		r.start()
		if err := r.WaitSynced(t.Context()); err != nil {
			t.Fatal(err)
		}
		for name, h := range sizes {
			if got, want := h.Len(), int(name[0]-'0'); got != want {
				t.Errorf("%s: %d pods", name, got)
			}
		}
		var names []string
		for _, m := range r.Status().Mirrors {
			names = append(names, m.Name)
		}
		slices.Sort(names)
		want := []string{
			"pods", "pods #2", "pods (compact)", "pods (metadata)", "pods (unstructured)", "pods in bank,shop",
			"pods in shop", "pods where app=web", "pods where spec.nodeName=node-2",
		}
		if !slices.Equal(names, want) {
			t.Errorf("mirrors: %q", names)
		}
	})
}

func TestHandlesCanBeOpenedAndClosedAtAnyTime(t *testing.T) {
	withCluster(t, with(), func(t *testing.T, r *testCluster) {
		early := must(tarn.MirrorOf[*corev1.Pod](r.Cluster))
		if st := early.Status(); st.State != tarn.Declared {
			t.Errorf("before Run: %v", st)
		}
		gone := must(tarn.MirrorOf[*corev1.Node](r.Cluster))
		gone.Close()
		waits := make(chan error, 1)
		go func() { waits <- gone.WaitSynced(t.Context()) }()
		if err := <-waits; !errors.Is(err, informer.ErrStopped) {
			t.Errorf("a wait for what was closed before Run: %v", err)
		}
		r.start()
		r.watches("pods", 1)
		r.watches("nodes", 0)
		late := must(tarn.MirrorOf[*corev1.Node](r.Cluster))
		r.watches("nodes", 1)
		late.Close()
		r.watches("nodes", 0)
		if err := r.Run(t.Context()); err != tarn.ErrStarted {
			t.Errorf("a second Run: %v", err)
		}
		if err := r.stop(); err != nil {
			t.Error(err)
		}
		if _, err := tarn.MirrorOf[*corev1.Pod](r.Cluster); err != tarn.ErrStopped {
			t.Errorf("after Run: %v", err)
		}
		if st := r.Status(); !st.Stopped || early.Status().State != tarn.Stopped {
			t.Errorf("after Run: %+v", st)
		}
		early.Close()
	})
}

func TestClosingAHandleEndsOnlyItsOwnSubscriptions(t *testing.T) {
	withCluster(t, with(), func(t *testing.T, r *testCluster) {
		mine := must(tarn.MirrorOf[*corev1.Pod](r.Cluster))
		others := must(tarn.MirrorOf[*corev1.Pod](r.Cluster))
		r.start()
		// Separate counters, because the two subscribers are called concurrently.
		var mineSaw, othersSaw int
		count := func(n *int) informer.Handler[*corev1.Pod] {
			return informer.Handler[*corev1.Pod]{OnAdd: func(*corev1.Pod, bool) { *n++ }}
		}
		sub := must(mine.Subscribe(count(&mineSaw), informer.SubOptions[*corev1.Pod]{}))
		must(others.Subscribe(count(&othersSaw), informer.SubOptions[*corev1.Pod]{}))
		batches := must(mine.SubscribeBatch(func(context.Context, []informer.Event[*corev1.Pod]) {}, informer.SubOptions[*corev1.Pod]{}))
		looped := make(chan int)
		go func() {
			n := 0
			for range mine.Events(t.Context()) {
				n++
			}
			looped <- n
		}()
		if !strings.Contains(sub.Status().Name, "/cluster_test.go:") {
			t.Errorf("a subscriber is called %s", sub.Status().Name)
		}
		r.create(pod("shop", "web", ""))
		mine.Close()
		<-sub.Done()
		<-batches.Done()
		if n := <-looped; n != 1 {
			t.Errorf("the loop saw %d events", n)
		}
		r.create(pod("shop", "db", ""))
		if mineSaw != 1 || othersSaw != 2 {
			t.Errorf("adds: %d of the closed handle's, %d of the other's", mineSaw, othersSaw)
		}
		if _, err := mine.Subscribe(count(&mineSaw), informer.SubOptions[*corev1.Pod]{}); err != informer.ErrStopped {
			t.Errorf("a closed handle: %v", err)
		}
	})
}

func TestMemoryIsFreedWithTheLastHandle(t *testing.T) {
	withCluster(t, with(), func(t *testing.T, r *testCluster) {
		r.create(pod("shop", "web", ""))
		r.start()
		held := func() weak.Pointer[corev1.Pod] {
			pods := must(tarn.MirrorOf[*corev1.Pod](r.Cluster))
			defer pods.Close()
			if err := pods.WaitSynced(t.Context()); err != nil {
				t.Fatal(err)
			}
			web, _ := pods.Get(key("shop", "web"))
			pods.Client()
			pods.Close()
			pods.Client() // which must not count again
			return weak.Make(web)
		}()
		r.watches("pods", 0)
		for range 10 {
			if runtime.GC(); held.Value() == nil {
				return
			}
		}
		t.Error("the pod is still there")
	})
}

func TestS04_IndexesOfAllHandlesAreMerged(t *testing.T) {
	withCluster(t, with(), func(t *testing.T, r *testCluster) {
		r.create(pod("shop", "web", "node-1"), pod("shop", "db", "node-2"))
		byNode := store.NewIndex("node", func(p *corev1.Pod) string { return p.Spec.NodeName })
		byName := store.NewIndex("name", func(p *corev1.Pod) string { return p.Name })
		byApp := store.NewIndex("app", func(p *corev1.Pod) string { return p.Labels["app"] })
		first := must(tarn.MirrorOf[*corev1.Pod](r.Cluster))
		first.AddIndex(byNode, byNode)
		early := must(tarn.MirrorOf[*corev1.Pod](r.Cluster))
		early.AddIndex(byName)
		r.start()
		late := must(tarn.MirrorOf[*corev1.Pod](r.Cluster))
		late.AddIndex(byApp, byNode)
		for _, h := range []*tarn.Mirror[*corev1.Pod]{first, early, late} {
			snap := h.Snapshot()
			found := slices.Concat(slices.Collect(byNode.Get(snap, "node-2")), slices.Collect(byName.Get(snap, "db")), slices.Collect(byApp.Get(snap, "db")))
			if len(found) != 3 {
				t.Errorf("found %d pods by three indexes", len(found))
			}
		}
	})
}

func TestConflictingContentsNameBothCallers(t *testing.T) {
	withCluster(t, with(), func(t *testing.T, r *testCluster) {
		keep := func(p *corev1.Pod) (*corev1.Pod, error) { return p, nil }
		slim, other := tarn.NewTransform("slim", keep), tarn.NewTransform("other", keep)
		pods := wire.MustOf[*corev1.Pod]()
		declare := func(t *tarn.Transform[*corev1.Pod], opts ...tarn.Option) (*tarn.Mirror[*corev1.Pod], error) {
			return tarn.MirrorTransformed(r.Cluster, pods, t, opts...)
		}
		drop := tarn.Drop(object.LastApplied)
		first := must(tarn.MirrorTransformed(r.Cluster, pods, slim, drop))
		there := first.Status().Handles[0]
		same := must(declare(slim, tarn.Drop(object.LastApplied), tarn.Drop(object.ManagedFields)))
		same.Close()

		for _, c := range []struct {
			what, wants, has string
			transform        *tarn.Transform[*corev1.Pod]
			opts             []tarn.Option
		}{
			{"dropped fields", "metadata.managedFields", "metadata.annotations[kubectl.kubernetes.io/last-applied-configuration], metadata.managedFields", slim, nil},
			{"dropped fields", "none", "metadata.annotations[kubectl.kubernetes.io/last-applied-configuration], metadata.managedFields", slim, []tarn.Option{tarn.KeepManagedFields()}},
			{"transform", `"other"`, `"slim"`, other, []tarn.Option{drop}},
			{"transform", "none", `"slim"`, nil, []tarn.Option{drop}},
		} {
			_, err := declare(c.transform, c.opts...)
			var conflict *tarn.ConflictError
			if !errors.As(err, &conflict) {
				t.Errorf("%s: %v", c.what, err)
				continue
			}
			if conflict.What != c.what || conflict.Wants != c.wants || conflict.Has != c.has || conflict.There != there {
				t.Errorf("%+v", conflict)
			}
			if conflict.Here == there || !strings.Contains(conflict.Here, "/cluster_test.go:") {
				t.Errorf("call site of the conflict: %s", conflict.Here)
			}
			if text := err.Error(); !strings.Contains(text, conflict.Here) || !strings.Contains(text, there) {
				t.Errorf("the error does not name both call sites: %s", text)
			}
		}
		if st := r.Status(); len(st.Mirrors) != 1 || len(st.Mirrors[0].Handles) != 1 {
			t.Errorf("rejected handles remain: %v", st.Mirrors)
		}
		first.Close()
		must(declare(nil)).Close() // no other handle to conflict with
	})
}

func TestDropAndTransformAreApplied(t *testing.T) {
	withCluster(t, with(), func(t *testing.T, r *testCluster) {
		web := pod("shop", "web", "node-1")
		web.Annotations = map[string]string{"a": "1", "b": "2"}
		r.create(web, pod("shop", "bad", ""))
		noNode := tarn.NewTransform("no node", func(p *corev1.Pod) (*corev1.Pod, error) {
			if p.Name == "bad" {
				return nil, errors.New("cannot be transformed")
			}
			p.Spec.NodeName = ""
			return p, nil
		})
		for _, opts := range [][]tarn.Option{nil, {tarn.Compact()}} {
			pods := must(tarn.MirrorTransformed(r.Cluster, wire.MustOf[*corev1.Pod](), noNode, append(opts, tarn.Drop(object.FieldPath{"metadata", "annotations", "a"}))...))
			if r.stop == nil {
				r.start()
			}
			synctest.Wait()
			got, _ := pods.Get(key("shop", "web"))
			if got.Spec.NodeName != "" || len(got.Annotations) != 1 || got.Labels["app"] != "web" {
				t.Errorf("%+v", got)
			}
			if q := pods.Status().Informer.Quarantine; len(q) != 1 || pods.Len() != 1 {
				t.Errorf("quarantine: %v", q)
			}
		}
	})
}

func TestCompactObjectsRoundTrip(t *testing.T) {
	withCluster(t, with(), func(t *testing.T, r *testCluster) {
		if err := r.srv.Define(apiserver.Definition{Resource: widgets}); err != nil {
			t.Fatal(err)
		}
		r.create(pod("shop", "web", "node-1"), widget("gear"))
		podType := wire.MustOf[*corev1.Pod]().Resource
		r.start()
		same(t, r, wire.MustOf[*corev1.Pod](), key("shop", "web"))
		same(t, r, wire.Unstructured(podType), key("shop", "web"))
		same(t, r, wire.Metadata(podType), key("shop", "web"))
		same(t, r, wire.Unstructured(widgets), key("shop", "gear"))
		same(t, r, wire.Custom[*metav1.PartialObjectMetadata](widgets), key("shop", "gear"))
	})
}

// same checks that a mirror and its compact form have the same object.
func same[P tarn.Pointer[X], X any](t *testing.T, r *testCluster, res wire.Resource[P], k object.Key) {
	t.Helper()
	loose := must(tarn.MirrorResource(r.Cluster, res))
	compact := must(tarn.MirrorResource(r.Cluster, res, tarn.Compact()))
	if err := r.WaitSynced(t.Context()); err != nil {
		t.Fatal(err)
	}
	want, ok := loose.Get(k)
	if !ok {
		t.Fatalf("%s: no %s", loose.Name(), k)
	}
	for range 2 { // decoded at the write, and again after it was freed
		got, _ := compact.Get(k)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", compact.Name(), diff)
		}
		got = nil
		runtime.GC()
	}
}

func TestInvalidOptionsAreRejected(t *testing.T) {
	withCluster(t, with(), func(t *testing.T, r *testCluster) {
		var unknown *wire.UnknownResourceError
		if _, err := tarn.MirrorByName(t.Context(), r.Cluster, "podz"); !errors.As(err, &unknown) || !slices.Contains(unknown.Suggestions, "pods") {
			t.Errorf("podz: %v", err)
		}
		for want, opt := range map[string]tarn.Option{
			"nodes are cluster-scoped; remove InNamespaces":        tarn.InNamespaces("shop"),
			"InNamespaces needs names; omit it for all namespaces": tarn.InNamespaces(""),
			`label selector "a in": `:                              tarn.Matching("a in"),
			`field selector "a<b": `:                               tarn.MatchingFields("a<b"),
			"Drop: empty field path":                               tarn.Drop(object.FieldPath{}),
		} {
			_, err := tarn.MirrorOf[*corev1.Node](r.Cluster, nil, opt)
			if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "/cluster_test.go:") {
				t.Errorf("%v\nwant: %s", err, want)
			}
		}
		if st := r.Status(); len(st.Mirrors) != 0 {
			t.Errorf("left over: %v", st)
		}
	})
}

func TestW22_ListsOfAClusterTakeTurns(t *testing.T) {
	opts := with(tarn.WithTuning(tarn.Tuning{Lists: 1, Streaming: reflector.StreamingOff}))
	withCluster(t, opts, func(t *testing.T, r *testCluster) {
		must(r.srv.Inject(apiserver.Fault{Kind: apiserver.Latency, Verb: "list", Wait: 10 * time.Second}))
		must(tarn.MirrorOf[*corev1.Pod](r.Cluster))
		must(tarn.MirrorOf[*corev1.Node](r.Cluster))
		must(tarn.MirrorOf[*corev1.Service](r.Cluster))
		r.start()
		for synced := range 3 {
			st := r.Status()
			live := 0
			for _, m := range st.Mirrors {
				if m.State == tarn.Live {
					live++
				}
			}
			if live != synced || st.Listing != 1 || st.Lists != 1 {
				t.Errorf("after %d lists: %+v", synced, st)
			}
			simtest.Advance(10*time.Second + time.Millisecond)
		}
		if st := r.Status(); !st.Live() || st.Listing != 0 {
			t.Errorf("at the end: %v", st)
		}
	})
}

func TestH06_WaitSyncedReportsEachCauseAndBlocksNoOtherMirror(t *testing.T) {
	withCluster(t, with(), func(t *testing.T, r *testCluster) {
		wait := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			return r.WaitSynced(ctx)
		}
		if err := r.WaitSynced(t.Context()); err != nil {
			t.Errorf("nothing to wait for: %v", err)
		}
		pods := must(tarn.MirrorOf[*corev1.Pod](r.Cluster))
		nodes := must(tarn.MirrorOf[*corev1.Node](r.Cluster))
		gears := must(tarn.MirrorResource(r.Cluster, wire.Unstructured(widgets)))
		if err := wait(); !errors.Is(err, tarn.ErrNotStarted) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("before Run: %v", err)
		}
		must(r.srv.Inject(apiserver.Fault{Kind: apiserver.Forbidden, Resource: "pods"}))
		r.start()
		err := wait()
		var missing *tarn.NotSyncedError
		var notServed *tarn.NotServedError
		if !errors.As(err, &missing) || len(missing.Mirrors) != 2 || !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("%v", err)
		}
		if !apierrors.IsForbidden(missing.Mirrors[0]) || !errors.As(missing.Mirrors[1], &notServed) || notServed.Resource != widgets {
			t.Errorf("%v", err)
		}
		for _, part := range []string{"pods: BackingOff", "forbidden", "waiting for the resource widgets.example.com to be served in version v1"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q is not in: %v", part, err)
			}
		}
		if nodes.Status().State != tarn.Live || pods.Status().State != tarn.Syncing || gears.Status().State != tarn.Waiting {
			t.Errorf("%v", r.Status())
		}
		if !apierrors.IsForbidden(pods.Status().Cause) || !apierrors.IsNotFound(gears.Status().Cause) || nodes.Status().Cause != nil {
			t.Errorf("%v", r.Status())
		}

		// A closed handle is not waited for.
		waited := make(chan error)
		go func() { waited <- r.WaitSynced(t.Context()) }()
		gears.Close()
		r.srv.Clear()
		if err := <-waited; err != nil {
			t.Error(err)
		}

		must(tarn.MirrorResource(r.Cluster, wire.Unstructured(widgets)))
		go func() { waited <- r.WaitSynced(context.Background()) }()
		synctest.Wait()
		if err := r.stop(); err != nil {
			t.Error(err)
		}
		if err := <-waited; !errors.Is(err, tarn.ErrStopped) {
			t.Errorf("after Run: %v", err)
		}
	})
}
