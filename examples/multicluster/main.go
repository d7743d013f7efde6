// Command multicluster prints the pods that have been pending for five minutes, in all clusters of
// the kubeconfig, or in those whose contexts are given as arguments.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tarnproject/tarn"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, contexts []string) error {
	if len(contexts) == 0 {
		config, err := clientcmd.NewDefaultClientConfigLoadingRules().Load()
		if err != nil {
			return err
		}
		contexts = slices.Sorted(maps.Keys(config.Contexts))
	}
	fleet, err := newFleet(os.Stdout)
	if err != nil {
		return err
	}
	for _, name := range contexts {
		cluster, err := tarn.Connect(tarn.WithContext(name))
		if err != nil {
			return err
		}
		if err := fleet.Add(name, cluster); err != nil {
			return err
		}
	}
	log.Print("watching the pods of ", strings.Join(contexts, ", "))
	return fleet.Run(ctx)
}

const limit = 5 * time.Minute

// newFleet returns a fleet whose controller prints pending pods.
func newFleet(out io.Writer) (*tarn.Fleet, error) {
	fleet := tarn.NewFleet()
	_, err := tarn.NewFleetController(fleet, "pending", func(m *tarn.Member) error {
		pods, err := tarn.MirrorOf[*corev1.Pod](m.Cluster)
		if err != nil {
			return err
		}
		return m.Reconcile(func(_ context.Context, key tarn.Key) (tarn.Result, error) {
			pod, ok := pods.Get(key)
			if !ok || pod.Status.Phase != corev1.PodPending {
				return tarn.Result{}, nil
			}
			if left := limit - time.Since(pod.CreationTimestamp.Time); left > 0 {
				return tarn.Result{RequeueAfter: left}, nil
			}
			_, err := fmt.Fprintf(out, "%s: pod %s has been pending for %v\n", m.Name, key, limit)
			return tarn.Result{}, err
		}, tarn.For(pods))
	})
	return fleet, err
}
