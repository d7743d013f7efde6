package main

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/tarnproject/tarn/controllerruntime"
	"github.com/tarnproject/tarn/object"
)

// managed is a cache of controller-runtime's interface, as a manager has it: a predicate and a queue on each kind, and
// a client that reads from it.
type managed struct {
	pods, things int
	cache        cache.Cache
	client       client.Client
	sources      []source.SyncingSource
	queue        priorityqueue.PriorityQueue[reconcile.Request]
}

// cacheOf returns the constructor of a side's cache.
func cacheOf(side string) cache.NewCacheFunc {
	switch side {
	case sideUnder:
		return controllerruntime.NewCache
	case sideUnderDecoded:
		return controllerruntime.Cache(controllerruntime.Options{Default: controllerruntime.Kind{Form: controllerruntime.Decoded}})
	}
	return cache.New
}

// byNode is the field that pods are indexed by.
const byNode = "spec.nodeName"

func newManaged(ctx context.Context, t task, config *rest.Config, heard *audience) (*managed, error) {
	ctrl.SetLogger(logr.Discard())
	c, err := cacheOf(t.Side)(config, cache.Options{})
	if err != nil {
		return nil, err
	}
	m := &managed{pods: t.Pods, things: t.Objects - t.Pods - 2, cache: c, queue: priorityqueue.New[reconcile.Request]("scale")}
	m.client, err = client.New(config, client.Options{Cache: &client.CacheOptions{Reader: c, Unstructured: true}})
	if err != nil {
		return nil, err
	}
	err = c.IndexField(ctx, &corev1.Pod{}, byNode, func(obj client.Object) []string { return []string{obj.(*corev1.Pod).Spec.NodeName} })
	if err != nil {
		return nil, err
	}
	every := predicate.NewPredicateFuncs(func(obj client.Object) bool {
		heard.hear(obj)
		return true
	})
	for _, obj := range []client.Object{&corev1.Pod{}, custom0(widgets)} {
		m.sources = append(m.sources, source.Kind[client.Object](c, obj, &handler.EnqueueRequestForObject{}, every))
	}
	return m, nil
}

// custom0 returns an empty object of a custom resource.
func custom0(res object.Resource) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(res.GVK())
	return u
}

func (m *managed) run(ctx context.Context) error {
	var all sync.WaitGroup
	defer all.Wait()
	all.Go(func() {
		for {
			request, shutdown := m.queue.Get()
			if shutdown {
				return
			}
			m.queue.Done(request)
		}
	})
	defer m.queue.ShutDown()
	for _, src := range m.sources {
		if err := src.Start(ctx, m.queue); err != nil {
			return err
		}
	}
	return m.cache.Start(ctx)
}

// relisted is not a step of managers.
func (m *managed) relisted(context.Context, int64) error { return nil }

// visit lists namespace by namespace, so that few objects are decoded at a time.
func (m *managed) visit(f func(metav1.Object)) {
	for i := range namespaces {
		var pods corev1.PodList
		things := &unstructured.UnstructuredList{}
		things.SetGroupVersionKind(custom0(widgets).GroupVersionKind())
		for _, list := range []client.ObjectList{&pods, things} {
			if err := m.cache.List(context.Background(), list, client.InNamespace(namespace(i))); err != nil {
				panic(err) // the cache has synced
			}
		}
		for i := range pods.Items {
			f(&pods.Items[i])
		}
		for i := range things.Items {
			f(&things.Items[i])
		}
	}
}

// reads measures the reads of a reconciler.
func (m *managed) reads(ctx context.Context) (all []read, err error) {
	node := func(i int) client.MatchingFields {
		return client.MatchingFields{byNode: fmt.Sprintf("node-%04d", i*7%1000)}
	}
	get := func(obj client.Object, n int, name string) func(int) error {
		return func(i int) error {
			i = i * 7919 % n
			return m.client.Get(ctx, client.ObjectKey{Namespace: namespace(i), Name: fmt.Sprintf(name, i)}, obj)
		}
	}
	list := func(opts func(i int) []client.ListOption) func(int) error {
		return func(i int) error { return m.client.List(ctx, &corev1.PodList{}, opts(i)...) }
	}
	for _, r := range []struct {
		name string
		f    func(int) error
	}{
		{"Get a pod", get(&corev1.Pod{}, m.pods, "pod-%06d")},
		{"Get a custom resource", get(custom0(widgets), m.things, "widget-%06d")},
		{fmt.Sprintf("List %d by field", m.pods/1000), list(func(i int) []client.ListOption { return []client.ListOption{node(i)} })},
		{fmt.Sprintf("List %d of a namespace by label", m.pods/namespaces/3), list(func(i int) []client.ListOption {
			return []client.ListOption{client.InNamespace(namespace(i)), client.MatchingLabels{"tier": "front"}}
		})},
		{"List by field without copies", list(func(i int) []client.ListOption { return []client.ListOption{node(i), client.UnsafeDisableDeepCopy} })},
	} {
		cost, err := measured(r.name, r.f)
		if err != nil {
			return nil, err
		}
		all = append(all, cost)
	}
	return all, nil
}

// manage measures the start of a manager with a controller of each small kind, until each object was reconciled.
func manage(ctx context.Context, t task, config *rest.Config) (result, error) {
	ctrl.SetLogger(logr.Discard())
	m := begin(0, 0)
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		NewCache: cacheOf(t.Side), Metrics: metricsserver.Options{BindAddress: "0"}, Logger: logr.Discard(),
	})
	if err != nil {
		return result{}, err
	}
	var reconciled atomic.Int64
	all, want := make(chan struct{}), int64(t.Kinds*perSmall)
	for _, res := range small(t.Kinds) {
		err := ctrl.NewControllerManagedBy(mgr).Named(res.Resource).For(custom0(res)).
			Complete(reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
				if reconciled.Add(1) == want {
					close(all)
				}
				return reconcile.Result{}, nil
			}))
		if err != nil {
			return result{}, err
		}
	}
	ctx, stop := context.WithCancel(ctx)
	ran := make(chan error, 1)
	go func() { ran <- mgr.Start(ctx) }()
	select {
	case <-all:
	case err := <-ran:
		stop()
		return result{}, fmt.Errorf("the manager ended early: %w", err)
	}
	r := m.end(fmt.Sprintf("manager, %d kinds", t.Kinds), reconciled.Load(), 0)
	r.Goroutines = runtime.NumGoroutine()
	stop()
	return r, <-ran
}
