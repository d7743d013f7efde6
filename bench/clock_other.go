//go:build !linux

package main

// threadTime returns the wall time: without the CPU time of a thread the benchmarks need an
// otherwise idle machine.
func threadTime() int64 { return now() }

// processTime returns the wall time.
func processTime() int64 { return now() }

// queue always reports a waiting time of 0.
type queue struct{}

func ownQueue() queue { return queue{} }

func (queue) waited() int64 { return 0 }

func (queue) close() {}

// peakMemory returns 0, for unknown.
func peakMemory() int64 { return 0 }
