package tarn_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/controller/shard"
)

// The secrets "web-…" depend on the config map "web": one replica reconciles them all, in whatever
// namespace they are.
func TestP06_OwnerAndDependentsHaveOneReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apiserver.Start(t, apiserver.Options{AnyNamespace: true, Seed: 1})
		for i := range 30 {
			must(server.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "owners", Name: fmt.Sprint("web", i)}}))
			for j := range 3 {
				must(server.Create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprint("ns", j), Name: fmt.Sprintf("web%d-%d", i, j)}}))
			}
		}
		owner := func(key tarn.Key) string {
			name, _, _ := strings.Cut(key.Name, "-")
			return name
		}
		var mu sync.Mutex
		seen := map[string]map[string]int{} // keys by owner and replica
		for _, name := range []string{"a", "b", "c"} {
			cluster := connect(t, tarn.WithConfig(server.MemoryConfig()), tarn.WithLogger(slog.New(slog.DiscardHandler)),
				tarn.WithSharding("web", shard.Options{Member: name}))
			reconcile := func(_ context.Context, key tarn.Key) (tarn.Result, error) {
				mu.Lock()
				defer mu.Unlock()
				if seen[owner(key)] == nil {
					seen[owner(key)] = map[string]int{}
				}
				seen[owner(key)][name]++
				return tarn.Result{}, nil
			}
			must(tarn.NewController(cluster, "owners", reconcile, tarn.For(must(tarn.MirrorOf[*corev1.ConfigMap](cluster))), tarn.ShardBy("owner", owner)))
			must(tarn.NewController(cluster, "dependents", reconcile, tarn.For(must(tarn.MirrorOf[*corev1.Secret](cluster))), tarn.ShardBy("owner", owner)))
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- cluster.Run(ctx) }()
			t.Cleanup(func() {
				cancel()
				if err := <-done; err != nil {
					t.Error(err)
				}
			})
		}
		<-time.After(2 * time.Minute)
		mu.Lock()
		defer mu.Unlock()
		clear(seen)
		for i := range 30 {
			mu.Unlock()
			must(server.Update(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "owners", Name: fmt.Sprint("web", i)}, Data: map[string]string{"a": "b"}}))
			for j := range 3 {
				must(server.Update(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprint("ns", j), Name: fmt.Sprintf("web%d-%d", i, j)}, Data: map[string][]byte{"a": nil}}))
			}
			synctest.Wait()
			mu.Lock()
		}
		used := map[string]bool{}
		for name, replicas := range seen {
			if len(replicas) != 1 {
				t.Errorf("%s and its dependents were reconciled by %v", name, replicas)
			}
			for replica, keys := range replicas {
				used[replica] = true
				if keys != 4 {
					t.Errorf("%s: %d keys of 4", name, keys)
				}
			}
		}
		if len(seen) != 30 || len(used) != 3 {
			t.Errorf("%d owners of 30 on %d replicas of 3", len(seen), len(used))
		}
	})
}
