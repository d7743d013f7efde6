package sim_test

import (
	"context"
	"fmt"

	"github.com/tarnproject/tarn/internal/sim"
	"github.com/tarnproject/tarn/object"
)

var everything object.Selection

func Example() {
	server := sim.NewServer(sim.Quirks{PlainUIDs: true}, nil)
	web := object.Key{Namespace: "shop", Name: "web"}
	server.Create(web, nil)
	page, _ := server.List(context.Background(), object.ListOptions{}, nil, func(item object.Item[*sim.Thing]) error {
		fmt.Println("listed", item.Object)
		return nil
	})
	server.Delete(web)
	watch, _ := server.Watch(context.Background(), object.WatchOptions{Version: page.Version}, nil)
	defer watch.Close()
	events, _ := watch.Next()
	for _, ev := range events {
		fmt.Println(ev.Kind, ev.Item.Object)
	}
	// Output:
	// listed shop/web u1 v12.0
	// Deleted shop/web u1 v14.0
}
