package shard_test

import (
	"context"
	"fmt"
	"net/http"
	"os/signal"
	"strings"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/controller/shard"
	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire"
	"github.com/tarnproject/tarn/wire/stream"
	"github.com/tarnproject/tarn/workqueue"
)

// Each replica of this program reconciles the ConfigMaps of its share of the namespaces.
func Example() {
	config, err := rest.InClusterConfig()
	if err != nil {
		panic(err)
	}
	client, err := wire.New(config, wire.Options{})
	if err != nil {
		panic(err)
	}
	source, err := stream.NewSource(wire.For(client, wire.MustOf[*corev1.ConfigMap]()), object.Selection{}, stream.Options{})
	if err != nil {
		panic(err)
	}
	configMaps, err := informer.New(source, object.Meta[*corev1.ConfigMap](), informer.Options[*corev1.ConfigMap]{Name: "configmaps"})
	if err != nil {
		panic(err)
	}

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	reconcile := func(_ context.Context, key object.Key) (controller.Result, error) {
		fmt.Println("reconcile", key)
		return controller.Result{}, nil
	}
	web, err := controller.New("web", reconcile, controller.Options[object.Key]{
		Claims: true,                                                    // only the keys of slots that this process has
		Queue:  workqueue.Options[object.Key]{Group: shard.ByNamespace}, // shard.ByKey divides large namespaces, too
	}, controller.For(configMaps))
	if err != nil {
		panic(err)
	}
	group, err := shard.New(client, object.Key{Namespace: "default", Name: "web"}, shard.Options{
		Member: "replica",
		Rules:  func() string { return "by namespace" },                   // another text if Queue.Group changes
		Caches: func() []shard.Cache { return []shard.Cache{configMaps} }, // what reconciles read
	})
	if err != nil {
		panic(err)
	}
	http.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := group.Ready(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable) // waiting for hand-over of 12 slots
		}
	})
	// A new group begins to work after one lease duration, 15 seconds.
	if err := controller.Run(ctx, configMaps, controller.Sharded(group, web)); err != nil {
		panic(err)
	}
	status := group.Status()
	for _, m := range status.Members {
		fmt.Println(m.Name, "has", m.Slots, "slots of", m.Share)
	}
	fmt.Println("imbalance:", status.Imbalance())
	if status.Cause != nil {
		fmt.Println("not working because", status.Cause)
	}
}

// A slot is a part of the 64-bit hashes that the server shards by.
func ExampleSlotOf() {
	fmt.Println(shard.SlotOf("0b8f1f5e-9e5b-4c7a-8d0e-3a1f6f0c2d11"), "of", shard.Slots)
	// Output: 98 of 256
}

// All objects of a namespace have the same slot.
func ExampleByNamespace() {
	web, db := object.Key{Namespace: "shop", Name: "web"}, object.Key{Namespace: "shop", Name: "db"}
	fmt.Println(shard.ByNamespace(web) == shard.ByNamespace(db), shard.ByKey(web) == shard.ByKey(db))
	tenant := func(key object.Key) string { return shard.Spread(strings.TrimSuffix(key.Name, "-db")) } // another choice
	fmt.Println(tenant(object.Key{Namespace: "a", Name: "acme"}) == tenant(object.Key{Namespace: "b", Name: "acme-db"}))
	// Output:
	// true false
	// true
}

// ByKey divides a large namespace among members, and ByNamespace keeps it together.
func ExampleByKey() {
	web, db := object.Key{Namespace: "shop", Name: "web"}, object.Key{Namespace: "shop", Name: "db"}
	fmt.Println(shard.ByNamespace(web) == shard.ByNamespace(db), shard.ByKey(web) == shard.ByKey(db))
	// Output: true false
}

// With Ranges a slot is a range of the hashes that the server shards by: members mirror their slots only.
func ExampleByRange() {
	web, db := object.Key{Namespace: "shop", Name: "web"}, object.Key{Namespace: "shop", Name: "db"}
	fmt.Println(shard.ByRange(web), shard.ByRange(db), shard.SlotOf("shop"))
	// Output: 70 70 70
}
