// Command podtable prints a line for each pod, and for each change of one.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"

	corev1 "k8s.io/api/core/v1"

	"github.com/tarnproject/tarn"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	cluster, err := tarn.Connect()
	if err != nil {
		log.Fatal(err)
	}
	pods, err := tarn.MirrorOf[*corev1.Pod](cluster)
	if err != nil {
		log.Fatal(err)
	}
	go cluster.Run(ctx)
	for event := range pods.Events(ctx) {
		pod := event.New()
		fmt.Printf("%-8s %-40s %-10s %s\n", event.Kind, event.Key, pod.Status.Phase, pod.Spec.NodeName)
	}
}
