package tarn_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/internal/sim/simtest"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire"
)

func configMap(name string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{"app": name}}, Data: data}
}

// withClient runs a test with a started cluster and a client for its config maps.
func withClient(t *testing.T, opts []tarn.ConnectOption, test func(t *testing.T, r *testCluster, maps *tarn.Mirror[*corev1.ConfigMap], client *tarn.Client[*corev1.ConfigMap])) {
	withCluster(t, append(opts, tarn.WithFieldManager("test")), func(t *testing.T, r *testCluster) {
		maps := must(tarn.MirrorOf[*corev1.ConfigMap](r.Cluster))
		r.start()
		test(t, r, maps, maps.Client())
	})
}

func TestClientReadsItsOwnWrites(t *testing.T) {
	withClient(t, nil, func(t *testing.T, r *testCluster, maps *tarn.Mirror[*corev1.ConfigMap], c *tarn.Client[*corev1.ConfigMap]) {
		ctx := t.Context()
		for i, write := range []func() (*corev1.ConfigMap, error){
			func() (*corev1.ConfigMap, error) { return c.Create(ctx, configMap("web", map[string]string{"n": "0"})) },
			func() (*corev1.ConfigMap, error) {
				m := must(c.Get(ctx, key("shop", "web")))
				m.Data["n"] = "1" // a copy
				return c.Update(ctx, m)
			},
			func() (*corev1.ConfigMap, error) {
				return c.Patch(ctx, key("shop", "web"), wire.MergePatchOf(map[string]any{"data": map[string]any{"n": "2"}}))
			},
			func() (*corev1.ConfigMap, error) {
				old := must(c.Get(ctx, key("shop", "web")))
				changed := old.DeepCopy()
				changed.Data["n"] = "3"
				return c.PatchFrom(ctx, old, changed)
			},
			func() (*corev1.ConfigMap, error) {
				return c.Apply(ctx, corev1apply.ConfigMap("web", "shop").WithData(map[string]string{"n": "4"}), tarn.Force())
			},
			func() (*corev1.ConfigMap, error) {
				return c.Apply(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", ResourceVersion: "1"}, Data: map[string]string{"n": "5"}}, tarn.Force())
			},
			func() (*corev1.ConfigMap, error) {
				m, outcome, err := c.CreateOrUpdate(ctx, configMap("web", nil), func(m *corev1.ConfigMap) error { m.Data["n"] = "6"; return nil })
				if outcome != tarn.OutcomeUpdated {
					t.Errorf("outcome %s", outcome)
				}
				return m, err
			},
		} {
			r.srv.Cut("configmaps") // the mirror falls behind until it reconnects
			wrote, err := write()
			if err != nil {
				t.Fatalf("write %d: %v", i, err)
			}
			got, err := c.Get(ctx, key("shop", "web"))
			if err != nil || got.ResourceVersion != wrote.ResourceVersion || got.Data["n"] != string(rune('0'+i)) {
				t.Fatalf("after write %d: %v, %v; wrote version %s", i, got, err, wrote.ResourceVersion)
			}
			list, err := c.List(ctx, tarn.InNamespaces("shop"), tarn.Matching("app=web"))
			if err != nil || len(list) != 1 || list[0].ResourceVersion != wrote.ResourceVersion {
				t.Fatalf("list after write %d: %v, %v", i, list, err)
			}
			list[0].Data["n"], got.Data["n"] = "mine", "mine" // copies: the mirror does not change
			if shared, _ := maps.Get(key("shop", "web")); shared.Data["n"] == "mine" {
				t.Fatal("a read of the client is shared with the mirror")
			}
		}
		if err := c.Delete(ctx, key("shop", "web")); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Get(ctx, key("shop", "web")); !apierrors.IsNotFound(err) || tarn.IgnoreNotFound(err) != nil {
			t.Errorf("after the deletion: %v", err)
		}
	})
}

func TestTheOptionsOfAClientsWritesAreHonoured(t *testing.T) {
	withClient(t, nil, func(t *testing.T, r *testCluster, maps *tarn.Mirror[*corev1.ConfigMap], c *tarn.Client[*corev1.ConfigMap]) {
		ctx := t.Context()
		if _, err := c.Create(ctx, configMap("dry", nil), tarn.DryRun()); err != nil {
			t.Error(err)
		}
		if _, err := c.GetUncached(ctx, key("shop", "dry")); !apierrors.IsNotFound(err) {
			t.Errorf("a dry run stored the object: %v", err)
		}
		made, outcome, err := c.CreateOrUpdate(ctx, configMap("web", nil), func(m *corev1.ConfigMap) error { m.Data = map[string]string{"a": "1"}; return nil })
		if err != nil || outcome != tarn.OutcomeCreated || made.Data["a"] != "1" {
			t.Errorf("%v, %s, %v", made, outcome, err)
		}
		same, outcome, err := c.CreateOrUpdate(ctx, configMap("web", nil), func(m *corev1.ConfigMap) error { m.Data = map[string]string{"a": "1"}; return nil })
		if err != nil || outcome != tarn.OutcomeUnchanged || same.ResourceVersion != made.ResourceVersion {
			t.Errorf("%v, %s, %v", same, outcome, err)
		}
		if _, _, err := c.CreateOrUpdate(ctx, configMap("web", nil), func(m *corev1.ConfigMap) error { m.Name = "other"; return nil }); err == nil {
			t.Error("mutate may change the name")
		}
		generated := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", GenerateName: "web-"}}
		if m, _, err := c.CreateOrUpdate(ctx, generated, func(*corev1.ConfigMap) error { return nil }); err == nil {
			t.Errorf("each call would create another object, such as %s", m.Name)
		}
		if now, err := c.PatchFrom(ctx, made, made); err != nil || now.ResourceVersion != made.ResourceVersion {
			t.Errorf("an empty patch: %v, %v", now, err)
		}
		if _, err := c.PatchFrom(ctx, made, configMap("other", nil)); err == nil {
			t.Error("a patch between two objects")
		}
		stale := made.DeepCopy()
		must(c.Patch(ctx, key("shop", "web"), wire.MergePatchOf(map[string]any{"data": map[string]any{"a": "2"}})))
		if _, err := c.Update(ctx, stale); !apierrors.IsConflict(err) {
			t.Errorf("an update of an old version: %v", err)
		}
		managers := func(name string) (names []string) {
			for _, f := range must(c.GetUncached(ctx, key("shop", name))).ManagedFields {
				names = append(names, f.Manager)
			}
			return names
		}
		must(c.Apply(ctx, configMap("applied", map[string]string{"a": "1"})))
		if got := managers("applied"); !slices.Equal(got, []string{"test"}) {
			t.Errorf("field managers %v", got)
		}
		if _, err := c.Apply(ctx, configMap("applied", map[string]string{"a": "2"}), tarn.FieldManager("other")); !apierrors.IsConflict(err) {
			t.Errorf("apply of another's field: %v", err)
		}
		for _, bad := range []any{nil, "text", map[string]any{}, &corev1.ConfigMap{}, configMap("", nil), map[string]any{"metadata": map[string]any{"name": "x"}}, func() {},
			&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "x"}}, corev1apply.Secret("x", "shop")} {
			if _, err := c.Apply(ctx, bad); err == nil {
				t.Errorf("applied %v", bad)
			}
		}
		if _, err := c.List(ctx, tarn.MatchingFields("metadata.name=web")); err == nil {
			t.Error("a field selector on the cache")
		}
		if list, err := c.ListUncached(ctx, tarn.MatchingFields("metadata.name=web")); err != nil || len(list) != 1 {
			t.Errorf("uncached: %v, %v", list, err)
		}
		if _, err := c.List(ctx, tarn.Matching("a in")); err == nil {
			t.Error("an invalid selector")
		}
		if err := c.Delete(ctx, key("shop", "web"), tarn.OnlyUID("another")); !apierrors.IsConflict(err) {
			t.Errorf("deletion with another UID: %v", err)
		}
		synctest.Wait()
		if shared, _ := maps.Get(key("shop", "applied")); len(shared.ManagedFields) != 0 {
			t.Error("the mirror keeps managed fields")
		}
	})
}

func TestClientWritesTheStatusAlone(t *testing.T) {
	withCluster(t, with(tarn.WithFieldManager("test")), func(t *testing.T, r *testCluster) {
		ctx := t.Context()
		c := must(tarn.MirrorOf[*appsv1.Deployment](r.Cluster)).Client()
		r.start()
		replicas := int32(2)
		d := must(c.Create(ctx, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: appsv1.DeploymentSpec{Replicas: &replicas}}))
		both := d.DeepCopy()
		*both.Spec.Replicas, both.Status.Replicas = 7, 1
		check := func(what string, d *appsv1.Deployment, err error, status int32) {
			t.Helper()
			if err != nil || d.Status.Replicas != status || *d.Spec.Replicas != 2 {
				t.Errorf("%s: %v, %v", what, d, err)
			}
		}
		d, err := c.UpdateStatus(ctx, both)
		check("update", d, err, 1)
		d, err = c.PatchStatus(ctx, key("shop", "web"), wire.MergePatchOf(map[string]any{"status": map[string]any{"replicas": 2}}))
		check("patch", d, err, 2)
		changed := d.DeepCopy()
		changed.Status.Replicas = 3
		d, err = c.PatchStatusFrom(ctx, d, changed)
		check("patch from", d, err, 3)
		changed.Status.Replicas, *changed.Spec.Replicas = 4, 9
		d, err = c.ApplyStatus(ctx, changed, tarn.Force())
		check("apply", d, err, 4)
	})
}

func TestClientKeepsAllDigitsOfAnInteger(t *testing.T) {
	withCluster(t, with(tarn.WithFieldManager("test")), func(t *testing.T, r *testCluster) {
		ctx := t.Context()
		if err := r.srv.Define(apiserver.Definition{Resource: widgets}); err != nil {
			t.Fatal(err)
		}
		c := must(tarn.MirrorResource(r.Cluster, wire.Unstructured(widgets))).Client()
		r.start()
		const exact = int64(1) << 53 // the next integer is not a float64
		gear := func(nanos int64) *unstructured.Unstructured {
			return &unstructured.Unstructured{Object: map[string]any{
				"metadata": map[string]any{"namespace": "shop", "name": "gear"}, "spec": map[string]any{"nanos": nanos},
			}}
		}
		check := func(what string, want int64, now *unstructured.Unstructured, err error) {
			t.Helper()
			if err != nil {
				t.Fatal(what, err)
			}
			if got, _, _ := unstructured.NestedInt64(now.Object, "spec", "nanos"); got != want {
				t.Errorf("%s: %d, want %d", what, got, want)
			}
		}
		now, err := c.Apply(ctx, gear(exact+1))
		check("apply", exact+1, now, err)
		for _, n := range []int64{exact, exact + 1, exact + 3} {
			changed := now.DeepCopy()
			if err := unstructured.SetNestedField(changed.Object, n, "spec", "nanos"); err != nil {
				t.Fatal(err)
			}
			if _, err = c.PatchFrom(ctx, now, changed); err != nil {
				t.Fatal(err)
			}
			now, err = c.GetUncached(ctx, key("shop", "gear"))
			check("patch", n, now, err)
		}
	})
}

func TestFinalizeKeepsWhatTheMirrorDrops(t *testing.T) {
	withCluster(t, with(tarn.WithFieldManager("test")), func(t *testing.T, r *testCluster) {
		ctx := t.Context()
		c := must(tarn.MirrorOf[*corev1.ConfigMap](r.Cluster, tarn.Drop(object.FieldPath{"data"}))).Client()
		r.start()
		must(c.Create(ctx, configMap("web", map[string]string{"a": "1"})))
		cleanup := func(context.Context, *corev1.ConfigMap) error { return nil }
		for _, name := range []string{"example.com/a", "example.com/b"} {
			stale := must(c.Get(ctx, key("shop", "web")))
			now, deleted, err := c.Finalize(ctx, stale, name, cleanup)
			if err != nil || deleted || now.Data["a"] != "1" || !slices.Contains(now.Finalizers, name) {
				t.Errorf("%v, %v, %v", now, deleted, err)
			}
			if _, _, err := c.Finalize(ctx, stale, name, cleanup); !apierrors.IsConflict(err) {
				t.Errorf("of an old version: %v", err)
			}
		}
		if err := c.Delete(ctx, key("shop", "web")); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"example.com/b", "example.com/a"} {
			now, deleted, err := c.Finalize(ctx, must(c.Get(ctx, key("shop", "web"))), name, cleanup)
			if err != nil || !deleted || now.Data["a"] != "1" || slices.Contains(now.Finalizers, name) {
				t.Errorf("%v, %v, %v", now, deleted, err)
			}
		}
		if _, err := c.Get(ctx, key("shop", "web")); !apierrors.IsNotFound(err) {
			t.Errorf("after the last finalizer: %v", err)
		}
	})
}

func TestClientWaitsForTheFirstList(t *testing.T) {
	withCluster(t, with(), func(t *testing.T, r *testCluster) {
		r.create(configMap("web", nil))
		remove := must(r.srv.Inject(apiserver.Fault{Kind: apiserver.Forbidden, Resource: "configmaps"}))
		c := must(tarn.MirrorOf[*corev1.ConfigMap](r.Cluster)).Client()
		r.start()
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.Get(short, key("shop", "web")); !apierrors.IsForbidden(err) {
			t.Errorf("before the list: %v", err)
		}
		if _, err := c.List(short); !apierrors.IsForbidden(err) {
			t.Errorf("before the list: %v", err)
		}
		remove()
		if _, err := c.Get(t.Context(), key("shop", "web")); err != nil {
			t.Error(err)
		}
	})
}

// The reconcile sees ErrStaleCache at most as a retry, and its own writes always.
func TestControllerRunsWithTheCluster(t *testing.T) {
	withCluster(t, with(), func(t *testing.T, r *testCluster) {
		must(r.srv.Inject(apiserver.Fault{Kind: apiserver.CutWatch, After: 1}))
		deployments := must(tarn.MirrorOf[*appsv1.Deployment](r.Cluster))
		maps := must(tarn.MirrorOf[*corev1.ConfigMap](r.Cluster))
		owners, children := deployments.Client(), maps.Client()
		var creations atomic.Int32
		ctl, err := tarn.NewController(r.Cluster, "web", func(ctx context.Context, key tarn.Key) (tarn.Result, error) {
			d, err := owners.Get(ctx, key)
			if err != nil {
				return tarn.Result{}, tarn.IgnoreNotFound(err)
			}
			d, deleted, err := owners.Finalize(ctx, d, "example.com/web", func(context.Context, *appsv1.Deployment) error { return nil })
			if err != nil || deleted {
				return tarn.Result{}, err
			}
			_, outcome, err := children.CreateOrUpdate(ctx, configMap(d.Name, nil), func(m *corev1.ConfigMap) error {
				m.Data = map[string]string{"image": d.Labels["image"]}
				return owners.SetOwner(m, d)
			})
			if outcome == tarn.OutcomeCreated {
				creations.Add(1)
			}
			return tarn.Result{}, err
		}, tarn.For(deployments, controller.SpecChanged[*appsv1.Deployment]()), tarn.Owns(maps))
		if err != nil {
			t.Fatal(err)
		}
		r.create(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Labels: map[string]string{"image": "one"}}})
		r.start()
		simtest.Advance(time.Minute)
		image := func() string {
			m, err := children.GetUncached(t.Context(), key("shop", "web"))
			if err != nil {
				return err.Error()
			}
			return m.Data["image"]
		}
		if image() != "one" || creations.Load() != 1 {
			t.Errorf("image %q, created %d times", image(), creations.Load())
		}
		if err := r.srv.Delete(configMap("web", nil)); err != nil { // a user
			t.Fatal(err)
		}
		simtest.Advance(time.Minute)
		if image() != "one" || creations.Load() != 2 {
			t.Errorf("after a deletion: image %q, created %d times", image(), creations.Load())
		}
		if _, err := tarn.NewController(r.Cluster, "web", nil); err == nil {
			t.Error("a controller without sources")
		}
		if _, err := tarn.NewController(r.Cluster, "web", func(context.Context, tarn.Key) (tarn.Result, error) { return tarn.Result{}, nil }, tarn.For(maps)); err == nil {
			t.Error("two controllers with one name")
		}
		late := make(chan tarn.Key, 10)
		must(tarn.NewController(r.Cluster, "late", func(_ context.Context, key tarn.Key) (tarn.Result, error) {
			late <- key
			return tarn.Result{}, nil
		}, tarn.Watches(maps, func(m *corev1.ConfigMap) []tarn.Key { return []tarn.Key{{Name: m.Name}} }), tarn.Workers(2)))
		if got := <-late; got != (tarn.Key{Name: "web"}) {
			t.Errorf("late controller: %s", got)
		}
		if st := ctl.Status(); st.Failed != 0 {
			t.Errorf("%+v", st)
		}
	})
}

func TestRunEndsWithTheControllerThatFailed(t *testing.T) {
	withCluster(t, with(), func(t *testing.T, r *testCluster) {
		cause := errors.New("no more")
		maps := must(tarn.MirrorOf[*corev1.ConfigMap](r.Cluster))
		must(tarn.NewController(r.Cluster, "ends", func(context.Context, tarn.Key) (tarn.Result, error) { return tarn.Result{}, nil },
			tarn.For(maps), tarn.From(controller.Source[object.Key]{Name: "broken", Run: func(context.Context, *controller.Intake[object.Key]) error { return cause }})))
		if err := r.Run(t.Context()); !errors.Is(err, cause) {
			t.Errorf("Run returned %v", err)
		}
		synctest.Wait()
		r.watches("configmaps", 0)
	})
}

// An update of what the mirror holds would delete what it lacks.
func TestClientRefusesUpdatesOfIncompleteObjects(t *testing.T) {
	withCluster(t, with(), func(t *testing.T, r *testCluster) {
		ctx := t.Context()
		made := configMap("web", map[string]string{"a": "1"})
		made.Annotations = map[string]string{"kubectl.kubernetes.io/last-applied-configuration": "{}"}
		r.create(made)
		keep := tarn.NewTransform("none", func(m *corev1.ConfigMap) (*corev1.ConfigMap, error) { return m, nil })
		dropping := must(tarn.MirrorOf[*corev1.ConfigMap](r.Cluster, tarn.Drop(object.LastApplied))).Client()
		transforming := must(tarn.MirrorTransformed(r.Cluster, wire.MustOf[*corev1.ConfigMap](), keep, tarn.InNamespaces("shop"))).Client()
		r.start()
		for _, c := range []*tarn.Client[*corev1.ConfigMap]{dropping, transforming} {
			synctest.Wait() // a client knows the writes of its own mirror only
			m := must(c.Get(ctx, key("shop", "web")))
			before := m.DeepCopy()
			m.Data["a"] += "1"
			if _, err := c.Update(ctx, m); err == nil || !strings.Contains(err.Error(), "use PatchFrom or Apply") {
				t.Errorf("update: %v", err)
			}
			if _, err := c.UpdateStatus(ctx, m); err == nil {
				t.Error("the status was updated")
			}
			if _, outcome, err := c.CreateOrUpdate(ctx, configMap("web", nil), func(m *corev1.ConfigMap) error { m.Data = nil; return nil }); err == nil || outcome != tarn.OutcomeUnchanged {
				t.Errorf("create or update: %s, %v", outcome, err)
			}
			must(c.PatchFrom(ctx, before, m))
		}
		now := must(dropping.GetUncached(ctx, key("shop", "web")))
		if now.Data["a"] != "111" || len(now.Annotations) != 1 {
			t.Errorf("%v", now)
		}
		if list, err := transforming.ListUncached(ctx); err != nil || len(list) != 1 {
			t.Errorf("uncached: %v, %v", list, err)
		}
	})
}

func TestAControllerIsRefusedAfterRun(t *testing.T) {
	withCluster(t, with(), func(t *testing.T, r *testCluster) {
		maps := must(tarn.MirrorOf[*corev1.ConfigMap](r.Cluster))
		r.start()
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		_, err := tarn.NewController(r.Cluster, "late", func(context.Context, tarn.Key) (tarn.Result, error) { return tarn.Result{}, nil }, tarn.For(maps))
		if !errors.Is(err, tarn.ErrStopped) {
			t.Errorf("error %v", err)
		}
	})
}
