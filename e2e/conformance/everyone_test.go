package conformance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tarnproject/tarn/clientgo"
	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/e2e/patience"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// everyone is all that follows the same config maps beside a mirror: a controller, an
// informer of client-go's by the wire, and one by a clientset. They go through what a mirror
// goes through, and must come to the same end.
type everyone struct {
	*ledger
	adapters map[string]*adapter
}

func startEveryone(t *testing.T, s server, config *rest.Config, m *mirror[*corev1.ConfigMap]) everyone {
	t.Helper()
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	api := clients.CoreV1().ConfigMaps(s.namespace)
	return everyone{startController(t, m), map[string]*adapter{
		"the wire": startAdapter(t, byWire(t, config, configMaps, s.namespace), &corev1.ConfigMap{}),
		"a clientset": startAdapter(t, &cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) { return api.List(ctx, opts) },
			WatchFuncWithContext: func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
				return api.Watch(ctx, opts)
			},
		}, &corev1.ConfigMap{}),
	}}
}

// same waits until all have what the mirror has, which is what a list has.
func (e everyone) same(t *testing.T, s server, m *mirror[*corev1.ConfigMap]) {
	t.Helper()
	m.same(t, s)
	want := m.versions()
	for name, a := range e.adapters {
		a.has(t, name, want)
	}
	e.reconciled(t, want)
}

// adapter is one of client-go's informers as Tarn makes them.
type adapter struct {
	cache.SharedIndexInformer
	mu   sync.Mutex // guards view
	view map[string]string
}

func byWire[T runtime.Object](t *testing.T, config *rest.Config, res wire.Resource[T], namespace string) cache.ListerWatcher {
	t.Helper()
	client, err := wire.New(config, wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdleConnections)
	lw, err := clientgo.NewListWatch(client, res, clientgo.ListWatchOptions{Namespace: namespace})
	if err != nil {
		t.Fatal(err)
	}
	return lw
}

// startAdapter runs an informer until the test ends, with a handler that keeps the versions
// that it receives.
func startAdapter(t *testing.T, lw cache.ListerWatcher, example runtime.Object) *adapter {
	t.Helper()
	a := &adapter{SharedIndexInformer: clientgo.NewSharedIndexInformer(lw, example, 0, cache.Indexers{}), view: map[string]string{}}
	set := func(obj any, deleted bool) {
		if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = tombstone.Obj
		}
		o := obj.(metav1.Object)
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.view[o.GetName()] = o.GetResourceVersion(); deleted {
			delete(a.view, o.GetName())
		}
	}
	if _, err := a.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { set(obj, false) }, UpdateFunc: func(_, obj any) { set(obj, false) }, DeleteFunc: func(obj any) { set(obj, true) },
	}); err != nil {
		t.Fatal(err)
	}
	if err := a.SetWatchErrorHandlerWithContext(func(context.Context, *cache.Reflector, error) {}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ran := make(chan struct{})
	go func() { a.RunWithContext(ctx); close(ran) }()
	t.Cleanup(func() { stop(); <-ran })
	return a
}

// has waits until the store has the versions, and the handler has received them.
func (a *adapter) has(t *testing.T, name string, want map[string]string) {
	t.Helper()
	var got, received map[string]string
	defer func() {
		if t.Failed() {
			t.Logf("%s has %v and received %v", name, got, received)
		}
	}()
	patience.Until(t, name+" to have the same", func() bool {
		got = map[string]string{}
		for _, obj := range a.GetStore().List() {
			got[obj.(metav1.Object).GetName()] = obj.(metav1.Object).GetResourceVersion()
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		received = maps.Clone(a.view)
		return maps.Equal(got, want) && maps.Equal(received, want)
	})
}

// ledger is a controller that notes the version it saw of each object when it was last
// called for it.
type ledger struct {
	mu   sync.Mutex // guards seen
	seen map[string]string
}

func startController[T metav1.Object](t *testing.T, m *mirror[T]) *ledger {
	t.Helper()
	l := &ledger{seen: map[string]string{}}
	c, err := controller.New("ledger", func(_ context.Context, key object.Key) (controller.Result, error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if obj, ok := m.Get(key); ok {
			l.seen[key.Name] = obj.GetResourceVersion()
		} else {
			delete(l.seen, key.Name)
		}
		return controller.Result{}, nil
	}, controller.Options[object.Key]{Workers: 2, SyncTimeout: -1}, controller.For(m.Informer))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- c.Run(ctx) }()
	t.Cleanup(func() { stop(); ended(t, <-ran) })
	return l
}

// ended checks how a controller ended. That there was something left to do is fine.
func ended(t *testing.T, err error) {
	t.Helper()
	var left *controller.UnfinishedError[object.Key]
	if err != nil && (!errors.As(err, &left) || len(left.Running) > 0) {
		t.Error(err)
	}
}

// reconciled waits until the controller was last called for each object as it is.
func (l *ledger) reconciled(t *testing.T, want map[string]string) {
	t.Helper()
	patience.Until(t, "every key to be reconciled", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return maps.Equal(l.seen, want)
	})
}

// TestEveryoneGoesOn spoils some of the first watches of everybody, each in another way, and
// cuts some lists off.
func TestEveryoneGoesOn(t *testing.T) {
	onBoth(t, func(t *testing.T, s server) {
		w := writer{t, s}
		for i := range 5 {
			w.create(fmt.Sprint("first-", i), "0")
		}
		b := &between{watch: func(n int, query url.Values) *edit {
			if n > 16 {
				return nil
			}
			return []*edit{
				{before: []frame{failure(http.StatusGone, metav1.StatusReasonExpired)}, end: true},
				{before: []frame{failure(http.StatusInternalServerError, metav1.StatusReasonInternalError)}, end: true},
				{before: []frame{{all: []byte("{\n")}}, end: true},
				{each: func(f frame) []frame { return []frame{f, f} }},
			}[n%4]
		}}
		config := truncate(b.put(s.config), 2, 300, func(query string) bool { return !strings.Contains(query, "watch=") })
		m := startMirror(t, config, configMaps, plain(s, nil))
		all := startEveryone(t, s, config, m)
		for i := range 20 {
			name := fmt.Sprint("later-", i)
			w.create(name, "0")
			if i%2 == 0 {
				w.update(name, "1")
			}
			if i%3 == 0 {
				w.delete(name)
			}
		}
		all.same(t, s, m)
	})
}

// TestControllersWrite has a controller keep a copy of each config map that asks for one,
// while connections are cut under it. It must never fail to see what it wrote itself.
func TestControllersWrite(t *testing.T) {
	onBoth(t, func(t *testing.T, s server) {
		w := writer{t, s}
		m := startMirror(t, s.config, configMaps, plain(s, nil))
		api, client := wire.For(newClient(t, s), configMaps), controller.Track(m.Informer)
		update := func(ctx context.Context, cm *corev1.ConfigMap) (*corev1.ConfigMap, error) {
			return client.Write(ctx, object.Key{Namespace: cm.Namespace, Name: cm.Name}, func(ctx context.Context) (*corev1.ConfigMap, error) {
				return api.Update(ctx, cm, wire.WriteOptions{})
			})
		}
		const cleanup = controller.Finalizer("conformance.example.com/copy")
		var mu sync.Mutex
		var blind []string
		c, err := controller.New("copies", func(ctx context.Context, key object.Key) (controller.Result, error) {
			cm, ok, err := client.Get(key)
			if err != nil || !ok || cm.Labels["value"] != "source" {
				return controller.Result{}, err
			}
			copied := object.Key{Namespace: key.Namespace, Name: key.Name + "-copy"}
			now, gone, err := controller.Finalize(ctx, update, cm, cleanup, func(ctx context.Context, _ *corev1.ConfigMap) error {
				err := client.Delete(ctx, copied, func(ctx context.Context) (object.Deletion, error) {
					return api.DeleteReturning(ctx, copied, wire.DeleteOptions{})
				})
				if !apierrors.IsNotFound(err) {
					return err
				}
				return nil
			})
			if err != nil || gone {
				return controller.Result{}, err
			}
			have, ok, err := client.Get(copied)
			if err != nil || ok && have.Data["value"] == now.Data["value"] {
				return controller.Result{}, err
			}
			next := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: copied.Namespace, Name: copied.Name}, Data: now.Data}
			if err := controller.SetOwner(next, now, configMaps.Resource); err != nil {
				return controller.Result{}, controller.Terminal(err)
			}
			if ok {
				next.ResourceVersion = have.ResourceVersion
				_, err = update(ctx, next)
				return controller.Result{}, err
			}
			_, err = client.Write(ctx, copied, func(ctx context.Context) (*corev1.ConfigMap, error) {
				return api.Create(ctx, next, wire.WriteOptions{})
			})
			if apierrors.IsAlreadyExists(err) {
				mu.Lock()
				defer mu.Unlock()
				blind = append(blind, key.Name)
			}
			return controller.Result{}, err
		}, controller.Options[object.Key]{Workers: 2}, controller.For(m.Informer), controller.Owns(m.Informer, m.Informer))
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		go func() { ran <- controller.Run(ctx, c) }()
		defer func() { stop(); ended(t, <-ran) }()
		typed := s.clientset(t).CoreV1().ConfigMaps(s.namespace)
		source := func(name, value string) *corev1.ConfigMap {
			cm := w.configMap(name, "source")
			cm.Data["value"] = value
			return cm
		}
		for i := range 10 {
			if _, err := typed.Create(patience.Context(t), source(fmt.Sprint("s", i), "0"), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		patch := func(name, value string) {
			if _, err := typed.Patch(patience.Context(t), name, "application/merge-patch+json", []byte(`{"data":{"value":"`+value+`"}}`), metav1.PatchOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		want := map[string]string{}
		for i := range 10 {
			name := fmt.Sprint("s", i)
			if i < 3 {
				w.delete(name)
				continue
			}
			patch(name, "1")
			want[name], want[name+"-copy"] = "1", "1"
		}
		patience.Until(t, "a copy of each, and of none that was deleted", func() bool {
			list, err := typed.List(patience.Context(t), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]string{}
			for _, cm := range list.Items {
				got[cm.Name] = cm.Data["value"]
				if owner, ok := controller.OwnerOf(&cm); strings.HasSuffix(cm.Name, "-copy") && (!ok || owner.Name+"-copy" != cm.Name) {
					t.Fatalf("%s is owned by %v", cm.Name, owner)
				}
			}
			return maps.Equal(got, want)
		})
		mu.Lock()
		defer mu.Unlock()
		slices.Sort(blind)
		if len(blind) > 0 {
			t.Errorf("%v were created twice: their reconciles did not see what they had written", blind)
		}
	})
}
