package adapters

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/tarnproject/tarn/e2e/patience"
	"github.com/tarnproject/tarn/e2e/sample"
)

// programs are the programs, without Tarn and with it.
var programs = []struct {
	name string
	make func(*testing.T, server, string) program
}{
	{"sample-controller, client-go", newSample(asItIs)},
	{"sample-controller, Tarn by the clientsets", newSample(byClientsets)},
	{"sample-controller, Tarn by the wire", newSample(byWire)},
	{"manager, controller-runtime", newPlainManager},
	{"manager, Tarn", newTarnManager},
}

// The restart is why this one does not run in parallel with others.
func TestProgramsRunUnchangedOnARealControlPlane(t *testing.T) { runPrograms(t, genuine(t)) }

func TestProgramsRunUnchangedOnTheEmbeddedServer(t *testing.T) {
	t.Parallel()
	runPrograms(t, embedded(t))
}

// runPrograms runs all programs side by side, each in a namespace of its own, lets the same
// happen to all, and compares what they make of it.
func runPrograms(t *testing.T, s server) {
	var sites []*site
	for _, p := range programs {
		sites = append(sites, newSite(t, s, p.name, p.make))
	}
	l := &life{t: t, sites: sites, wants: map[string]want{}}
	l.create(1, numbered("early", 0, 10)...)
	l.ignore("ignored")
	for _, site := range sites {
		defer site.run(t)()
	}
	l.settle("what was there at the start")

	l.create(1, numbered("burst", 0, 30)...)
	l.settle("a burst")

	l.scale(2, numbered("burst", 0, 30)...)
	for n := range int32(20) {
		l.scale(n+2, "early-0")
	}
	l.settle("updates")

	l.available("early-0", "early-1", "early-2")
	l.settle("the status of what is owned")

	l.each(func(ctx context.Context, s *site) error {
		return s.deployments.Delete(ctx, "early-3", metav1.DeleteOptions{})
	})
	l.drift("early-4", 9)
	l.settle("what is owned deleted and changed by others")

	s.missed(t, func() {
		l.delete(numbered("burst", 0, 5)...)
		l.create(3, "burst-3", "burst-4")
		l.create(1, numbered("late", 0, 5)...)
		l.scale(4, "burst-5")
		l.each(func(ctx context.Context, s *site) error {
			return s.deployments.Delete(ctx, "early-5", metav1.DeleteOptions{})
		})
	})
	l.settle("what was missed")

	l.delete(numbered("burst", 10, 20)...)
	l.settle("deletions")

	until(t, sites, "caches that are up to date", func(ctx context.Context, s *site) (string, error) { return s.behind(ctx) })
	for _, site := range sites {
		tombstones, reborn := site.observed.names()
		if !slices.Equal(tombstones, []string{"burst-0", "burst-1", "burst-2"}) || !slices.Equal(reborn, []string{"burst-3", "burst-4"}) {
			t.Errorf("%s: deleted unseen %v, made again unseen %v", site.name, tombstones, reborn)
		}
		t.Run(site.name, site.program.check)
	}
	left := make([]map[string]any, len(sites))
	for i, site := range sites {
		var err error
		if left[i], err = site.left(patience.Context(t)); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(left[0], left[i]); diff != "" {
			t.Errorf("%s and %s (+) leave behind different things:\n%s", sites[0].name, site.name, diff)
		}
	}
}

// life is what happens to Foos, at all sites alike, and what should become of it.
type life struct {
	t     *testing.T
	sites []*site
	wants map[string]want
}

func (l *life) each(do func(context.Context, *site) error) {
	l.t.Helper()
	together(l.t, l.sites, do)
}

// settle waits until all is as it should be.
func (l *life) settle(what string) {
	l.t.Helper()
	until(l.t, l.sites, what, func(ctx context.Context, s *site) (string, error) { return s.differs(ctx, l.wants) })
}

func (l *life) create(replicas int32, names ...string) {
	l.t.Helper()
	for _, name := range names {
		l.wants[name] = want{replicas: replicas}
	}
	l.each(func(ctx context.Context, s *site) error {
		for _, name := range names {
			if err := s.create(ctx, name, replicas, nil); err != nil {
				return err
			}
		}
		return nil
	})
}

// ignore makes a Foo that is none of the programs' business.
func (l *life) ignore(name string) {
	l.t.Helper()
	l.wants[name] = want{replicas: 1, ignored: true}
	l.each(func(ctx context.Context, s *site) error {
		return s.create(ctx, name, 1, map[string]string{sample.Ignored: "yes"})
	})
}

func (l *life) scale(replicas int32, names ...string) {
	l.t.Helper()
	for _, name := range names {
		l.wants[name] = want{replicas: replicas, available: l.wants[name].available}
	}
	l.each(func(ctx context.Context, s *site) error {
		for _, name := range names {
			if err := s.scale(ctx, name, replicas); err != nil {
				return err
			}
		}
		return nil
	})
}

// available makes all replicas of some Deployments available, as a cluster would.
func (l *life) available(names ...string) {
	l.t.Helper()
	for _, name := range names {
		w := l.wants[name]
		w.available = w.replicas
		l.wants[name] = w
		l.each(func(ctx context.Context, s *site) error {
			return onConflict(func() error {
				d, err := s.deployments.Get(ctx, name, metav1.GetOptions{})
				if err != nil {
					return err
				}
				d.Status.Replicas, d.Status.ReadyReplicas, d.Status.AvailableReplicas = w.replicas, w.replicas, w.replicas
				_, err = s.deployments.UpdateStatus(ctx, d, metav1.UpdateOptions{})
				return err
			})
		})
	}
}

// drift changes a Deployment away from its spec.
func (l *life) drift(name string, replicas int32) {
	l.t.Helper()
	l.each(func(ctx context.Context, s *site) error {
		return onConflict(func() error {
			d, err := s.deployments.Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			d.Spec.Replicas = &replicas
			_, err = s.deployments.Update(ctx, d, metav1.UpdateOptions{})
			return err
		})
	})
}

func (l *life) delete(names ...string) {
	l.t.Helper()
	for _, name := range names {
		delete(l.wants, name)
	}
	l.each(func(ctx context.Context, s *site) error {
		for _, name := range names {
			if err := s.foos.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
				return err
			}
		}
		return nil
	})
}

// numbered returns names with the numbers from one up to another.
func numbered(prefix string, from, to int) []string {
	var names []string
	for n := from; n < to; n++ {
		names = append(names, fmt.Sprint(prefix, "-", n))
	}
	return names
}

// onConflict retries after a conflicting write.
func onConflict(write func() error) error { return retry.RetryOnConflict(retry.DefaultRetry, write) }
