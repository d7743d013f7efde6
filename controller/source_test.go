package controller_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/internal/sim/simtest"
	"github.com/tarnproject/tarn/object"
)

// enqueued runs a controller of a source. The function it returns calls happens and returns the
// reconciled keys.
func enqueued[K comparable](t *testing.T, src controller.Source[K], parts ...controller.Runner) (after func(happens func()) []K) {
	t.Helper()
	var mu sync.Mutex
	var keys []K
	c, err := controller.New("told", func(_ context.Context, key K) (result, error) {
		mu.Lock()
		defer mu.Unlock()
		keys = append(keys, key)
		return result{}, nil
	}, controller.Options[K]{}, src)
	if err != nil {
		t.Fatal(err)
	}
	start(t, append(parts, c)...)
	return func(happens func()) []K {
		happens()
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		got := keys
		keys = nil
		return got
	}
}

func TestForEnqueuesEveryChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := simtest.Pods("shop/db", "shop/web")
		pods := newInformer("pods", srv)
		after := enqueued(t, controller.For(pods), pods)
		simtest.Want(t, "start", after(func() {}), []object.Key{object.RawKey("shop/db"), web})
		simtest.Want(t, "update", after(func() { srv.Set("shop/web", label[*corev1.Pod]("a", "b")) }), []object.Key{web})
		simtest.Want(t, "delete", after(func() { srv.Delete("shop/web") }), []object.Key{web})
		simtest.Want(t, "create", after(func() { srv.Set("shop/web") }), []object.Key{web})
	})
}

func TestPredicatesSkipChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := simtest.Pods()
		pods := newInformer("pods", srv)
		has := func(name string) controller.Predicate[*corev1.Pod] {
			return controller.Where(func(p *corev1.Pod) bool { return p.Labels[name] != "" })
		}
		after := enqueued(t, controller.For(pods, controller.AnyOf(has("a"), has("b")), has("c")), pods)
		simtest.Want(t, "no label", len(after(func() { srv.Set("shop/web") })), 0)
		simtest.Want(t, "only c", len(after(func() { srv.Set("shop/web", label[*corev1.Pod]("c", "1")) })), 0)
		simtest.Want(t, "enters", len(after(func() { srv.Set("shop/web", label[*corev1.Pod]("b", "1")) })), 1)
		simtest.Want(t, "inside", len(after(func() { srv.Set("shop/web", label[*corev1.Pod]("a", "1")) })), 1)
		simtest.Want(t, "leaves", len(after(func() { srv.Set("shop/web", label[*corev1.Pod]("c", "")) })), 1)
		simtest.Want(t, "outside", len(after(func() { srv.Set("shop/web", label[*corev1.Pod]("x", "1")) })), 0)
	})
}

// Generations from before and after a restore cannot be compared.
func TestW19_SpecChangedLetsARewindPass(t *testing.T) {
	var e informer.Event[*corev1.Pod]
	e.Kind, e.Rewound = object.Updated, true
	if !controller.SpecChanged[*corev1.Pod]()(e) {
		t.Error("an update across a rewind is left out")
	}
}

func TestSpecChangedLeavesOutTheStatusOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := simtest.Pods()
		pods := newInformer("pods", srv)
		after := enqueued(t, controller.For(pods, controller.SpecChanged[*corev1.Pod]()), pods)
		yes := true
		for what, tt := range map[string]struct {
			edit func(*corev1.Pod)
			keys int
		}{
			"status":     {func(p *corev1.Pod) { p.Status.Message = "x" }, 0},
			"generation": {func(p *corev1.Pod) { p.Generation++ }, 1},
			"label":      {label[*corev1.Pod]("x", "y"), 1},
			"annotation": {func(p *corev1.Pod) { p.Annotations = map[string]string{"x": "y"} }, 1},
			"finalizer":  {func(p *corev1.Pod) { p.Finalizers = []string{"x/y"} }, 1},
			"owner":      {func(p *corev1.Pod) { p.OwnerReferences = []metav1.OwnerReference{{UID: "o", Controller: &yes}} }, 1},
			"deletion":   {func(p *corev1.Pod) { now := metav1.Now(); p.DeletionTimestamp, p.Finalizers = &now, []string{"x/y"} }, 1},
			"unknown":    {func(p *corev1.Pod) { p.Generation = 0 }, 1},
		} {
			key := "shop/" + what
			after(func() { srv.Set(key, func(p *corev1.Pod) { p.Generation = 7 }) })
			simtest.Want(t, what, len(after(func() { srv.Set(key, tt.edit) })), tt.keys)
		}
		after(func() { srv.Set("shop/none") })
		simtest.Want(t, "no generation", len(after(func() { srv.Set("shop/none", func(p *corev1.Pod) { p.Status.Message = "x" }) })), 1)
	})
}

var namespaceType = object.Resource{Version: "v1", Resource: "namespaces", Kind: "Namespace"}

func TestOwnsEnqueuesTheOwnerByKindAndUID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		owners, children := simtest.New[*corev1.ConfigMap](100), simtest.Pods()
		owner := owners.Set("shop/owner")
		cms, pods := newInformer("configmaps", owners), newInformer("pods", children)
		after := enqueued(t, controller.Owns(pods, cms), cms, pods)
		ref := func(apiVersion, kind, name string, uid object.UID) func(*corev1.Pod) {
			return func(p *corev1.Pod) {
				p.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: name, UID: uid}}
			}
		}
		key := object.RawKey("shop/owner")
		simtest.Want(t, "without an owner", len(after(func() { children.Set("shop/free") })), 0)
		simtest.Want(t, "owned", after(func() { children.Set("shop/p", ref("v1", "ConfigMap", "owner", owner.UID)) }), []object.Key{key})
		simtest.Want(t, "another UID", len(after(func() { children.Set("shop/q", ref("v1", "ConfigMap", "owner", "before")) })), 0)
		simtest.Want(t, "another group", len(after(func() { children.Set("shop/r", ref("x.io/v1", "ConfigMap", "owner", owner.UID)) })), 0)
		simtest.Want(t, "another kind", len(after(func() { children.Set("shop/s", ref("v1", "Secret", "owner", owner.UID)) })), 0)
		simtest.Want(t, "unknown yet", after(func() { children.Set("shop/u", ref("v1", "ConfigMap", "later", "u-later")) }), []object.Key{object.RawKey("shop/later")})
		simtest.Want(t, "from one to the other", after(func() { children.Set("shop/u", ref("v1", "ConfigMap", "owner", owner.UID)) }),
			[]object.Key{object.RawKey("shop/later"), key})
		simtest.Want(t, "deleted", after(func() { children.Delete("shop/p") }), []object.Key{key})
	})
}

func TestOwnsByClusterScopedObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		owners, children := simtest.New[*corev1.Namespace](100), simtest.Pods()
		owner := owners.Set("team")
		nss, pods := newInformer("namespaces", owners), newInformer("pods", children)
		after := enqueued(t, controller.Owns(pods, nss), nss, pods)
		got := after(func() {
			children.Set("shop/p", func(p *corev1.Pod) {
				if err := controller.SetOwner(p, owner, namespaceType); err != nil {
					t.Error(err)
				}
			})
		})
		simtest.Want(t, "received", got, []object.Key{{Name: "team"}})
	})
}

func TestWatchesEnqueuesKeysOfAnyType(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := simtest.Pods()
		pods := newInformer("pods", srv)
		node := func(name string) func(*corev1.Pod) {
			return func(p *corev1.Pod) { p.Spec.NodeName = name }
		}
		after := enqueued(t, controller.Watches(pods, func(p *corev1.Pod, add func(string)) {
			if p.Spec.NodeName == "bad" {
				panic("bad node")
			}
			add(p.Spec.NodeName)
		}), pods)
		simtest.Want(t, "create", after(func() { srv.Set("shop/web", node("n1")) }), []string{"n1"})
		simtest.Want(t, "move", after(func() { srv.Set("shop/web", node("n2")) }), []string{"n1", "n2"})
		// A panic loses only that object's keys.
		got := after(func() {
			srv.Hold(true)
			srv.Set("shop/x", node("n3"))
			srv.Set("shop/y", node("bad"))
			srv.Set("shop/z", node("n4"))
			srv.Hold(false)
		})
		simtest.Want(t, "around a panic", got, []string{"n3", "n4"})
		simtest.Want(t, "delete", after(func() { srv.Delete("shop/x") }), []string{"n3"})
	})
}

func TestAPanicInASourceIsCountedAndReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		pods := newInformer("pods", simtest.Pods("shop/web"))
		c := newController(t, func(context.Context, object.Key) (result, error) { return result{}, nil },
			options{Logger: logTo(&log)}, controller.For(pods, func(informer.Event[*corev1.Pod]) bool { panic("no idea") }))
		start(t, pods, c)
		synctest.Wait()
		simtest.Want(t, "counted", c.Status().SourceFailures, 1)
		if !strings.Contains(log.String(), "no idea") || !strings.Contains(log.String(), "source=pods") {
			t.Error(log.String())
		}
	})
}

func TestEveryAddsOnceInAPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		after := enqueued(t, controller.Every(time.Minute, func(add func(string)) {
			if n++; n == 2 {
				panic("once") // later calls succeed
			}
			add("a")
			add("b")
		}))
		simtest.Want(t, "at first", len(after(func() {})), 0)
		simtest.Want(t, "in three periods", after(func() { simtest.Advance(3*time.Minute + time.Second) }), []string{"a", "b", "a", "b"})
	})
}

func TestEveryNeedsAPeriod(t *testing.T) {
	c, err := controller.New("x", func(context.Context, string) (result, error) { return result{}, nil },
		controller.Options[string]{}, controller.Every(0, func(func(string)) {}))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "the period is 0s") {
		t.Error(err)
	}
}

func TestAClosedChannelEndsItsSourceOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys := make(chan string, 2)
		keys <- "a"
		after := enqueued(t, controller.Channel("keys", keys))
		simtest.Want(t, "received", after(func() { close(keys) }), []string{"a"})
		simtest.Want(t, "then", len(after(func() { simtest.Advance(time.Hour) })), 0)
	})
}

func TestManyKeysArriveOnceEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := simtest.Pods()
		var all []object.Key
		for i := range 3000 { // more than one batch
			all = append(all, simtest.KeyOf(srv.Set("shop/"+strings.Repeat("x", i%7)+string(rune('a'+i%26))+time.Duration(i).String())))
		}
		pods := newInformer("pods", srv)
		after := enqueued(t, controller.For(pods), pods)
		got := after(func() {})
		slices.SortFunc(got, object.Key.Compare)
		slices.SortFunc(all, object.Key.Compare)
		simtest.Want(t, "keys", got, slices.Compact(all))
	})
}
