package workqueue_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/tarnproject/tarn/internal/soak"
	"github.com/tarnproject/tarn/workqueue"
)

func keysOf(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("namespace-%d/pod-%d", i%100, i)
	}
	return keys
}

// No call allocates in the steady state.
func TestAllocations(t *testing.T) {
	soak.Measures(t)
	ctx := context.Background()
	drain := func(q *workqueue.Queue[string]) {
		for q.Len() > 0 {
			k, _ := q.GetContext(ctx)
			q.Done(k)
		}
	}
	for _, n := range []int{1, 20, 3000} {
		keys := keysOf(n)
		for name, round := range map[string]func(q *workqueue.Queue[string]){
			"Add, Get and Done": func(q *workqueue.Queue[string]) {
				for _, k := range keys {
					q.Add(k)
				}
				for range keys {
					k, _ := q.Get()
					q.Add(k)
					q.Done(k)
				}
				drain(q)
			},
			"priorities": func(q *workqueue.Queue[string]) {
				for i, k := range keys {
					q.AddWith(workqueue.Request{Priority: i % 3}, k)
					q.AddWith(workqueue.Request{Priority: i % 2}, k)
				}
				drain(q)
			},
			"GetContext": func(q *workqueue.Queue[string]) {
				q.AddWith(workqueue.Request{}, keys...)
				for range keys {
					k, _ := q.GetContext(ctx)
					q.Done(k)
				}
			},
			"AddRateLimited, then Forget": func(q *workqueue.Queue[string]) {
				for _, k := range keys {
					q.AddRateLimited(k)
				}
				for _, k := range keys {
					q.Forget(k)
				}
			},
			"AddRateLimited and Forget": func(q *workqueue.Queue[string]) {
				for _, k := range keys {
					q.AddRateLimited(k)
					q.AddRateLimited(k)
					q.Forget(k)
				}
				drain(q)
			},
		} {
			for mode, opts := range map[string]options{
				"plain": {}, "times": {Times: true}, "groups": {Group: groupOf},
			} {
				opts.Limiter = workqueue.NewMaxOf(limiter(workqueue.NewExponential[string](time.Hour, time.Hour)),
					workqueue.DefaultLimiter[string]())
				q := workqueue.New(opts)
				for range 3 {
					round(q)
				}
				if got := testing.AllocsPerRun(20, func() { round(q) }); got > 0 {
					t.Errorf("%s, %s, %d items: %v allocations", name, mode, n, got)
				}
				q.ShutDown()
			}
		}
	}
}

func TestDelaysDoNotAllocate(t *testing.T) {
	soak.Measures(t)
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.New(options{})
		keys := keysOf(1000)
		round := func() {
			for i, k := range keys {
				q.AddAfter(k, time.Duration(1+i*7919%1000)*time.Millisecond)
			}
			for range keys {
				k, _ := q.Get()
				q.Done(k)
			}
		}
		round()
		// The runtime starts a goroutine each time the timer fires, and that allocates.
		if got := testing.AllocsPerRun(3, round); got > 100 {
			t.Errorf("%v allocations for 1000 delays", got)
		}
	})
}

// Finished items can be garbage-collected.
func TestDoneItemsAreReleased(t *testing.T) {
	type big struct{ _ [100]byte }
	for _, opts := range []workqueue.Options[*big]{{}, {Times: true}} {
		q := workqueue.New(opts)
		var refs []weak.Pointer[big]
		for i := range 1000 {
			b := new(big)
			refs = append(refs, weak.Make(b))
			q.AddWith(workqueue.Request{Priority: i % 2 * i % 3}, b)
			if i%3 == 0 {
				q.AddAfter(b, time.Hour)
			}
		}
		for q.Len() > 0 {
			b, _ := q.Get()
			q.Done(b)
		}
		q.ShutDown()
		runtime.GC()
		for i, ref := range refs {
			if ref.Value() != nil {
				t.Fatalf("item %d is kept alive", i)
			}
		}
		runtime.KeepAlive(q)
	}
}

// Memory is freed after a burst even if a few of its items stay: one delayed item, or one in a
// hundred in any state. The floor is negligible at this size.
func TestMemoryIsFreedWhileSomeItemsStay(t *testing.T) {
	soak.Measures(t)
	const burst = 200_000
	keys := keysOf(burst)
	for name, how := range map[string]workqueue.Request{
		"plain": {}, "priority": {Priority: 1}, "delayed": {After: time.Hour},
	} {
		for _, every := range []int{burst, 100} {
			t.Run(fmt.Sprintf("%s, one in %d stays", name, every), func(t *testing.T) {
				q := workqueue.New(options{})
				before := heapOf()
				q.AddWith(how, keys...)
				held := heapOf() - before
				for i, k := range keys {
					if i%every == every/2 {
						q.AddAfter(k, 24*time.Hour)
					} else if how.After > 0 {
						q.AddAfter(k, time.Nanosecond)
					}
				}
				stays := burst / every
				for taken := 0; taken < burst && (how.After == 0 || taken < burst-stays); taken++ {
					k, _ := q.Get()
					q.Done(k)
				}
				if got := q.Stats().Delayed; got != stays {
					t.Fatalf("%d items are delayed, want %d", got, stays)
				}
				if after := heapOf() - before; after > held/5 {
					t.Errorf("%d bytes are left of %d", after, held)
				}
				q.ShutDown()
			})
		}
	}
	runtime.KeepAlive(keys)
}

// Groups without items use no memory.
func TestMemoryOfGroupsIsFreed(t *testing.T) {
	soak.Measures(t)
	const burst = 200_000
	keys := make([]string, burst)
	for i := range keys {
		keys[i] = fmt.Sprintf("namespace-%d/pod", i)
	}
	q := workqueue.New(options{Group: groupOf})
	before := heapOf()
	q.AddWith(workqueue.Request{}, keys...)
	held := heapOf() - before
	q.AddAfter(keys[burst/2], time.Hour)
	for range keys {
		k, _ := q.Get()
		q.Done(k)
	}
	if after := heapOf() - before; after > held/5 {
		t.Errorf("%d bytes are left of %d", after, held)
	}
	runtime.KeepAlive(keys)
	q.ShutDown()
}

func TestALimiterFreesMemory(t *testing.T) {
	soak.Measures(t)
	keys := keysOf(200_000)
	for name, l := range map[string]limiter{
		"exponential": workqueue.NewExponential[string](1, 1), "fast and slow": workqueue.NewFastSlow[string](1, 1, 1),
	} {
		before := heapOf()
		for _, k := range keys {
			l.When(k)
		}
		held := heapOf() - before
		for _, k := range keys[1:] {
			l.Forget(k)
		}
		if after := heapOf() - before; after > held/5 {
			t.Errorf("%s: %d bytes are left of %d", name, after, held)
		}
		want(t, "failures of the remaining item", l.NumRequeues(keys[0]), 1)
		runtime.KeepAlive(l)
	}
	runtime.KeepAlive(keys)
}

func heapOf() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
