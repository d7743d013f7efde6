package main

import (
	"os"
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
	// Events are the calls of handlers.
	Events int64 `json:"events"`
	// Lists are those that the mirrors asked for, as a list or as a stream.
	Lists int64 `json:"lists"`
	// Held is what the mirrors held after it.
	Held fingerprint `json:"held"`
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
	return result{
		Step: step, Wall: time.Since(m.wall), CPU: processTime() - m.cpu, Peak: peak(),
		Events: events - m.events, Lists: lists - m.lists,
	}
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
