package controllerruntime_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/controllerruntime"
	"github.com/tarnproject/tarn/object"
)

// One line of a manager, and what else it may use.
func ExampleNewCache() {
	newManager := func(config *rest.Config) (ctrl.Manager, error) {
		mgr, err := ctrl.NewManager(config, ctrl.Options{
			NewCache:  controllerruntime.NewCache,
			NewClient: controllerruntime.NewClient, // reads its own writes
		})
		if err != nil {
			return nil, err
		}
		return mgr, mgr.AddReadyzCheck("cache", controllerruntime.Ready(mgr.GetCache()))
	}
	_ = newManager
}

// Pods without their managed fields, and Secrets decoded.
func ExampleCache() {
	server, err := apiserver.New(apiserver.Options{})
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	serving := make(chan error)
	go func() { serving <- server.Run(ctx) }()
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "colours"}, Data: map[string]string{"sky": "blue"}}
	if _, err := server.Create(config); err != nil {
		panic(err)
	}

	newCache := controllerruntime.Cache(controllerruntime.Options{
		ByObject: map[client.Object]controllerruntime.Kind{
			&corev1.ConfigMap{}: {Drop: []object.FieldPath{object.ManagedFields}},
			&corev1.Secret{}:    {Form: controllerruntime.Decoded},
		},
	})
	c, err := newCache(server.Config(), cache.Options{})
	if err != nil {
		panic(err)
	}
	ended := make(chan error)
	go func() { ended <- c.Start(ctx) }()
	c.WaitForCacheSync(ctx)

	var got corev1.ConfigMap
	if err := c.Get(ctx, client.ObjectKeyFromObject(config), &got); err != nil {
		panic(err)
	}
	fmt.Println(got.Data["sky"])
	cluster, _ := controllerruntime.ClusterOf(c)
	fmt.Println(cluster.Status().Mirrors[0].Name)
	stop()
	fmt.Println(<-ended, <-serving)
	// Output:
	// blue
	// configmaps (compact)
	// <nil> <nil>
}
