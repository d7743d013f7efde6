package controller_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/tarnproject/tarn/controller"
)

// BenchmarkReconcile measures the overhead of a controller per reconcile.
func BenchmarkReconcile(b *testing.B) {
	for _, workers := range []int{1, 8} {
		b.Run(fmt.Sprint("workers=", workers), func(b *testing.B) { benchmarkReconcile(b, controller.Options[int]{Workers: workers}) })
	}
	b.Run("without recent", func(b *testing.B) { benchmarkReconcile(b, controller.Options[int]{Recent: -1}) })
	b.Run("fenced", func(b *testing.B) {
		ctx := controller.WithFence(context.Background(), newGate())
		benchmarkReconcileWith(ctx, b, controller.Options[int]{})
	})
}

func benchmarkReconcile(b *testing.B, opts controller.Options[int]) {
	benchmarkReconcileWith(context.Background(), b, opts)
}

func benchmarkReconcileWith(ctx context.Context, b *testing.B, opts controller.Options[int]) {
	const keys = 1024
	var todo atomic.Int64
	done := make(chan struct{}, 1)
	ctx, cancel := context.WithCancel(ctx)
	src := controller.Source[int]{Name: "bench", Run: func(ctx context.Context, in *controller.Intake[int]) error {
		batch := make([]int, keys)
		for i := range batch {
			batch[i] = i
		}
		for left := b.N; left > 0; {
			n := min(left, keys)
			todo.Store(int64(n))
			in.Add(batch[:n]...)
			<-done // once at the end, so that goroutine switches do not count
			left -= n
		}
		cancel()
		<-ctx.Done()
		return nil
	}}
	c, err := controller.New("bench", func(context.Context, int) (controller.Result, error) {
		if todo.Add(-1) == 0 {
			done <- struct{}{}
		}
		return controller.Result{}, nil
	}, opts, src)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.ResetTimer()
	if err := c.Run(ctx); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "reconciles/s")
}
