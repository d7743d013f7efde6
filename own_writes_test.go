package tarn_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/internal/sim/simtest"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
	"github.com/tarnproject/tarn/wire"
)

// A person strips the label by which the mirror selects. The next reconcile restores it.
func TestR12_CreateOrUpdateFindsAnObjectThatTheSelectorHides(t *testing.T) {
	withCluster(t, with(), func(t *testing.T, r *testCluster) {
		ctx := t.Context()
		c := must(tarn.MirrorOf[*corev1.ConfigMap](r.Cluster, tarn.Matching("app=web"))).Client()
		r.start()
		ensure := func() (*corev1.ConfigMap, tarn.Outcome, error) {
			return c.CreateOrUpdate(ctx, &corev1.ConfigMap{ObjectMeta: configMap("web", nil).ObjectMeta}, func(m *corev1.ConfigMap) error {
				if m.Labels == nil {
					m.Labels = map[string]string{}
				}
				m.Labels["app"], m.Data = "web", map[string]string{"n": "1"}
				return nil
			})
		}
		first, outcome, err := ensure()
		if err != nil || outcome != tarn.OutcomeCreated {
			t.Fatal(outcome, err)
		}
		stripped := first.DeepCopy()
		stripped.Labels, stripped.Data = nil, map[string]string{"n": "1", "kept": "no"}
		must(r.srv.Update(stripped))
		synctest.Wait()
		now, outcome, err := ensure()
		if err != nil || outcome != tarn.OutcomeUpdated || now.UID != first.UID || now.Labels["app"] != "web" || len(now.Data) != 1 {
			t.Fatalf("%v, %s, %v", now, outcome, err)
		}
		if got, err := c.Get(ctx, key("shop", "web")); err != nil || got.ResourceVersion != now.ResourceVersion {
			t.Errorf("%v, %v", got, err)
		}
		if _, outcome, err := ensure(); err != nil || outcome != tarn.OutcomeUnchanged {
			t.Errorf("again: %s, %v", outcome, err)
		}
	})
}

// picky is a transform that refuses objects with the label "bad".
var picky = tarn.NewTransform("picky", func(m *corev1.ConfigMap) (*corev1.ConfigMap, error) {
	if m.Labels["bad"] != "" {
		return nil, errors.New("it is bad")
	}
	return m, nil
})

func badMap(name string) *corev1.ConfigMap {
	m := configMap(name, nil)
	m.Labels = map[string]string{"app": "web", "bad": "1"}
	return m
}

// A controller that makes what its list does not have would make a child in every reconcile, if the list
// were silent about those that the mirror cannot read.
func TestR02_AListInAReconcileReportsAnUnreadableChild(t *testing.T) {
	withCluster(t, with(), func(t *testing.T, r *testCluster) {
		parents := must(tarn.MirrorOf[*corev1.Pod](r.Cluster))
		children := must(tarn.MirrorTransformed(r.Cluster, wire.MustOf[*corev1.ConfigMap](), picky)).Client()
		ctl := must(tarn.NewController(r.Cluster, "web", func(ctx context.Context, key tarn.Key) (tarn.Result, error) {
			if _, err := children.List(ctx, tarn.InNamespaces("bank")); errors.Is(err, controller.ErrNotSynced) {
				return tarn.Result{}, err
			} else if err != nil {
				t.Errorf("list of another namespace: %v", err)
			}
			if _, err := children.List(ctx, tarn.Matching("app=db")); err != nil {
				t.Errorf("list of other labels: %v", err)
			}
			found, err := children.List(ctx, tarn.InNamespaces(key.Namespace), tarn.Matching("app=web"))
			if err != nil || len(found) > 0 {
				return tarn.Result{}, err
			}
			child := badMap("")
			child.GenerateName = key.Name + "-"
			_, err = children.Create(ctx, child)
			return tarn.Result{Requeue: true}, err
		}, tarn.For(parents)))
		r.create(pod("shop", "web", ""))
		r.start()
		simtest.Advance(30 * time.Minute)
		all := must(children.ListUncached(t.Context()))
		if len(all) != 1 {
			t.Errorf("%d children after half an hour", len(all))
		}
		var q *informer.QuarantinedError
		if f := ctl.Status().Failures; len(f) != 1 || !errors.As(f[0].Err, &q) || q.Key.Name != all[0].Name {
			t.Errorf("failures: %+v", f)
		}
		// Outside of a reconcile too.
		if _, err := children.List(t.Context()); !errors.As(err, &q) {
			t.Errorf("list: %v", err)
		}
		if _, err := children.List(t.Context(), tarn.Matching("app=db")); err != nil {
			t.Errorf("list of other labels: %v", err)
		}
		if err := children.Delete(t.Context(), key("shop", all[0].Name)); err != nil {
			t.Error(err)
		}
		simtest.Advance(time.Second)
		if list, err := children.List(t.Context()); err != nil || len(list) > 1 {
			t.Errorf("after its deletion: %v, %v", list, err)
		}
	})
}

// The cache keeps the last good state of an object that another writer made unreadable, so that an update made
// from it conflicts for ever. That is a failure with the cause, not a quiet retry.
func TestR02_AKeyThatConflictsForEverIsVisible(t *testing.T) {
	var log strings.Builder
	synctest.Test(t, func(t *testing.T) {
		srv := apiserver.Start(t, apiserver.Options{AnyNamespace: true, Seed: 1})
		cluster := connect(t, tarn.WithConfig(srv.MemoryConfig()), tarn.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		r := &testCluster{Cluster: cluster, t: t, srv: srv}
		maps := must(tarn.MirrorTransformed(r.Cluster, wire.MustOf[*corev1.ConfigMap](), picky))
		c, kick := maps.Client(), make(chan tarn.Key)
		ctl := must(tarn.NewController(r.Cluster, "web", func(ctx context.Context, key tarn.Key) (tarn.Result, error) {
			m, err := c.Get(ctx, key)
			if err != nil {
				return tarn.Result{}, err
			}
			_, err = c.Patch(ctx, key, wire.MergePatchOf(map[string]any{"metadata": map[string]any{
				"resourceVersion": m.ResourceVersion, "annotations": map[string]any{"seen": "true"},
			}}))
			return tarn.Result{}, err
		}, tarn.For(maps, func(informer.Event[*corev1.ConfigMap]) bool { return false }), tarn.From(controller.Channel("kick", kick))))
		made := must(srv.Create(configMap("web", nil))).(*corev1.ConfigMap)
		r.start()
		bad := made.DeepCopy()
		bad.Labels["bad"] = "1"
		must(srv.Update(bad))
		synctest.Wait()
		kick <- key("shop", "web")
		simtest.Advance(time.Minute)
		f := ctl.Status().Failures
		var q *informer.QuarantinedError
		if len(f) != 1 || !errors.As(f[0].Err, &q) || !apierrors.IsConflict(f[0].Err) {
			t.Errorf("failures: %+v", f)
		}
		if !strings.Contains(log.String(), "it is bad") {
			t.Errorf("log: %s", log.String())
		}
	})
}

// Outside of a reconcile, reads wait for writes however many there are at the same time.
func TestH10_GetOutsideOfAReconcileNeverReportsAStaleCache(t *testing.T) {
	withClient(t, nil, func(t *testing.T, r *testCluster, maps *tarn.Mirror[*corev1.ConfigMap], c *tarn.Client[*corev1.ConfigMap]) {
		ctx, cancel := context.WithCancel(t.Context())
		must(c.Create(ctx, configMap("web", nil)))
		done := make(chan error, 8)
		for w := range cap(done) {
			go func() {
				for i := range 50 {
					if w%2 == 0 {
						_, _ = c.Patch(ctx, key("shop", "web"), wire.MergePatchOf(map[string]any{"data": map[string]any{fmt.Sprint(w): fmt.Sprint(i)}}))
					}
					if _, err := c.Get(ctx, key("shop", "web")); err != nil {
						done <- err
						return
					}
				}
				done <- nil
			}()
		}
		for range cap(done) {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		cancel()
	})
}

// A quiet mirror proves its state by one short watch: no list, no error, no back-off.
func TestH10_AQuietMirrorProvesItsStateWithinTwoSeconds(t *testing.T) {
	for name, c := range map[string]struct {
		mode reflector.Mode
		opts []tarn.Option
	}{
		"list":           {reflector.StreamingOff, nil},
		"streaming list": {reflector.StreamingOn, nil},
		"shard":          {reflector.StreamingAuto, []tarn.Option{tarn.InShard(tarn.NewShard(object.Part(object.ByUID, 0, 2)))}},
		"namespaces":     {reflector.StreamingAuto, []tarn.Option{tarn.InNamespaces("shop", "bank")}},
	} {
		t.Run(name, func(t *testing.T) {
			withCluster(t, with(tarn.WithTuning(tarn.Tuning{Streaming: c.mode})), func(t *testing.T, r *testCluster) {
				maps := must(tarn.MirrorOf[*corev1.ConfigMap](r.Cluster, c.opts...))
				r.start()
				simtest.Advance(10 * time.Second)
				lists := func() (n int64) {
					for _, s := range maps.Informer().Sources() {
						n += s.Reflector.Counts.Lists
						if s.Reflector.LastError != nil || s.Reflector.Counts.Waits > 0 || s.Reflector.Counts.Ended[reflector.Confirming] > 3 {
							t.Errorf("%+v", s.Reflector)
						}
					}
					return n
				}
				before := lists()
				for i := range 3 {
					r.create(pod("elsewhere", fmt.Sprint("p", i), "")) // another resource advances the version
					ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
					if err := maps.WaitFor(ctx, object.Version(fmt.Sprint(r.srv.Version()))); err != nil {
						t.Error(err)
					}
					cancel()
					simtest.Advance(time.Second)
				}
				if now := lists(); now != before {
					t.Errorf("%d lists, before %d", now, before)
				}
			})
		})
	}
}

// Where the server sends no bookmarks, what asks for them becomes rare, and shows.
func TestH10_WithoutBookmarksShortWatchesBecomeRare(t *testing.T) {
	withCluster(t, with(), func(t *testing.T, r *testCluster) {
		maps := must(tarn.MirrorOf[*corev1.ConfigMap](r.Cluster))
		r.start()
		must(r.srv.Inject(apiserver.Fault{Kind: apiserver.DropBookmarks}))
		r.create(pod("elsewhere", "p", ""))
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		want := object.Version(fmt.Sprint(r.srv.Version()))
		if err := maps.WaitFor(ctx, want); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		s := maps.Informer().Sources()[0].Reflector
		if n := s.Counts.Ended[reflector.Confirming]; n < 10 || n > 20 || s.Confirming != want || s.LastError != nil {
			t.Errorf("%d short watches, %+v", n, s)
		}
	})
}

// The deletion of an object whose life the mirror never showed is proven by a list of one object.
func TestR01_NothingIsKeptOfDeletionsInAMirrorWithASelector(t *testing.T) {
	withCluster(t, with(), func(t *testing.T, r *testCluster) {
		maps := must(tarn.MirrorOf[*corev1.ConfigMap](r.Cluster, tarn.Matching("app")))
		c := maps.Client()
		r.start()
		for i := range 100 {
			name := fmt.Sprint("m", i)
			must(c.Create(t.Context(), configMap(name, nil)))
			if err := c.Delete(t.Context(), key("shop", name)); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Get(t.Context(), key("shop", name)); !apierrors.IsNotFound(err) {
				t.Error(err)
			}
		}
		simtest.Advance(10 * time.Minute)
		if n := maps.Informer().Status().PendingWrites; n > 0 {
			t.Errorf("%d writes are still tracked", n)
		}
	})
}
