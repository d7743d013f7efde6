package main

import (
	"math/bits"
	"runtime"
	"sync/atomic"
)

// histogram counts latencies: to the nanosecond up to about 4 µs, and to three percent
// above.
type histogram struct {
	buckets [exact + 52*32]uint32
	count   uint64
	longest int64
}

const exact = 4096

func (h *histogram) add(ns int64) {
	h.buckets[bucket(ns)]++
	h.count++
	h.longest = max(h.longest, ns)
}

func bucket(ns int64) int {
	if ns < exact {
		return int(max(ns, 0))
	}
	e := bits.Len64(uint64(ns)) - 1 // at least 12
	return exact + (e-12)*32 + int(ns>>(e-5))&31
}

// low returns the least latency that belongs into a bucket.
func low(bucket int) int64 {
	if bucket < exact {
		return int64(bucket)
	}
	e, part := (bucket-exact)/32+12, (bucket-exact)%32
	return int64(32+part) << (e - 5)
}

// quantile returns the latency that the given part of the calls did not exceed.
func (h *histogram) quantile(part float64) int64 {
	left := int64(part * float64(h.count))
	for b, n := range h.buckets {
		if left -= int64(n); left < 0 {
			return low(b)
		}
	}
	return h.longest
}

// timerCost returns how long reading the clock takes: the median difference of two
// consecutive readings.
func timerCost() int64 {
	h := new(histogram)
	for range 100_000 {
		start := now()
		h.add(now() - start)
	}
	return h.quantile(0.5)
}

// timed calls get n times and returns how long each call took, the clock's own cost taken
// off.
func timed(n int, get func(i int), timer int64) *histogram {
	h := new(histogram)
	for i := range n {
		start := now()
		get(i)
		h.add(max(0, now()-start-timer))
	}
	return h
}

// watcher is a reader that calls without a pause while something else goes on, and notes
// how long the calls take.
//
// Every reading of the clock ends one call and begins the next, so no moment is left out:
// what happens between two calls counts for the second. The exception is a short break after
// every few hundred calls, in which the goroutine yields. Without it the Go scheduler takes it
// off its processor after 10 ms, in the middle of a call, and on a busy machine it takes a
// while to come back.
type watcher struct {
	all *histogram
	// longest is the longest call; own is the longest without the time for which
	// the thread was ready to run but the kernel ran another.
	longest, own int64
}

// slow is the duration above which the kernel is asked how long the thread waited.
const slow = 20_000

// watch calls get while work runs.
func watch(get func(i int), work func()) *watcher {
	w := &watcher{all: new(histogram)}
	var begun, over atomic.Bool
	ready, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		queue := ownQueue()
		defer queue.close()
		for i := range 10_000 { // until the caches are warm
			get(i)
		}
		waited := queue.waited()
		close(ready)
		last := now()
		for i := 0; ; i++ {
			end := over.Load()
			get(i)
			t := now()
			counts := begun.Load() // also a call that had begun before the work
			took := t - last
			last = t
			if took > slow {
				before := waited
				waited = queue.waited()
				if counts {
					w.own = max(w.own, took-(waited-before))
				}
				last = now() // asking does not count
			} else if counts {
				w.own = max(w.own, took)
			}
			if counts {
				w.all.add(took)
			}
			if end {
				break
			}
			if i%512 == 511 {
				runtime.Gosched()
				if last = now(); last-t > slow {
					waited = queue.waited()
					last = now()
				}
			}
		}
	}()
	<-ready
	begun.Store(true)
	work()
	over.Store(true)
	<-done
	w.longest = w.all.longest
	return w
}
