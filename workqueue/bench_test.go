package workqueue_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/tarnproject/tarn/workqueue"
)

type nothing struct{}

func (nothing) Added(int)            {}
func (nothing) Retried(int)          {}
func (nothing) Dropped(int)          {}
func (nothing) Waited(time.Duration) {}
func (nothing) Worked(time.Duration) {}

// Add, Get and Done of a single item, in ns/op. bench/ compares it with client-go.
func BenchmarkAddGetDone(b *testing.B) {
	keys := keysOf(1000)
	for _, mode := range []struct {
		name string
		opts options
		how  workqueue.Request
	}{
		{"plain", options{}, workqueue.Request{}},
		{"times", options{Times: true}, workqueue.Request{}},
		{"metrics", options{Metrics: nothing{}}, workqueue.Request{}},
		{"priorities", options{}, workqueue.Request{Priority: 1}},
		{"groups", options{Group: groupOf}, workqueue.Request{}},
	} {
		b.Run(mode.name, func(b *testing.B) {
			q := workqueue.New(mode.opts)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if mode.how.Priority == 0 {
					q.Add(keys[i%len(keys)])
				} else {
					q.AddWith(mode.how, keys[i%len(keys)])
				}
				key, _ := q.Get()
				q.Done(key)
			}
		})
	}
}

// Items of mixed priorities while many others wait.
func BenchmarkBacklog(b *testing.B) {
	keys := keysOf(20000)
	for _, group := range []func(string) string{nil, groupOf} {
		b.Run(fmt.Sprintf("groups=%v", group != nil), func(b *testing.B) {
			q := workqueue.New(options{Group: group})
			for i, k := range keys[:10000] {
				q.AddWith(workqueue.Request{Priority: i % 3}, k)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				q.AddWith(workqueue.Request{Priority: i % 3}, keys[(10000+i)%len(keys)])
				key, _ := q.Get()
				q.Done(key)
			}
		})
	}
}

func BenchmarkContention(b *testing.B) {
	const pairs, n = 8, 100_000
	keys := keysOf(n)
	b.ReportAllocs()
	for b.Loop() {
		q := workqueue.New(options{})
		var producers, consumers sync.WaitGroup
		for p := range pairs {
			producers.Go(func() {
				for i := p; i < n; i += pairs {
					q.Add(keys[i])
				}
			})
			consumers.Go(func() {
				for {
					key, shutdown := q.Get()
					if shutdown {
						return
					}
					q.Done(key)
				}
			})
		}
		producers.Wait()
		q.ShutDown()
		consumers.Wait()
	}
	b.ReportMetric(float64(b.N)*n/b.Elapsed().Seconds(), "items/s")
}

// AddAfter with random delays, in a queue with 100,000 delayed items.
func BenchmarkAddAfter(b *testing.B) {
	keys := keysOf(200_000)
	q := workqueue.New(options{})
	r := rand.New(rand.NewPCG(1, 2))
	for _, k := range keys[:100_000] {
		q.AddAfter(k, time.Hour+time.Duration(r.Int64N(int64(time.Hour))))
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		q.AddAfter(keys[i%len(keys)], time.Hour+time.Duration(r.Int64N(int64(time.Hour))))
	}
	q.ShutDown()
}
