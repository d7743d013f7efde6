package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// result is the result of one step in a process.
type result struct {
	Step string        `json:"step"`
	Wall time.Duration `json:"wall"`
	CPU  time.Duration `json:"cpu"` // user and system, of the whole process
	Peak int64         `json:"peak"`
	// Heap is what a garbage collection after it left.
	Heap int64 `json:"heap"`
	// Events are the calls of handlers.
	Events int64 `json:"events"`
	// Lists are those that the mirrors asked for, as a list or as a stream.
	Lists int64 `json:"lists"`
	// Held is what the mirrors held after it.
	Held fingerprint `json:"held"`
	// Reads are the costs of reads, and Goroutines how many there were, of the steps that measure them.
	Reads      []read `json:"reads,omitempty"`
	Goroutines int    `json:"goroutines,omitempty"`
}

// read is a kind of read, or another call.
type read struct {
	Name  string        `json:"name"`
	CPU   time.Duration `json:"cpu"` // of the whole process, for each
	Bytes uint64        `json:"bytes"`
}

// measured calls f until that has taken half a second of processor time.
func measured(name string, f func(i int) error) (read, error) {
	for n := 1; ; n *= 2 {
		runtime.GC()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		began := processTime()
		for i := range n {
			if err := f(i); err != nil {
				return read{}, fmt.Errorf("%s: %w", name, err)
			}
		}
		took := processTime() - began
		if took < time.Second/2 {
			continue
		}
		runtime.ReadMemStats(&after)
		return read{name, took / time.Duration(n), (after.TotalAlloc - before.TotalAlloc) / uint64(n)}, nil
	}
}

// meter measures the process from one moment to another.
type meter struct {
	wall   time.Time
	cpu    time.Duration
	events int64
	lists  int64
}

func begin(events, lists int64) meter {
	// Resets the peak, if the kernel permits it.
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0)
	return meter{time.Now(), processTime(), events, lists}
}

func (m meter) end(step string, events, lists int64) result {
	r := result{
		Step: step, Wall: time.Since(m.wall), CPU: processTime() - m.cpu, Peak: peak(),
		Events: events - m.events, Lists: lists - m.lists,
	}
	r.Heap = live()
	return r
}

// live returns the size of the heap after a garbage collection. The second one frees what finalizers and pools held.
func live() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// processTime returns the processor time that the process has used.
func processTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// peak returns the most memory that was in use since the last begin, in bytes; 0 if the
// kernel does not report it.
func peak() int64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "VmHWM:" {
			kB, _ := strconv.ParseInt(fields[1], 10, 64)
			return kB << 10
		}
	}
	return 0
}
