package recorder_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/controller/recorder"
	"github.com/tarnproject/tarn/internal/sim/simtest"
	"github.com/tarnproject/tarn/internal/soak"
)

// Whatever is recorded, each event is counted once, and the server has those that were sent.
func TestEveryEventIsCounted(t *testing.T) {
	for seed := range soak.Rounds(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rng := rand.New(rand.NewPCG(uint64(seed), 1))
				r := start(t, recorder.Options{Buffer: 1 + rng.IntN(20)})
				total := uint64(0)
				check := func() {
					t.Helper()
					if s := r.Status(); s.Sent+s.Dropped+s.Failed+uint64(s.Pending) != total {
						t.Fatalf("%+v of %d", s, total)
					}
				}
				for range 200 {
					switch rng.IntN(10) {
					case 0:
						r.inject(apiserver.Fault{
							Kind:  []apiserver.FaultKind{apiserver.InternalError, apiserver.Unavailable, apiserver.TooManyRequests, apiserver.Latency}[rng.IntN(4)],
							Times: 1 + rng.IntN(2), Optional: true,
						})
					case 1:
						simtest.Advance(time.Duration(rng.Int64N(int64(8 * time.Minute))))
					default:
						var group sync.WaitGroup
						for range 1 + rng.IntN(3) {
							group.Go(func() {
								for range 5 {
									r.Normal(pod(fmt.Sprint("p", rand.N(3))), fmt.Sprint("Reason", rand.N(3)), "note %d", rand.N(15))
								}
							})
							total += 5
						}
						group.Wait()
						<-time.After(time.Duration(rng.Int64N(int64(20 * time.Second))))
					}
					check()
				}
				r.server.Clear()
				r.stop()
				check()
				stored := uint64(0)
				for _, e := range r.events() {
					stored += uint64(occurrences(e))
				}
				if s := r.Status(); s.Pending != 0 || stored < s.Sent || stored > s.Sent+s.Failed {
					t.Errorf("%+v; the server has %d", s, stored)
				}
			})
		})
	}
}
