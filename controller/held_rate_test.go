package controller_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/internal/sim/simtest"
)

// 40 keys are held back, each retried once a second, beside 5 changes a second with a rate of 10.
func TestR11_HeldKeysTakeNoTokensOfTheRate(t *testing.T) {
	for _, workers := range []int{1, 4} {
		t.Run(fmt.Sprint(workers), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				held := make(chan string, 40)
				added := map[string]time.Time{}
				var worst time.Duration
				n := 0
				keys := make(chan string)
				both := controller.Source[string]{Name: "both", Pending: func(key string) bool { return strings.HasPrefix(key, "held") },
					Run: func(ctx context.Context, in *controller.Intake[string]) error {
						for {
							select {
							case key := <-held:
								in.Add(key)
							case key := <-keys:
								in.Add(key)
							case <-ctx.Done():
								return nil
							}
						}
					}}
				type done struct{ key string }
				finished := make(chan done, 1000)
				c, err := controller.New("rated", func(_ context.Context, key string) (result, error) {
					finished <- done{key}
					return result{}, nil
				}, controller.Options[string]{Rate: 10, Burst: 1, Workers: workers}, both)
				if err != nil {
					t.Fatal(err)
				}
				start(t, c)
				for i := range cap(held) {
					held <- fmt.Sprint("held", i)
				}
				for i := range 300 {
					key := fmt.Sprint("k", i)
					added[key] = time.Now()
					keys <- key
					simtest.Advance(200 * time.Millisecond)
					for len(finished) > 0 {
						d := <-finished
						worst = max(worst, time.Since(added[d.key]))
						n++
					}
				}
				if n < 298 || worst > time.Second {
					t.Errorf("%d of 300 keys reconciled, the last after %v", n, worst)
				}
				simtest.Want(t, "held", len(c.Status().HeldKeys), 40)
			})
		})
	}
}
