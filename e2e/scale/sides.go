package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/wire"
)

// clientGo is client-go's side: shared informers as its users make them, pods in
// protobuf.
type clientGo struct {
	heard     *audience
	informers []cache.SharedIndexInformer
}

func newClientGo(config *rest.Config, heard *audience) (*clientGo, error) {
	proto := rest.CopyConfig(config)
	proto.ContentType, proto.AcceptContentTypes = "application/vnd.kubernetes.protobuf", "application/vnd.kubernetes.protobuf,application/json"
	clients, err := kubernetes.NewForConfig(proto)
	if err != nil {
		return nil, err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	c := &clientGo{heard: heard, informers: []cache.SharedIndexInformer{
		informers.NewSharedInformerFactory(clients, 0).Core().V1().Pods().Informer(),
		dynamicinformer.NewDynamicSharedInformerFactory(client, 0).ForResource(widgets.GVR()).Informer(),
	}}
	for _, inf := range c.informers {
		_, err := inf.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(obj any) { heard.hear(obj.(metav1.Object)) },
			UpdateFunc: func(_, obj any) { heard.hear(obj.(metav1.Object)) },
			DeleteFunc: func(any) { heard.calls.Add(1) },
		})
		if err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (c *clientGo) run(ctx context.Context) error {
	var all sync.WaitGroup
	for _, inf := range c.informers {
		all.Go(func() { inf.RunWithContext(ctx) })
	}
	all.Wait()
	return nil
}

// relisted: client-go calls handlers for every object of a relist, changed or not.
func (c *clientGo) relisted(ctx context.Context, before int64) error {
	want := before
	for _, inf := range c.informers {
		want += int64(len(inf.GetStore().ListKeys()))
	}
	return eventually(ctx, "a relist", func() error {
		if n := c.heard.calls.Load(); n < want {
			return fmt.Errorf("%d of %d calls", n, want)
		}
		return nil
	})
}

func (c *clientGo) visit(f func(metav1.Object)) {
	for _, inf := range c.informers {
		for _, obj := range inf.GetStore().List() {
			f(obj.(metav1.Object))
		}
	}
}

// tarnSide is Tarn's: two mirrors of a cluster.
type tarnSide struct {
	cluster *tarn.Cluster
	pods    *tarn.Mirror[*corev1.Pod]
	widgets *tarn.Mirror[*unstructured.Unstructured]
}

func newTarn(config *rest.Config, heard *audience, compact bool) (*tarnSide, error) {
	cluster, err := tarn.Connect(tarn.WithConfig(config))
	if err != nil {
		return nil, err
	}
	opts := []tarn.Option{tarn.KeepManagedFields()} // client-go keeps them
	if compact {
		opts = append(opts, tarn.Compact())
	}
	s := &tarnSide{cluster: cluster}
	if s.pods, err = tarn.MirrorOf[*corev1.Pod](cluster, opts...); err != nil {
		return nil, err
	}
	if s.widgets, err = tarn.MirrorResource(cluster, wire.Unstructured(widgets), opts...); err != nil {
		return nil, err
	}
	if err := listen(s.pods, heard); err != nil {
		return nil, err
	}
	return s, listen(s.widgets, heard)
}

func listen[T tarn.Object](h *tarn.Mirror[T], heard *audience) error {
	_, err := h.Subscribe(informer.Handler[T]{
		OnAdd:    func(obj T, _ bool) { heard.hear(obj) },
		OnUpdate: func(_, obj T) { heard.hear(obj) },
		OnDelete: func(T, bool) { heard.calls.Add(1) },
	}, informer.SubOptions[T]{})
	return err
}

func (s *tarnSide) run(ctx context.Context) error { return s.cluster.Run(ctx) }

// relisted: Tarn counts its lists, and does not call handlers for unchanged objects.
func (s *tarnSide) relisted(ctx context.Context, _ int64) error {
	return eventually(ctx, "a relist", func() error {
		for _, m := range s.cluster.Status().Mirrors {
			for _, src := range m.Informer.Sources {
				if src.Reflector.Counts.Lists < 2 {
					return errors.New(m.String())
				}
			}
			if n := m.Informer.Pending.Deltas; n > 0 {
				return fmt.Errorf("%s: %d deltas to apply", m, n)
			}
		}
		return nil
	})
}

func (s *tarnSide) visit(f func(metav1.Object)) {
	pods := s.pods.Snapshot()
	defer pods.Release()
	for obj := range pods.All() {
		f(obj)
	}
	things := s.widgets.Snapshot()
	defer things.Release()
	for obj := range things.All() {
		f(obj)
	}
}
