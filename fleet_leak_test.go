package tarn_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/controller"
)

// 50 clusters come and go in random order, a third of them with random faults and a tenth down all
// the time. The fleet keeps neither goroutines, memory nor keys of a removed cluster.
func TestFiftyClustersComeAndGoWithoutLeaks(t *testing.T) {
	const clusters, pods, most = 50, 5, 10
	withFleet(t, []tarn.ControllerOption{tarn.Workers(4)}, func(t *testing.T, f *testFleet) {
		var servers []*apiserver.Server
		for i := range clusters {
			srv := apiserver.Start(t, apiserver.Options{AnyNamespace: true, Seed: uint64(i)})
			for p := range pods {
				must(srv.Create(pod("shop", fmt.Sprint("p", p), "")))
			}
			switch {
			case i%10 == 9:
				must(srv.Inject(apiserver.Fault{Kind: apiserver.Refuse}))
			case i%3 == 0:
				srv.Random(uint64(i), 0.1)
			}
			servers = append(servers, srv)
		}
		f.before = func(ctx context.Context, _ tarn.FleetKey) error {
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
			return ctx.Err()
		}
		synctest.Wait()
		before, during := runtime.NumGoroutine(), 0

		random := rand.New(rand.NewPCG(16, 50))
		var removed []weak.Pointer[tarn.Cluster]
		var present []string
		interrupted := 0 // clusters removed during a reconcile
		remove := func() {
			i := random.IntN(len(present))
			removed = append(removed, f.weak(present[i]))
			if slices.ContainsFunc(f.ctl.Status().Running, func(r controller.Running) bool { return r.Key.(tarn.FleetKey).Cluster == present[i] }) {
				interrupted++
			}
			f.remove(present[i])
			present = slices.Delete(present, i, i+1)
		}
		for _, i := range random.Perm(clusters) {
			name := fmt.Sprintf("c%02d", i)
			f.connect(name, servers[i])
			present = append(present, name)
			<-time.After(time.Duration(random.IntN(3000)) * time.Millisecond)
			during = max(during, runtime.NumGoroutine())
			if len(present) == most || random.IntN(3) == 0 {
				remove()
			}
		}
		<-time.After(time.Minute)
		for len(present) > 0 {
			remove()
		}
		<-time.After(time.Minute) // delayed keys leave the queue
		keys, after, left := len(f.reconciled()), runtime.NumGoroutine(), inMemory(removed...)
		st := f.ctl.Status()
		t.Logf("%d clusters removed, %d of them during a reconcile, %d still in memory; goroutines: %d before, up to %d, %d after; %d keys reconciled in %d reconciles, %d failed, %d held back",
			len(removed), interrupted, left, before, during, after, keys, st.Reconciles, st.Failed, st.Held)
		if left > 0 || len(removed) != clusters {
			t.Errorf("%d of %d removed clusters are still in memory", left, len(removed))
		}
		if after > before+clusters/5 { // the test binary may have some of its own
			t.Errorf("%d goroutines, and %d before the first cluster was added", after, before)
		}
		if q := st.Queue; q.Waiting+q.Dirty+q.Delayed+q.Processing > 0 || len(st.Failures) > 0 || len(st.HeldKeys) > 0 {
			t.Errorf("the controller still has keys of removed clusters: %+v", st)
		}
		for _, key := range f.exists {
			if !faulty(key) {
				t.Errorf("%s: created a config map that the cache lacked", key)
			}
		}
	})
}

// faulty reports whether the key's cluster has random faults, where the response to a create may be
// lost.
func faulty(key string) bool {
	var i int
	_, err := fmt.Sscanf(key, "c%d:", &i)
	return err == nil && i%3 == 0
}
