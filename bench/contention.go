package main

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/tarnproject/tarn/bench/pods"
)

// getP99 measures single calls of Get: without a writer, and while another goroutine
// updates objects as fast as it can.
func getP99(l *lab) []Row {
	calls := max(1_000, int(l.turn/(500*time.Nanosecond))) // about one turn
	timer := timerCost()
	// Two versions of some objects, which the writers write alternately.
	var versions [2][]pod
	for _, i := range l.order[:l.some(20_000)] {
		versions[0] = append(versions[0], l.pods[i])
	}
	versions[1] = make([]pod, len(versions[0]))
	parallel(len(versions[1]), func(i int) {
		versions[1][i] = pods.Next(versions[0][i], l.version+1+uint64(i))
	})
	l.version += uint64(len(versions[1]))

	type side struct {
		get         func(i int)
		write       func(pod)
		quiet, busy []float64
		rate        []float64
	}
	sides := [2]side{
		{
			get:   l.getOneOfClientGo(),
			write: func(p pod) { check(l.indexer.Update(p)) },
		},
		{
			get:   l.getOneOfTarn(),
			write: func(p pod) { check(l.store.Set(p)) },
		},
	}
	for round := range l.rounds {
		for i := range sides {
			s := &sides[(i+round)%2]
			timed(calls/10, s.get, timer) // warms the caches
			s.quiet = append(s.quiet, float64(timed(calls, s.get, timer).quantile(0.99)))
			var busy *histogram
			start := now()
			written := whileWriting(versions, s.write, func() { busy = timed(calls, s.get, timer) })
			s.rate = append(s.rate, float64(written)/float64(now()-start)*1e9)
			s.busy = append(s.busy, float64(busy.quantile(0.99)))
		}
	}
	for _, p := range versions[0] { // restore the lab's own versions
		check(l.indexer.Update(p))
		check(l.store.Set(p))
	}

	row := func(title string, of func(s *side) []float64, goals ...goal) Row {
		var figures [2]*Figure
		for i := range sides {
			v := of(&sides[i])
			figures[i] = &Figure{Value: median(v), Unit: Nanoseconds, Rounds: v}
		}
		return newRow(title, figures[0], figures[1], goals...)
	}
	quiet := row("3 Get p99, quiet", func(s *side) []float64 { return s.quiet })
	busy := row("3 Get p99 while a writer updates", func(s *side) []float64 { return s.busy }, better(5, "better"))
	slower := row("3 Get p99 while a writer updates, relative to own quiet p99", func(s *side) []float64 {
		return []float64{median(s.busy) / max(1, median(s.quiet))}
	})
	slower.ClientGo.Unit, slower.Tarn.Unit = Times, Times
	slower = newRow(slower.Measure, slower.ClientGo, slower.Tarn, atMost(1.5, Times))
	busy.ClientGo.Note = fmt.Sprintf("%s updates/s", number(median(sides[0].rate)))
	busy.Tarn.Note = fmt.Sprintf("%s updates/s", number(median(sides[1].rate)))
	return []Row{quiet, busy, slower}
}

// whileWriting runs read while another goroutine writes continuously, and returns the number of
// writes.
func whileWriting(versions [2][]pod, write func(pod), read func()) (written int) {
	var stop atomic.Bool
	begun, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			for v := range versions {
				for _, p := range versions[1-v] {
					if stop.Load() {
						return
					}
					write(p)
					if written++; written == 1_000 {
						close(begun)
					}
				}
			}
		}
	}()
	<-begun
	read()
	stop.Store(true)
	<-done
	return written
}
