//go:build !linux

package main

// threadTime returns the time on the wall: where it is not known how long a thread has
// run, the benchmarks need a machine to themselves.
func threadTime() int64 { return now() }

// processTime returns the time on the wall too.
func processTime() int64 { return now() }

// queue reports no waiting: it is not known here.
type queue struct{}

func ownQueue() queue { return queue{} }

func (queue) waited() int64 { return 0 }

func (queue) close() {}

// peakMemory returns 0: it is not known.
func peakMemory() int64 { return 0 }
