package workqueue_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarnproject/tarn/internal/soak"
	"github.com/tarnproject/tarn/workqueue"
)

// Many producers and workers: no two workers process one item at a time, and every add is
// followed by a Get of that item.
func TestConcurrent(t *testing.T) {
	const producers, workers, keys = 4, 6, 40
	changes := soak.Rounds(500)
	for name, opts := range map[string]workqueue.Options[int]{
		"plain":  {},
		"groups": {Group: func(k int) string { return fmt.Sprint(k % 5) }, AgeAfter: time.Millisecond},
		"times":  {Times: true},
	} {
		t.Run(name, func(t *testing.T) {
			q := workqueue.New(opts)
			var changed, seen [keys]atomic.Int64
			var busy [keys]atomic.Bool
			var producing, working sync.WaitGroup
			for p := range producers {
				producing.Go(func() {
					r := rand.New(rand.NewPCG(uint64(p), 0))
					for range changes {
						k := r.IntN(keys)
						changed[k].Add(1)
						switch r.IntN(5) {
						case 0, 1:
							q.Add(k)
						case 2:
							q.AddWith(workqueue.Request{Priority: r.IntN(3) * (len(name) % 2)}, k, (k+1)%keys)
						case 3:
							q.AddAfter(k, time.Duration(r.IntN(int(time.Millisecond))))
						case 4:
							q.AddAfter(k, time.Hour) // never due in this test
							q.Add(k)
							q.Snapshot()
						}
					}
				})
			}
			for w := range workers {
				working.Go(func() {
					for {
						items, err := takeSome(q, w)
						if errors.Is(err, workqueue.ErrShutDown) {
							return
						}
						for _, k := range items {
							if !busy[k].CompareAndSwap(false, true) {
								t.Errorf("two workers on %d", k)
							}
							seen[k].Store(changed[k].Load())
						}
						for _, k := range items {
							busy[k].Store(false)
							q.Done(k)
						}
					}
				})
			}
			producing.Wait()
			if n := q.Stats().Delayed; n > keys {
				t.Errorf("%d items are delayed, of %d", n, keys)
			}
			for due(q) {
				runtime.Gosched()
			}
			_ = q.Drain(t.Context())
			working.Wait()
			for k := range keys {
				if changed[k].Load() != seen[k].Load() {
					t.Errorf("item %d: %d changes, the last worker saw %d", k, changed[k].Load(), seen[k].Load())
				}
			}
			if s := q.Stats(); s.Waiting+s.Dirty+s.Processing+s.Delayed != 0 {
				t.Errorf("left: %+v", s)
			}
		})
	}
}

// due reports whether an item will be due soon.
func due(q *workqueue.Queue[int]) bool {
	d := q.Snapshot().Delayed
	return len(d) > 0 && time.Until(d[0].Due) < time.Minute
}

// takeSome takes items with one of the Get variants. A context that ends loses no item.
func takeSome(q *workqueue.Queue[int], how int) ([]int, error) {
	switch how % 2 {
	case 0:
		if item, shutdown := q.Get(); !shutdown {
			return []int{item}, nil
		}
		return nil, workqueue.ErrShutDown
	default:
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Microsecond)
		defer cancel()
		item, err := q.GetContext(ctx)
		if err != nil {
			return nil, err
		}
		return []int{item}, nil
	}
}

// In virtual time: workers of varying speed and a steady stream of urgent items. No item is taken
// before it is due, and none waits beyond the bound.
func TestConcurrentBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const workers, low = 3, 30
		q := workqueue.New(options{AgeAfter: time.Second, Group: groupOf})
		start := time.Now()
		var wg sync.WaitGroup
		var mu sync.Mutex
		takenAt := map[string]time.Time{}
		for range workers {
			wg.Go(func() {
				for {
					item, shutdown := q.Get()
					if shutdown {
						return
					}
					mu.Lock()
					takenAt[item] = time.Now()
					mu.Unlock()
					<-time.After(10 * time.Millisecond)
					q.Done(item)
				}
			})
		}
		for i := range low {
			q.AddWith(workqueue.Request{Priority: -1, After: time.Duration(i) * 10 * time.Millisecond}, fmt.Sprintf("low/%d", i))
		}
		for n := 0; time.Since(start) < 5*time.Second; n++ {
			q.Add(fmt.Sprintf("a/%d", n))
			q.Add(fmt.Sprintf("b/%d", n))
			<-time.After(5 * time.Millisecond) // faster than the workers
		}
		q.ShutDown()
		wg.Wait()
		for i := range low {
			due := start.Add(time.Duration(i) * 10 * time.Millisecond)
			// At most two Gets per item that was waiting before it, at 3 Gets per 10 ms.
			latest := due.Add(time.Second + time.Duration(2*(low+2*60)/workers)*10*time.Millisecond)
			at := takenAt[fmt.Sprintf("low/%d", i)]
			if at.Before(due) || at.After(latest) {
				t.Errorf("item %d was taken at %v, want between %v and %v", i, at.Sub(start), due.Sub(start), latest.Sub(start))
			}
		}
	})
}

// A Get whose context ends does not consume a wake-up meant for another worker.
func TestACancelledGetLosesNoSignal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 200 {
			q := workqueue.New(options{})
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			var taken atomic.Int32
			for range 3 {
				wg.Go(func() {
					if _, err := q.GetContext(ctx); err == nil {
						taken.Add(1)
					}
				})
			}
			wg.Go(func() {
				for {
					item, shutdown := q.Get()
					if shutdown {
						return
					}
					taken.Add(1)
					q.Done(item)
				}
			})
			synctest.Wait()
			go cancel()
			for i := range 5 {
				q.Add(fmt.Sprint(i))
			}
			synctest.Wait()
			want(t, "taken", taken.Load(), int32(5))
			q.ShutDown()
			wg.Wait()
		}
	})
}
