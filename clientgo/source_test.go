package clientgo_test

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
)

// checkSource looks at what a source of one pod lists and streams.
func checkSource(ctx context.Context, t *testing.T, src reflector.Source[runtime.Object]) {
	t.Helper()
	var listed []object.Item[runtime.Object]
	page, err := src.List(ctx, object.ListOptions{Version: "0", Limit: 10}, nil, func(item object.Item[runtime.Object]) error {
		listed = append(listed, item)
		return nil
	})
	if err != nil || len(listed) != 1 || !page.Version.Known() || page.Continue != "" {
		t.Fatalf("listed %v at %v, %v", listed, page, err)
	}
	item := listed[0]
	pod := item.Object.(*corev1.Pod)
	if item.Key != (object.Key{Namespace: "shop", Name: "a"}) || item.UID != pod.UID || string(item.Version) != pod.ResourceVersion {
		t.Errorf("item %v", item)
	}
	stream, err := src.Watch(ctx, object.WatchOptions{InitialEvents: true, Match: object.NotOlderThan, Bookmarks: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var events []object.Event[runtime.Object]
	for len(events) < 2 {
		more, err := stream.Next()
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, more...)
	}
	if e := events[0]; e.Kind != object.Added || e.Item.Key != item.Key || e.Item.UID != item.UID {
		t.Errorf("first %v", e)
	}
	if e := events[1]; !e.Bookmark || !e.InitialEnd || !e.Item.Version.Known() {
		t.Errorf("then %v", e)
	}
	if err := stream.Close(); err != nil {
		t.Error(err)
	}
	if _, err := stream.Next(); err == nil {
		t.Error("a closed stream goes on")
	}
}

func printKey(item object.Item[runtime.Object]) error {
	fmt.Println(item.Key)
	return nil
}
