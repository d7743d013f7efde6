package sim_test

import (
	"flag"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/tarnproject/tarn/internal/sim"
	"github.com/tarnproject/tarn/internal/soak"
)

var (
	seedFlag  = flag.Uint64("sim.seed", 0, "run just this seed and print its trace")
	firstFlag = flag.Uint64("sim.first", 1, "the first of the seeds")
)

// tally counts, over all seeds, what happened, so that a simulation in which nothing
// happens does not pass for a good one.
type tally struct {
	mu     sync.Mutex // guards counts
	counts map[string]int
}

func (c *tally) add(what string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counts == nil {
		c.counts = map[string]int{}
	}
	c.counts[what] += n
}

func (c *tally) of(what string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts[what]
}

// simulate runs a simulation for many seeds, each in its own bubble, and reports the
// first that fails with its trace and how to replay it. It reports whether at least the usual
// number of seeds was run, so that there is something to tally.
func simulate(t *testing.T, usual int, run func(seed uint64, trace *sim.Trace) error) (enough bool) {
	t.Helper()
	if *seedFlag != 0 {
		trace := new(sim.Trace)
		err := bubble(t, *seedFlag, trace, run)
		t.Logf("seed %d:\n%s", *seedFlag, trace)
		if err != nil {
			t.Error(err)
		}
		return false
	}
	seeds := soak.Rounds(usual)
	name := t.Name()
	t.Run("seeds", func(t *testing.T) {
		for shard := range shards {
			t.Run(strconv.Itoa(shard), func(t *testing.T) {
				t.Parallel()
				for i := shard; i < seeds && !t.Failed(); i += shards {
					seed := *firstFlag + uint64(i)
					trace := new(sim.Trace)
					if err := bubble(t, seed, trace, run); err != nil {
						t.Errorf("%s\nseed %d: %v\nreplay: go test ./internal/sim -run '^%s$' -sim.seed=%d -v", trace, seed, err, name, seed)
					}
				}
			})
		}
	})
	return seeds >= usual && !t.Failed()
}

// shards run beside each other.
const shards = 2

// bubble runs one seed. A deadlock of the bubble is a panic here, which does not know the
// seed.
func bubble(t *testing.T, seed uint64, trace *sim.Trace, run func(uint64, *sim.Trace) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			panic(fmt.Sprintf("%s\nseed %d (go test ./internal/sim -run '^%s$' -sim.seed=%d): %v", trace, seed, t.Name(), seed, p))
		}
	}()
	synctest.Test(t, func(*testing.T) { err = run(seed, trace) })
	return err
}
