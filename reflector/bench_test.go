package reflector_test

import (
	"context"
	"fmt"
	"io"
	"testing"

	"github.com/tarnproject/tarn/delta"
	"github.com/tarnproject/tarn/internal/sim/simtest"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
)

// discard pops everything that is pending.
func discard(b *testing.B, buffer *delta.Buffer[*thing]) {
	err := buffer.PopBatch(context.Background(), func(*object.Batch[*thing]) error { return nil })
	if err != nil {
		b.Fatal(err)
	}
}

// BenchmarkEvents measures a decoded event from the stream through the buffer, with different numbers
// of events per read.
func BenchmarkEvents(b *testing.B) {
	for _, size := range []int{1, 16, 256} {
		b.Run(fmt.Sprintf("read=%d", size), func(b *testing.B) {
			const keys = 1000
			objs := make([]*thing, keys)
			for i := range objs {
				objs[i] = newThing(fmt.Sprint("a/", i), "u", "", "")
			}
			events := make([]event, size)
			var versions []object.Version // increasing, made in advance
			version := 1_000_000_000
			refill := func() {
				versions = versions[:0]
				for range 1 << 16 {
					version++
					versions = append(versions, object.Version(fmt.Sprint(version)))
				}
			}
			n := 0
			next := func() ([]event, error) {
				for i := range events {
					o := objs[n%keys]
					events[i] = event{Kind: object.Updated, Item: item{Key: simtest.KeyOf(o), UID: o.UID, Value: object.Decoded(o), Version: versions[n%len(versions)]}}
					n++
				}
				return events, nil
			}
			src := reflector.SourceFuncs[*thing]{
				ListFunc: func(context.Context, object.ListOptions, *object.Intake[*thing], func(item) error) (object.Page, error) {
					return object.Page{Version: "1"}, nil
				},
				WatchFunc: func(context.Context, object.WatchOptions, *object.Intake[*thing]) (object.Stream[*thing], error) {
					return reflector.StreamFuncs[*thing]{NextFunc: next}, nil
				},
			}
			buffer, err := delta.NewBuffer[*thing](delta.BufferOptions{})
			if err != nil {
				b.Fatal(err)
			}
			r, err := reflector.New(src, buffer, plain(options{}))
			if err != nil {
				b.Fatal(err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			for range 3 {
				r.Step(ctx)
			}
			discard(b, buffer)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if i%(1<<16) == 0 {
					b.StopTimer()
					refill()
					b.StartTimer()
				}
				if i%size == 0 {
					if err := r.Step(ctx); err != nil {
						b.Fatal(err)
					}
					discard(b, buffer)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
			cancel()
			r.Step(ctx)
		})
	}
}

// BenchmarkList measures a list of 10,000 items through the buffer.
func BenchmarkList(b *testing.B) {
	const n = 10_000
	items := make([]item, n)
	for i := range items {
		items[i] = simtest.ItemOf(newThing(fmt.Sprint("a/", i), "u", "7", ""))
	}
	src := reflector.SourceFuncs[*thing]{
		ListFunc: func(_ context.Context, _ object.ListOptions, _ *object.Intake[*thing], sink func(item) error) (object.Page, error) {
			for i := range items {
				if err := sink(items[i]); err != nil {
					return object.Page{}, err
				}
			}
			return object.Page{Version: "8"}, nil
		},
		WatchFunc: func(context.Context, object.WatchOptions, *object.Intake[*thing]) (object.Stream[*thing], error) {
			return nil, io.ErrUnexpectedEOF
		},
	}
	b.ReportAllocs()
	for b.Loop() {
		buffer, err := delta.NewBuffer[*thing](delta.BufferOptions{})
		if err != nil {
			b.Fatal(err)
		}
		r, err := reflector.New(src, buffer, plain(options{Name: "things"}))
		if err != nil {
			b.Fatal(err)
		}
		r.Step(b.Context())
		r.Step(b.Context())
		discard(b, buffer)
	}
	b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "objects/s")
}
