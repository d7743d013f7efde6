package cli

import (
	"context"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	tarn "github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/store"
	"github.com/tarnproject/tarn/wire"
)

const (
	// summaryName is the name of the ConfigMap that the controller writes in each namespace.
	summaryName = "tarn-summary"
	// demoHistory is how many versions of each object the console shows.
	demoHistory = 10
)

// summarizer is the demo's controller. It maintains a ConfigMap with the pod counts of each
// namespace. It reads only from mirrors and writes only changes.
type summarizer struct {
	namespaces *tarn.Mirror[*corev1.Namespace]
	pods       *tarn.Mirror[*corev1.Pod]
	configs    *tarn.Client[*corev1.ConfigMap]
}

// newSummarizer declares the demo's mirrors and its controller.
func newSummarizer(c *tarn.Cluster) (*tarn.Controller, error) {
	// These are only shown. A type of its own for each would double the time to compile this package.
	for _, res := range []object.Resource{wire.MustOf[*corev1.Node]().Resource, wire.MustOf[*appsv1.Deployment]().Resource, wire.MustOf[*appsv1.ReplicaSet]().Resource} {
		if _, err := tarn.MirrorResource(c, wire.Unstructured(res), tarn.KeepHistory(demoHistory)); err != nil {
			return nil, err
		}
	}
	namespaces, err := tarn.MirrorOf[*corev1.Namespace](c, tarn.KeepHistory(demoHistory))
	if err != nil {
		return nil, err
	}
	pods, err := tarn.MirrorOf[*corev1.Pod](c, tarn.KeepHistory(demoHistory))
	if err != nil {
		return nil, err
	}
	pods.AddIndex(store.NewIndex("node", func(p *corev1.Pod) string { return p.Spec.NodeName }), store.NewOwnerIndex[*corev1.Pod]())
	configMaps, err := tarn.MirrorOf[*corev1.ConfigMap](c, tarn.KeepHistory(demoHistory))
	if err != nil {
		return nil, err
	}
	s := &summarizer{namespaces: namespaces, pods: pods, configs: configMaps.Client()}
	return tarn.NewController(c, "summary", s.reconcile,
		tarn.WithControllerOptions(controller.Options[object.Key]{Workers: 2, Rate: 50, Timeout: 10 * time.Second, Grace: time.Second}),
		tarn.For(configMaps, controller.Where(func(m *corev1.ConfigMap) bool { return m.Name == summaryName })),
		tarn.Watches(namespaces, func(n *corev1.Namespace) []tarn.Key {
			return []tarn.Key{{Namespace: n.Name, Name: summaryName}}
		}),
		tarn.Watches(pods, func(p *corev1.Pod) []tarn.Key {
			return []tarn.Key{{Namespace: p.Namespace, Name: summaryName}}
		}))
}

func (s *summarizer) reconcile(ctx context.Context, key object.Key) (controller.Result, error) {
	if n, ok := s.namespaces.Get(object.Key{Name: key.Namespace}); !ok || n.DeletionTimestamp != nil {
		return controller.Result{}, nil
	}
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	_, _, err := s.configs.CreateOrUpdate(ctx, object, func(m *corev1.ConfigMap) error {
		m.Labels, m.Data = map[string]string{"app": "tarn-demo"}, s.summary(key.Namespace)
		return nil
	})
	return controller.Result{}, err
}

// summary counts the pods of a namespace.
func (s *summarizer) summary(namespace string) map[string]string {
	snap := s.pods.Snapshot()
	defer snap.Release()
	pods, ready, restarts := 0, 0, 0
	for pod := range snap.Namespace(namespace) {
		pods++
		for _, c := range pod.Status.ContainerStatuses {
			restarts += int(c.RestartCount)
			if c.Ready {
				ready++
			}
		}
	}
	return map[string]string{"pods": strconv.Itoa(pods), "ready": strconv.Itoa(ready), "restarts": strconv.Itoa(restarts)}
}
