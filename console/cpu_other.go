//go:build !unix

package console

import "time"

// cpuTime returns 0: the CPU time is not known on this platform.
func cpuTime() time.Duration { return 0 }
