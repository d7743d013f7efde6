package main

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"unsafe"
)

// threadTime returns the processor time that the calling thread has used, in
// nanoseconds. The goroutine must be locked to its thread.
func threadTime() int64 {
	const threadCPUTime = 3 // CLOCK_THREAD_CPUTIME_ID
	var ts syscall.Timespec
	if _, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, threadCPUTime, uintptr(unsafe.Pointer(&ts)), 0); errno != 0 {
		return now()
	}
	return ts.Nano()
}

// processTime returns the processor time that the process has used, user and system, in
// nanoseconds.
func processTime() int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return now()
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

// queue reads how long a thread has waited for a processor.
type queue struct{ file *os.File }

// ownQueue returns that of the calling thread, to which the goroutine must be locked. Where
// the kernel does not report it, the waiting time is always 0.
func ownQueue() queue {
	file, err := os.Open("/proc/thread-self/schedstat")
	if err != nil {
		return queue{}
	}
	return queue{file}
}

// waited returns the time in nanoseconds that the thread was ready to run and did not,
// since it began.
func (q queue) waited() int64 {
	var buf [128]byte
	n, err := q.file.ReadAt(buf[:], 0)
	if n == 0 && err != nil {
		return 0
	}
	fields := strings.Fields(string(buf[:n]))
	if len(fields) < 2 {
		return 0
	}
	ns, _ := strconv.ParseInt(fields[1], 10, 64)
	return ns
}

func (q queue) close() { _ = q.file.Close() }

// peakMemory returns the most memory that the process had in use at any time, in bytes. It
// is not asked of getrusage, which counts what the parent had when it started the process.
func peakMemory() int64 {
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
