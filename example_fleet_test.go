package tarn_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/tarnproject/tarn"
)

// One controller prints the pods of all clusters. Clusters are added and removed while it runs.
func ExampleNewFleetController() {
	_, eu, endEU := demo(pod("shop", "web", ""))
	defer endEU()
	_, us, endUS := demo(pod("shop", "db", ""))
	defer endUS()

	printed := make(chan struct{})
	fleet := tarn.NewFleet()
	must(tarn.NewFleetController(fleet, "print", func(m *tarn.Member) error {
		pods, err := tarn.MirrorOf[*corev1.Pod](m.Cluster)
		if err != nil {
			return err
		}
		client := pods.Client()
		return m.Reconcile(func(ctx context.Context, key tarn.Key) (tarn.Result, error) {
			pod, err := client.Get(ctx, key)
			if err != nil {
				return tarn.Result{}, tarn.IgnoreNotFound(err)
			}
			fmt.Println(tarn.FleetKey{Cluster: m.Name, Key: key}, pod.Labels)
			printed <- struct{}{}
			return tarn.Result{}, nil
		}, tarn.For(pods))
	}, tarn.Workers(4)))

	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- fleet.Run(ctx) }()
	for _, c := range []struct {
		name   string
		config tarn.ConnectOption
	}{{"eu", eu}, {"us", us}} {
		if err := fleet.Add(c.name, must(tarn.Connect(c.config))); err != nil {
			fmt.Println(err)
		}
		<-printed
	}
	fmt.Println("removed:", fleet.Remove(ctx, "eu"))
	for _, c := range fleet.Status().Clusters {
		fmt.Println(c.Name, "is synced:", c.Cluster.Synced())
	}
	cancel()
	fmt.Println("ended:", <-done)
	// Output:
	// eu:shop/web map[app:web]
	// us:shop/db map[app:db]
	// removed: <nil>
	// us is synced: true
	// ended: <nil>
}
