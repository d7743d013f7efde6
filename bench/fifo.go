package main

import (
	"context"

	"k8s.io/client-go/tools/cache"

	"github.com/tarnproject/tarn/delta"
	"github.com/tarnproject/tarn/object"
)

// pending is how many keys wait where a burst is measured.
const pending = 1_000

// fifoAddPop measures an event's way through the queue, per event: alone, and as one of a
// thousand that wait, popped one by one or as a batch.
func fifoAddPop(l *lab) []Row {
	objs := l.burst()
	goals := []goal{faster(2), halfTheAllocs()}

	c, t := duel{
		clientGo: addPop(deltaFIFO(l), objs[:1]),
		tarn:     addPopTarn(tarnFIFO(l), objs[:1]),
	}.run(l)
	rows := []Row{newRow("13 FIFO add+pop, nothing else pending", c, t, goals...)}

	c, t = duel{
		clientGo: addPop(deltaFIFO(l), objs),
		tarn:     addPopTarn(tarnFIFO(l), objs),
	}.run(l)
	rows = append(rows, newRow("13 FIFO add+pop, 1,000 pending", c, t, goals...))

	c, t = duel{
		clientGo: addPop(deltaFIFO(l), objs),
		tarn:     addPopBatch(tarnFIFO(l), objs),
	}.run(l)
	return append(rows, newRow("13 FIFO add+pop, 1,000 pending, Tarn by PopBatch", c, t, goals...))
}

// realFIFO measures the queue that client-go's informers use by default in this version, which
// does not gather the deltas of a key, beside Tarn's, both in batches.
func realFIFO(l *lab) []Row {
	objs := l.burst()
	f := cache.NewRealFIFOWithOptions(cache.RealFIFOOptions{
		KeyFunction: cache.MetaNamespaceKeyFunc, AtomicEvents: true, UnlockWhileProcessing: true,
	})
	c, t := duel{
		clientGo: func(n int) {
			bursts(n, objs, func(objs []pod) {
				for _, p := range objs {
					check(f.Add(p))
				}
				got := 0
				for got < len(objs) {
					check(f.PopBatch(
						func(deltas []cache.Delta, _ bool) error { got += len(deltas); return nil },
						func(any, bool) error { got++; return nil },
					))
				}
				keep(got)
			})
		},
		tarn: addPopBatch(tarnFIFO(l), objs),
	}.run(l)
	return []Row{newRow("+ FIFO add+pop, client-go's RealFIFO, both in batches of 1,000", c, t)}
}

// burst returns the objects of different keys that the queues are given.
func (l *lab) burst() []pod {
	objs := make([]pod, min(pending, l.objects))
	for i := range objs {
		objs[i] = l.pods[l.order[i]]
	}
	return objs
}

func deltaFIFO(l *lab) *cache.DeltaFIFO {
	return cache.NewDeltaFIFOWithOptions(cache.DeltaFIFOOptions{
		KeyFunction: cache.MetaNamespaceKeyFunc, KnownObjects: l.indexer, EmitDeltaTypeReplaced: true,
	})
}

func tarnFIFO(l *lab) *delta.FIFO[pod] {
	f, err := delta.New(meta, delta.Options[pod]{Known: l.store})
	check(err)
	return f
}

// bursts processes n objects, some at a time.
func bursts(n int, objs []pod, do func([]pod)) {
	for n > 0 {
		some := objs[:min(n, len(objs))]
		do(some)
		n -= len(some)
	}
}

// addPop returns the operation of adding an object to client-go's queue and popping it.
func addPop(f *cache.DeltaFIFO, objs []pod) func(n int) {
	process := func(obj any, _ bool) error {
		keep(len(obj.(cache.Deltas)))
		return nil
	}
	return func(n int) {
		bursts(n, objs, func(objs []pod) {
			for _, p := range objs {
				check(f.Add(p))
			}
			for range objs {
				_, err := f.Pop(process)
				check(err)
			}
		})
	}
}

// addPopTarn is addPop of Tarn's queue.
func addPopTarn(f *delta.FIFO[pod], objs []pod) func(n int) {
	ctx := context.Background()
	process := func(deltas delta.Deltas[pod], _ bool) error {
		keep(len(deltas))
		return nil
	}
	return func(n int) {
		bursts(n, objs, func(objs []pod) {
			for _, p := range objs {
				check(f.Add(p))
			}
			for range objs {
				check(f.Pop(ctx, process))
			}
		})
	}
}

// addPopBatch is addPopTarn by batches.
func addPopBatch(f *delta.FIFO[pod], objs []pod) func(n int) {
	ctx := context.Background()
	process := func(b *object.Batch[pod], _ bool) error {
		keep(len(b.Changes))
		return nil
	}
	return func(n int) {
		bursts(n, objs, func(objs []pod) {
			for _, p := range objs {
				check(f.Add(p))
			}
			check(f.PopBatch(ctx, process))
		})
	}
}
