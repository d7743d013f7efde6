//go:build unix

package informer_test

import (
	"syscall"
	"testing"
)

// cpu starts a clock of the processor time that this process uses, and returns what
// reports it, divided by the benchmark's N. On a busy machine it says more than the time
// of day.
func cpu(b *testing.B) (report func()) {
	used := func() int64 {
		var r syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
			b.Fatal(err)
		}
		return r.Utime.Nano() + r.Stime.Nano()
	}
	begin := used()
	return func() { b.ReportMetric(float64(used()-begin)/float64(b.N), "cpu-ns/event") }
}
