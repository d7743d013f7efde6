//go:build !linux

package main

// threadTime returns wall-clock time. Without a thread clock the benchmarks need an otherwise
// idle machine.
func threadTime() int64 { return now() }

// processTime returns wall-clock time too.
func processTime() int64 { return now() }

// queue reports no waiting: it is not known here.
type queue struct{}

func ownQueue() queue { return queue{} }

func (queue) waited() int64 { return 0 }

func (queue) close() {}

// peakMemory returns 0: it is not known.
func peakMemory() int64 { return 0 }
