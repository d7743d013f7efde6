package cli

import (
	"context"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	tarn "github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/object"
)

// summaryName is the name of the ConfigMap that the controller writes in each namespace.
const summaryName = "tarn-summary"

// summarizer is the demo's controller. It maintains a ConfigMap with the pod counts of each
// namespace. It reads only from mirrors and writes only changes.
type summarizer struct {
	namespaces *tarn.Mirror[*corev1.Namespace]
	pods       *tarn.Mirror[*corev1.Pod]
	configs    *tarn.Client[*corev1.ConfigMap]
}

func newSummarizer(c *tarn.Cluster, m *demoMirrors) (*tarn.Controller, error) {
	s := &summarizer{namespaces: m.namespaces, pods: m.pods, configs: m.configMaps.Client()}
	return tarn.NewController(c, "summary", s.reconcile,
		tarn.WithControllerOptions(controller.Options[object.Key]{Workers: 2, Rate: 50, Timeout: 10 * time.Second, Grace: time.Second}),
		tarn.For(m.configMaps, controller.Where(func(m *corev1.ConfigMap) bool { return m.Name == summaryName })),
		tarn.Watches(m.namespaces, func(n *corev1.Namespace) []tarn.Key {
			return []tarn.Key{{Namespace: n.Name, Name: summaryName}}
		}),
		tarn.Watches(m.pods, func(p *corev1.Pod) []tarn.Key {
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
