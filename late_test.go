package tarn_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/controller/leader"
	"github.com/tarnproject/tarn/controller/shard"
	"github.com/tarnproject/tarn/internal/sim/simtest"
)

// A replica sends a write, which is delayed until another one has taken over its keys and has written.
// Every write of what the first one has read is refused.
func TestP03_AWriteThatArrivesAfterATakeoverIsRefused(t *testing.T) {
	type write = func(ctx context.Context, c *tarn.Client[*corev1.ConfigMap], old, changed *corev1.ConfigMap) error
	for name, write := range map[string]write{
		"update": func(ctx context.Context, c *tarn.Client[*corev1.ConfigMap], _, changed *corev1.ConfigMap) error {
			_, err := c.Update(ctx, changed)
			return err
		},
		"patch from": func(ctx context.Context, c *tarn.Client[*corev1.ConfigMap], old, changed *corev1.ConfigMap) error {
			_, err := c.PatchFrom(ctx, old, changed)
			return err
		},
		"delete": func(ctx context.Context, c *tarn.Client[*corev1.ConfigMap], old, _ *corev1.ConfigMap) error {
			return c.Delete(ctx, key(old.Namespace, old.Name))
		},
	} {
		for _, sharing := range []func(name string) tarn.ConnectOption{
			func(name string) tarn.ConnectOption { return tarn.WithSharding("web", shard.Options{Member: name}) },
			func(string) tarn.ConnectOption { return tarn.WithLeaderElection("web", leader.Options{}) },
		} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					server := apiserver.Start(t, apiserver.Options{AnyNamespace: true, Seed: 1})
					create := func(owner string) {
						if _, err := server.Create(configMap("web", map[string]string{"owner": owner})); err != nil {
							t.Fatal(err)
						}
					}
					create("")
					late := make(chan error, 1)
					run := func(name string, reconcile func(context.Context, *simtest.LeaseLink, *tarn.Client[*corev1.ConfigMap], *corev1.ConfigMap) error) {
						link := simtest.NewLeaseLink(server.MemoryConfig(), name)
						cluster := connect(t, tarn.WithConfig(link.Config(server.MemoryConfig())), tarn.WithLogger(slog.New(slog.DiscardHandler)), sharing(name))
						maps := must(tarn.MirrorOf[*corev1.ConfigMap](cluster))
						client := maps.Client()
						must(tarn.NewController(cluster, "c", func(ctx context.Context, key tarn.Key) (tarn.Result, error) {
							m, err := client.Get(ctx, key)
							if err != nil || m.Data["owner"] != "" {
								return tarn.Result{}, tarn.IgnoreNotFound(err)
							}
							return tarn.Result{}, reconcile(ctx, link, client, m)
						}, tarn.For(maps)))
						ctx, cancel := context.WithCancel(context.Background())
						done := make(chan error, 1)
						go func() { done <- cluster.Run(ctx) }()
						t.Cleanup(func() { cancel(); <-done })
					}
					run("a", func(ctx context.Context, link *simtest.LeaseLink, c *tarn.Client[*corev1.ConfigMap], m *corev1.ConfigMap) error {
						changed := m.DeepCopy()
						changed.Data["owner"] = "a"
						link.Set(false, 2*time.Minute)
						time.AfterFunc(time.Minute, func() { link.Set(false, 0) })
						late <- write(ctx, c, m, changed)
						return nil
					})
					<-time.After(17 * time.Second)
					run("b", func(context.Context, *simtest.LeaseLink, *tarn.Client[*corev1.ConfigMap], *corev1.ConfigMap) error {
						// Another object, so that a deletion by name would find it.
						if err := server.Delete(configMap("web", nil)); err != nil {
							return err
						}
						create("b")
						return nil
					})
					<-time.After(5 * time.Minute)
					if err := <-late; err == nil {
						t.Error("the late write has succeeded")
					}
					obj, err := server.Get(corev1.SchemeGroupVersion.WithResource("configmaps"), key("shop", "web"))
					if err != nil || obj.(*corev1.ConfigMap).Data["owner"] != "b" {
						t.Errorf("after the late write: %v, %v", obj, err)
					}
				})
			})
		}
	}
}

// openFence is that of a process that leads, until it is closed.
type openFence struct {
	controller.Fence
	closed error
}

func (f *openFence) Check() error { return f.closed }

// With a fence, changes of other writers do not refuse a patch, but a new object does.
func TestAFencedPatchFromKeepsWhatOthersChanged(t *testing.T) {
	withClient(t, nil, func(t *testing.T, r *testCluster, maps *tarn.Mirror[*corev1.ConfigMap], c *tarn.Client[*corev1.ConfigMap]) {
		fence := &openFence{}
		ctx := controller.WithFence(t.Context(), fence)
		old := must(c.Create(ctx, configMap("web", map[string]string{"n": "0"})))
		patch := func(ctx context.Context, n int) (*corev1.ConfigMap, error) {
			changed := old.DeepCopy()
			changed.Data["n"] = fmt.Sprint(n)
			return c.PatchFrom(ctx, old, changed)
		}
		other := old.DeepCopy()
		other.Data["other"] = "1"
		other = must(c.Update(t.Context(), other))
		got, err := patch(ctx, 1)
		if err != nil || got.Data["n"] != "1" || got.Data["other"] != "1" {
			t.Errorf("after another writer: %v, %v", got, err)
		}
		changed := old.DeepCopy()
		changed.Data["n"], changed.ResourceVersion = "2", other.ResourceVersion
		if _, err := c.PatchFrom(ctx, old, changed); !apierrors.IsConflict(err) {
			t.Errorf("with an old version that the caller has set: %v", err)
		}
		fence.closed = controller.ErrNotLeading
		if _, err := patch(ctx, 3); !errors.Is(err, controller.ErrNotLeading) {
			t.Errorf("the fence is closed: %v", err)
		}
		fence.closed = nil
		if err := c.Delete(ctx, key("shop", "web")); err != nil {
			t.Fatal(err)
		}
		must(c.Create(ctx, configMap("web", nil)))
		if _, err := patch(ctx, 4); !apierrors.IsConflict(err) {
			t.Errorf("a patch of another object: %v", err)
		}
		if got, err := patch(t.Context(), 5); err != nil || got.Data["n"] != "5" {
			t.Errorf("without a fence: %v, %v", got, err)
		}
	})
}
