package main

import (
	"context"
	"runtime"
	"runtime/pprof"
	"slices"
	"time"
)

// duel is a measure of two sides that do the same thing, one goroutine at a time.
//
// The sides take turns, and every other round the other one begins. A turn is timed by
// the processor time of its thread, which stops while another program has the processor and
// excludes background garbage collection.
//
// If the minimum counts, a round is several shorter turns: both sides are then likelier to
// get a quiet moment.
type duel struct {
	// clientGo and tarn do the operation n times. Either may be nil.
	clientGo, tarn func(n int)
	// ops is the number of operations of a turn. Defaults to what fills the lab's turn.
	ops int
	// prepare runs before every round, untimed, followed by a garbage collection.
	prepare func()
	// least makes the figure the minimum of the rounds, for paths that only use the
	// processor and the memory: other programs cause what exceeds it.
	// Defaults to the median.
	least bool
}

// turn is the result of one turn of one side, per operation.
type turn struct{ ns, allocs, bytes float64 }

// run returns the figures of both sides.
func (d duel) run(l *lab) (clientGo, tarn *Figure) {
	sides := []struct {
		name  string
		do    func(n int)
		n     int
		turns []turn
	}{{name: "client-go", do: d.clientGo}, {name: "tarn", do: d.tarn}}
	turns := 1
	if d.least && d.prepare == nil {
		turns = 5
	}
	if d.prepare == nil {
		runtime.GC()
	}
	for i := range sides {
		s := &sides[i]
		if s.n = d.ops; s.do != nil && d.ops == 0 {
			s.n = max(1, l.calibrate(s.name, s.do)/turns)
		}
	}
	for round := range l.rounds * turns {
		if d.prepare != nil {
			d.prepare()
			runtime.GC()
		}
		for i := range sides {
			s := &sides[(i+round)%2]
			if s.do != nil {
				s.turns = append(s.turns, take(s.name, s.do, s.n))
			}
		}
	}
	return figure(sides[0].turns, d.least), figure(sides[1].turns, d.least)
}

// calibrate returns how many operations fill a turn; finding out warms the caches.
func (l *lab) calibrate(side string, do func(n int)) int {
	for n := 1; ; n *= 4 {
		t := take(side, do, n)
		if total := t.ns * float64(n); total >= float64(l.turn)/8 || n > 1<<28 {
			return max(1, int(float64(l.turn)/max(t.ns, 1)))
		}
	}
}

// take does the operation n times. The side's name is on the samples of a profile.
func take(side string, do func(n int), n int) (t turn) {
	runtime.LockOSThread() // for threadTime
	defer runtime.UnlockOSThread()
	pprof.Do(context.Background(), pprof.Labels("side", side), func(context.Context) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start := threadTime()
		do(n)
		t.ns = float64(threadTime()-start) / float64(n)
		runtime.ReadMemStats(&after)
		t.allocs = float64(after.Mallocs-before.Mallocs) / float64(n)
		t.bytes = float64(after.TotalAlloc-before.TotalAlloc) / float64(n)
	})
	return t
}

// figure sums up the turns of a side; nil if there were none.
func figure(turns []turn, least bool) *Figure {
	if len(turns) == 0 {
		return nil
	}
	var ns, allocs, bytes []float64
	for _, t := range turns {
		ns, allocs, bytes = append(ns, t.ns), append(allocs, t.allocs), append(bytes, t.bytes)
	}
	f := &Figure{Unit: Nanoseconds, Rounds: ns, Counted: true, Allocs: median(allocs), Bytes: median(bytes)}
	f.Value = median(ns)
	if least {
		f.Value = slices.Min(ns)
	}
	return f
}

func median(of []float64) float64 {
	if len(of) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(of))
	mid := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[mid]
	}
	return (sorted[mid-1] + sorted[mid]) / 2
}

// started is the reference of all times.
var started = time.Now()

// now is the wall-clock time in nanoseconds since the program started.
func now() int64 { return int64(time.Since(started)) }
