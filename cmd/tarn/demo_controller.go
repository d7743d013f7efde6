package main

import (
	"context"
	"maps"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	tarn "github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire"
)

// summaryName is the name of the ConfigMap that the controller writes in each namespace.
const summaryName = "tarn-summary"

// summarizer is the demo's controller. It maintains a ConfigMap with the pod counts of each
// namespace. It reads only from mirrors and writes only changes.
type summarizer struct {
	namespaces *tarn.Handle[*corev1.Namespace]
	pods       *tarn.Handle[*corev1.Pod]
	configs    *controller.Client[*corev1.ConfigMap, wire.WriteOptions, wire.Patch, wire.ApplyOptions, wire.DeleteOptions]
}

func newSummarizer(namespaces *tarn.Handle[*corev1.Namespace], pods *tarn.Handle[*corev1.Pod], configs *tarn.Handle[*corev1.ConfigMap]) (*controller.Controller[object.Key], error) {
	s := &summarizer{namespaces: namespaces, pods: pods, configs: controller.NewClient(configs.API(), configs.Informer())}
	return controller.New("summary", s.reconcile,
		controller.Options[object.Key]{Workers: 2, Rate: 50, Timeout: 10 * time.Second, Grace: time.Second},
		controller.For(configs.Informer(), controller.Where(func(m *corev1.ConfigMap) bool { return m.Name == summaryName })),
		controller.Mapped(namespaces.Informer(), func(n *corev1.Namespace, add func(object.Key)) {
			add(object.Key{Namespace: n.Name, Name: summaryName})
		}),
		controller.Mapped(pods.Informer(), func(p *corev1.Pod, add func(object.Key)) {
			add(object.Key{Namespace: p.Namespace, Name: summaryName})
		}))
}

func (s *summarizer) reconcile(ctx context.Context, key object.Key) (controller.Result, error) {
	if n, ok := s.namespaces.Get(object.Key{Name: key.Namespace}); !ok || n.DeletionTimestamp != nil {
		return controller.Result{}, nil
	}
	have, ok, err := s.configs.Get(key)
	if err != nil {
		return controller.Result{}, err
	}
	want := s.summary(key.Namespace)
	switch {
	case !ok:
		_, err = s.configs.Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, Labels: map[string]string{"app": "tarn-demo"}},
			Data:       want,
		}, wire.WriteOptions{})
	case !maps.Equal(have.Data, want):
		next := have.DeepCopy()
		next.Data = want
		_, err = s.configs.Update(ctx, next, wire.WriteOptions{})
	}
	return controller.Result{}, err
}

// summary counts the pods of a namespace.
func (s *summarizer) summary(namespace string) map[string]string {
	snap := s.pods.Pin()
	defer snap.Release()
	pods, ready, restarts := 0, 0, 0
	nodes := map[string]bool{}
	for pod := range snap.Namespace(namespace) {
		pods++
		if pod.Spec.NodeName != "" {
			nodes[pod.Spec.NodeName] = true
		}
		for _, c := range pod.Status.ContainerStatuses {
			restarts += int(c.RestartCount)
			if c.Ready {
				ready++
			}
		}
	}
	return map[string]string{
		"pods": strconv.Itoa(pods), "ready": strconv.Itoa(ready), "nodes": strconv.Itoa(len(nodes)), "restarts": strconv.Itoa(restarts),
	}
}
