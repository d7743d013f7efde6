package main

import (
	"context"

	"k8s.io/client-go/tools/cache"

	"github.com/tarnproject/tarn/delta"
	"github.com/tarnproject/tarn/object"
)

// pending is the number of pending keys in a burst.
const pending = 1_000

// fifoAddPop measures an event through the queue: alone, and as one of a thousand pending ones,
// popped one by one or as a batch.
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
		tarn:     applyPopBatch(objs),
	}.run(l)
	return append(rows, newRow("13 FIFO add+pop, 1,000 pending, Tarn's Buffer by PopBatch", c, t, goals...))
}

// realFIFO measures the default queue of client-go's informers, which does not group deltas by
// key, beside Tarn's, both in batches.
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
		tarn: applyPopBatch(objs),
	}.run(l)
	return []Row{newRow("+ FIFO add+pop, client-go's RealFIFO, both in batches of 1,000", c, t)}
}

// burst returns objects with different keys for the queues.
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

// bursts processes n objects, one burst at a time.
func bursts(n int, objs []pod, do func([]pod)) {
	for n > 0 {
		some := objs[:min(n, len(objs))]
		do(some)
		n -= len(some)
	}
}

// addPop returns the operation that adds an object to client-go's queue and pops it.
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

// addPopTarn is addPop for Tarn's queue.
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

// applyPopBatch returns the operation that adds objects to Tarn's buffer and takes them as a batch.
func applyPopBatch(objs []pod) func(n int) {
	b, err := delta.NewBuffer[pod](delta.BufferOptions{})
	check(err)
	ctx := context.Background()
	process := func(b *object.Batch[pod]) error {
		keep(len(b.Changes))
		return nil
	}
	one := object.Batch[pod]{Changes: make([]object.Change[pod], 1), Marks: make([]object.Mark, 1)}
	return func(n int) {
		bursts(n, objs, func(objs []pod) {
			for _, p := range objs {
				item, err := object.ItemOf(meta, p)
				check(err)
				one.Changes[0], one.Marks[0].Version = object.ChangeOf(object.Added, &item), item.Version
				check(b.Apply(&one))
			}
			check(b.PopBatch(ctx, process))
		})
	}
}
