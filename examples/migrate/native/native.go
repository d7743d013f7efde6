// Package native is the controller of package before, written for Tarn: the mirror, the queue,
// the workers, retries and shutdown are the library's.
package native

import (
	"context"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/controller"
)

const maxRetries = 5

// Run runs the controller for a namespace until the context is done.
func Run(ctx context.Context, config *rest.Config, namespace string, out io.Writer) error {
	cluster, err := tarn.Connect(tarn.WithConfig(config))
	if err != nil {
		return err
	}
	pods, err := tarn.MirrorOf[*corev1.Pod](cluster, tarn.InNamespaces(namespace))
	if err != nil {
		return err
	}
	reconcile := func(_ context.Context, key tarn.Key) (tarn.Result, error) {
		pod, exists := pods.Get(key)
		if !exists {
			fmt.Fprintln(out, key, "is deleted")
			return tarn.Result{}, nil
		}
		fmt.Fprintln(out, key, "is", pod.Status.Phase)
		if pod.Status.Phase == corev1.PodUnknown {
			return tarn.Result{}, fmt.Errorf("the phase of pod %s is unknown", key)
		}
		return tarn.Result{}, nil
	}
	_, err = tarn.NewController(cluster, "pods", reconcile, tarn.For(pods),
		tarn.WithControllerOptions(controller.Options[tarn.Key]{Attempts: 1 + maxRetries}))
	if err != nil {
		return err
	}
	return cluster.Run(ctx)
}
