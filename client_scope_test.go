package tarn_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/informer"
)

func idle(context.Context, tarn.Key) (tarn.Result, error) { return tarn.Result{}, nil }

// A read or write outside of the mirror is an error, not an empty result or a second creation.
func TestClientRefusesWhatTheMirrorDoesNotCover(t *testing.T) {
	withCluster(t, with(), func(t *testing.T, r *testCluster) {
		ctx := t.Context()
		r.create(configMap("web", nil))
		inShop := must(tarn.MirrorOf[*corev1.ConfigMap](r.Cluster, tarn.InNamespaces("shop"))).Client()
		ours := must(tarn.MirrorOf[*corev1.ConfigMap](r.Cluster, tarn.Matching("app=web"))).Client()
		r.start()
		if list, err := inShop.List(ctx, tarn.InNamespaces("shop")); err != nil || len(list) != 1 {
			t.Errorf("list of the mirrored namespace: %v, %v", list, err)
		}
		if _, err := inShop.List(ctx, tarn.InNamespaces("shop", "bank")); !errors.Is(err, informer.ErrNotCovered) || !strings.Contains(err.Error(), "bank") {
			t.Errorf("list of another namespace: %v", err)
		}
		if _, err := inShop.Get(ctx, key("bank", "web")); !errors.Is(err, informer.ErrNotCovered) {
			t.Errorf("get in another namespace: %v", err)
		}
		for _, name := range []string{"web", "new"} {
			_, outcome, err := ours.CreateOrUpdate(ctx, configMap(name, nil), func(m *corev1.ConfigMap) error { m.Labels = nil; return nil })
			if !errors.Is(err, informer.ErrNotCovered) || !strings.Contains(err.Error(), "app=web") || outcome != tarn.OutcomeUnchanged {
				t.Errorf("%s without the label: %s, %v", name, outcome, err)
			}
		}
		if _, outcome, err := ours.CreateOrUpdate(ctx, configMap("new", nil), func(m *corev1.ConfigMap) error {
			m.Labels = map[string]string{"app": "web"}
			return nil
		}); err != nil || outcome != tarn.OutcomeCreated {
			t.Errorf("with the label: %s, %v", outcome, err)
		}
	})
}

func TestApplyOfAStructIsThatOfAPointer(t *testing.T) {
	withCluster(t, with(), func(t *testing.T, r *testCluster) {
		pods := must(tarn.MirrorOf[*corev1.Pod](r.Cluster)).Client()
		r.start()
		p := pod("shop", "web", "")
		p.Status.Phase, p.ResourceVersion, p.UID = corev1.PodRunning, "1", "of-another"
		if got, err := pods.Apply(t.Context(), *p, tarn.FieldManager("test")); err != nil || got.Status.Phase == corev1.PodRunning {
			t.Errorf("%v, %v", got, err)
		}
		if _, err := pods.Apply(t.Context(), *configMap("web", nil)); err == nil {
			t.Error("an object of another type was applied")
		}
	})
}

func TestControllerOptionsDoNotDependOnTheirOrder(t *testing.T) {
	cluster := connect(t, tarn.WithConfig(demoConfig))
	pods := must(tarn.MirrorOf[*corev1.Pod](cluster))
	maps := must(tarn.MirrorOf[*corev1.ConfigMap](cluster))
	others := tarn.WithControllerOptions(controller.Options[tarn.Key]{Attempts: 2})
	for name, opts := range map[string][]tarn.ControllerOption{
		"first": {tarn.Workers(3), others}, "last": {others, tarn.Workers(3)},
	} {
		ctl := must(tarn.NewController(cluster, name, idle, append(opts, tarn.For(pods))...))
		if got := ctl.Status().Workers; got != 3 {
			t.Errorf("Workers %s: %d workers", name, got)
		}
	}
	if _, err := tarn.NewController(cluster, "two", idle, tarn.For(pods), tarn.For(maps), tarn.Owns(maps)); err == nil || !strings.Contains(err.Error(), "controller.Owns") {
		t.Errorf("Owns with two For: %v", err)
	}
	must(tarn.NewController(cluster, "named", idle, tarn.For(pods), tarn.For(maps), tarn.From(controller.Owns(maps, pods))))
}

// A controller that comes while others drain is refused: it would never run.
func TestAControllerIsRefusedDuringShutdown(t *testing.T) {
	withCluster(t, with(), func(t *testing.T, r *testCluster) {
		maps := must(tarn.MirrorOf[*corev1.ConfigMap](r.Cluster))
		r.create(configMap("web", nil))
		refused := make(chan error, 1)
		must(tarn.NewController(r.Cluster, "drains", func(ctx context.Context, _ tarn.Key) (tarn.Result, error) {
			<-ctx.Done() // after Options.Grace
			_, err := tarn.NewController(r.Cluster, "late", idle, tarn.For(maps))
			refused <- err
			return tarn.Result{}, nil
		}, tarn.For(maps)))
		r.start()
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		if err := <-refused; !errors.Is(err, tarn.ErrStopped) {
			t.Errorf("error %v", err)
		}
	})
}

// While this process does not lead, writes are not sent. Dry runs are, and no read waits for them.
func TestADryRunIsNeitherFencedNorTracked(t *testing.T) {
	withCluster(t, with(), func(t *testing.T, r *testCluster) {
		maps := must(tarn.MirrorOf[*corev1.ConfigMap](r.Cluster)).Client()
		ctx := controller.WithFence(t.Context(), closedFence{})
		r.start()
		if _, err := maps.Create(ctx, configMap("web", nil)); !errors.Is(err, controller.ErrNotLeading) {
			t.Errorf("create: %v", err)
		}
		if _, err := maps.Create(ctx, configMap("web", nil), tarn.DryRun()); err != nil {
			t.Errorf("dry run: %v", err)
		}
		if list, err := maps.List(ctx); err != nil || len(list) != 0 {
			t.Errorf("list: %v, %v", list, err)
		}
	})
}

// closedFence is that of a process that does not lead.
type closedFence struct{ controller.Fence }

func (closedFence) Check() error { return controller.ErrNotLeading }

func TestServeReportsAPortThatIsInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	cluster := connect(t, tarn.WithConfig(demoConfig))
	if err := cluster.Serve(t.Context(), l.Addr().String()); err == nil || !strings.Contains(err.Error(), l.Addr().String()) {
		t.Errorf("error %v", err)
	}
}

// Events are in the namespace of the object, or in "default" for a cluster-scoped one.
func TestRBACRulesOfEventsAreWhereTheMirrorsAre(t *testing.T) {
	cluster := connect(t, tarn.WithConfig(demoConfig))
	cluster.Recorder("test")
	events := func() (namespaces []string) {
		rules := cluster.RBAC()
		for _, role := range rules.Roles() {
			for _, rule := range role.Rules {
				if slices.Contains(rule.Resources, "events") {
					namespaces = append(namespaces, role.Namespace)
				}
			}
		}
		for _, rule := range rules.Cluster {
			if slices.Contains(rule.Resources, "events") {
				namespaces = append(namespaces, "all")
			}
		}
		return namespaces
	}
	want := func(want ...string) {
		t.Helper()
		if got := events(); !slices.Equal(got, want) {
			t.Errorf("events in %v, want %v", got, want)
		}
	}
	want("all") // nothing says where
	must(tarn.MirrorOf[*corev1.Pod](cluster, tarn.InNamespaces("shop", "bank")))
	want("bank", "shop")
	must(tarn.MirrorOf[*corev1.Node](cluster))
	want("bank", "default", "shop")
	must(tarn.MirrorOf[*corev1.ConfigMap](cluster))
	want("all")
}
