package tarn_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/controller/shard"
)

// A rolling update replaces replicas one by one with some that divide the keys in another way. No key is reconciled
// by two at a time, the new ones report that they are ready, and they work when the last old one has stopped.
func TestP07_ARollingUpdateCanChangeShardBy(t *testing.T) {
	divide := func(key tarn.Key) string { return strings.TrimSuffix(key.Namespace, "0") }
	for name, c := range map[string]struct{ before, after tarn.ControllerOption }{
		"another function": {tarn.ShardBy("a", shard.ByNamespace), tarn.ShardBy("a", divide)},
		"from the default": {tarn.Workers(3), tarn.ShardBy("by key", shard.ByKey)},
		"another name":     {tarn.ShardBy("v1", shard.ByKey), tarn.ShardBy("v2", shard.ByKey)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newReplicas(t)
				var mu sync.Mutex
				busy, seen := map[tarn.Key]string{}, map[string]int{}
				start := func(name string, divide tarn.ControllerOption) *oneReplica {
					c := connect(t, tarn.WithConfig(r.server.MemoryConfig()), tarn.WithLogger(slog.New(slog.DiscardHandler)), tarn.WithSharding("web", shard.Options{Member: name}))
					maps := must(tarn.MirrorOf[*corev1.ConfigMap](c))
					must(tarn.NewController(c, "c", func(ctx context.Context, key tarn.Key) (tarn.Result, error) {
						mu.Lock()
						if other := busy[key]; other != "" {
							t.Errorf("%s reconciles %v while %s does", name, key, other)
						}
						busy[key] = name
						seen[name]++
						mu.Unlock()
						defer func() {
							mu.Lock()
							defer mu.Unlock()
							delete(busy, key)
						}()
						select {
						case <-time.After(500 * time.Millisecond):
						case <-ctx.Done():
						}
						return tarn.Result{RequeueAfter: time.Millisecond}, nil
					}, tarn.For(maps), tarn.Workers(50), divide))
					ctx, cancel := context.WithCancel(context.Background())
					done := make(chan error, 1)
					go func() { done <- c.Run(ctx) }()
					stop := sync.OnceFunc(func() {
						cancel()
						if err := <-done; err != nil {
							t.Errorf("%s: %v", name, err)
						}
					})
					t.Cleanup(stop)
					return &oneReplica{c, stop}
				}
				var old, updated []*oneReplica
				for i := range 3 {
					old = append(old, start(fmt.Sprint("old", i), c.before))
				}
				<-time.After(time.Minute)
				for i, replica := range old {
					updated = append(updated, start(fmt.Sprint("new", i), c.after))
					<-time.After(5 * time.Second)
					if code, body := readyz(updated[i].Cluster); code != http.StatusOK {
						t.Errorf("a replica that waits for the others: %d %s", code, body)
					}
					replica.stop()
				}
				<-time.After(20 * time.Second)
				mu.Lock()
				clear(seen)
				mu.Unlock()
				<-time.After(10 * time.Second)
				mu.Lock()
				defer mu.Unlock()
				for i, replica := range updated {
					if s := replica.Status().Shards; len(s.Slots) == 0 || s.Idle > 0 || s.Cause != nil {
						t.Errorf("after the rolling update %d has %d slots, %d are idle, %v", i, len(s.Slots), s.Idle, s.Cause)
					}
				}
				if len(seen) == 0 {
					t.Error("no replica reconciles")
				}
			})
		})
	}
}
