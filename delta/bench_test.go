package delta_test

import (
	"context"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/delta"
	"github.com/tarnproject/tarn/object"
)

type meta = *metav1.PartialObjectMetadata

func metas(n int) []meta {
	objs := make([]meta, n)
	for i := range objs {
		objs[i] = &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Namespace:       fmt.Sprintf("ns-%d", i%50),
			Name:            fmt.Sprintf("pod-%d-abcdef", i),
			UID:             object.UID(fmt.Sprintf("uid-%d", i)),
			ResourceVersion: fmt.Sprint(1_000_000 + i),
		}}
	}
	return objs
}

func newMetas(tb testing.TB, opts delta.Options[meta]) *delta.FIFO[meta] {
	tb.Helper()
	f, err := delta.New(object.Meta[meta](), opts)
	if err != nil {
		tb.Fatal(err)
	}
	return f
}

func perEvent(b *testing.B, n int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/event")
	b.ReportMetric(float64(b.N)*float64(n)/b.Elapsed().Seconds(), "events/s")
}

var depths = []int{1, 10, 1000, 100_000}

func BenchmarkAddPop(b *testing.B) {
	for _, n := range depths {
		b.Run(fmt.Sprintf("pending=%d", n), func(b *testing.B) {
			objs, f, ctx := metas(n), newMetas(b, delta.Options[meta]{}), context.Background()
			process := func(delta.Deltas[meta], bool) error { return nil }
			b.ReportAllocs()
			for b.Loop() {
				for _, o := range objs {
					_ = f.Add(o)
				}
				for range objs {
					_ = f.Pop(ctx, process)
				}
			}
			perEvent(b, n)
		})
	}
}

// events are batches of one added object each, as a watch that delivers them one by one.
func events(n int) []object.Batch[meta] {
	batches := make([]object.Batch[meta], n)
	for i, o := range metas(n) {
		item, err := object.ItemOf(object.Meta[meta](), o)
		if err != nil {
			panic(err)
		}
		batches[i] = object.Batch[meta]{
			Changes: []object.Change[meta]{object.ChangeOf(object.Added, &item)},
			Marks:   []object.Mark{{Version: item.Version}},
		}
	}
	return batches
}

func BenchmarkApplyPopBatch(b *testing.B) {
	for _, n := range depths {
		b.Run(fmt.Sprintf("pending=%d", n), func(b *testing.B) {
			events, ctx := events(n), context.Background()
			buffer, err := delta.NewBuffer[meta](delta.BufferOptions{})
			if err != nil {
				b.Fatal(err)
			}
			process := func(*object.Batch[meta]) error { return nil }
			b.ReportAllocs()
			for b.Loop() {
				for i := range events {
					_ = buffer.Apply(&events[i])
				}
				_ = buffer.PopBatch(ctx, process)
			}
			perEvent(b, n)
		})
	}
}

func BenchmarkReplacePop(b *testing.B) {
	for _, n := range depths {
		b.Run(fmt.Sprintf("listed=%d", n), func(b *testing.B) {
			f, ctx := newMetas(b, delta.Options[meta]{}), context.Background()
			list, err := object.ListOf(object.Meta[meta](), "5", metas(n)...)
			if err != nil {
				b.Fatal(err)
			}
			process := func(delta.Deltas[meta], bool) error { return nil }
			b.ReportAllocs()
			for b.Loop() {
				_ = f.Replace(list)
				for range n {
					_ = f.Pop(ctx, process)
				}
			}
			perEvent(b, n)
		})
	}
}
