package main

import (
	"context"
	"runtime"
	"runtime/pprof"

	"github.com/tarnproject/tarn/bench/pods"
)

// group is how many objects arrive at a time.
const group = 100

// arrivals are new versions of some objects in their encoded form, as they wait in the buffer
// of a connection.
type arrivals struct {
	at   []int // which of the lab's pods
	data [][]byte
}

// arrivals makes the next versions of n objects, in random order.
func (l *lab) arrivals(n int) arrivals {
	a := arrivals{at: l.draw(n), data: make([][]byte, n)}
	first := l.version + 1
	parallel(n, func(i int) { a.data[i] = pods.Encode(pods.Next(l.pods[a.at[i]], first+uint64(i))) })
	l.version += uint64(n)
	return a
}

// decode returns the objects of the nth group.
func (a arrivals) decode(n int) []pod {
	data := a.data[n*group : min((n+1)*group, len(a.data))]
	objs := make([]pod, len(data))
	for i := range objs {
		objs[i] = pods.Decode(data[i])
	}
	return objs
}

// arrive is a duel over updates that are decoded just before a side gets them, a group at a
// time, as in an informer: the new object is in the processor's caches, the one that it
// replaces is not. Each side decodes for itself and is at another place in the order of groups
// than the other, so that neither finds in the caches what the other has just used.
//
// A side is given the objects of a group and returns what is to be timed.
func (l *lab) arrive(clientGo, tarn func([]pod) func()) (c, t *Figure) {
	sides := [2]struct {
		name string
		of   func([]pod) func()
	}{{"client-go", clientGo}, {"tarn", tarn}}
	var turns [2][]turn
	for range l.rounds {
		waiting := l.arrivals(l.some(updated))
		runtime.GC()
		groups := len(waiting.data) / group
		var ns [2]int64
		var counted [2]turn
		for g := range groups {
			for i := range sides {
				side := (i + g) % 2
				at := g // Tarn needs them in the order of their versions, client-go does not
				if side == 0 {
					at = (g + groups/2) % groups
				}
				objs := waiting.decode(at)
				do := sides[side].of(objs)
				if g < 2 { // the first only count allocations, which disturbs the caches
					counted[side] = take(sides[side].name, func(int) { do() }, len(objs))
				} else {
					ns[side] += timedAs(sides[side].name, do)
				}
				if side == 1 {
					for i, p := range objs {
						l.pods[waiting.at[at*group+i]] = p
					}
				}
			}
		}
		for side := range sides {
			counted[side].ns = float64(ns[side]) / float64((groups-2)*group)
			turns[side] = append(turns[side], counted[side])
		}
	}
	l.restore()
	return figure(turns[0], false), figure(turns[1], false)
}

// timedAs returns the processor time that do takes. The side's name is on the samples of a
// profile.
func timedAs(side string, do func()) (ns int64) {
	runtime.LockOSThread() // for threadTime
	defer runtime.UnlockOSThread()
	pprof.Do(context.Background(), pprof.Labels("side", side), func(context.Context) {
		start := threadTime()
		do()
		ns = threadTime() - start
	})
	return ns
}
