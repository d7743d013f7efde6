package sim

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// Trace remembers the last things that happened. A nil Trace remembers nothing. It may
// be used from any goroutine; what it is given must not change afterwards.
type Trace struct {
	mu      sync.Mutex // guards all below
	began   time.Time
	entries []entry
	dropped int
}

type entry struct {
	at     time.Duration
	who    string
	format string
	args   []any
}

// traceLimit is more than any run has use for; a run that never ends must not eat the
// machine.
const traceLimit = 20000

// Add records an action. It is formatted when the trace is read.
func (t *Trace) Add(who, format string, args ...any) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.began.IsZero() {
		t.began = now()
	}
	if len(t.entries) == traceLimit {
		t.dropped += traceLimit / 2
		t.entries = append(t.entries[:0], t.entries[traceLimit/2:]...)
	}
	t.entries = append(t.entries, entry{at: now().Sub(t.began), who: who, format: format, args: args})
}

// String writes all of it, a line for each.
func (t *Trace) String() string {
	if t == nil {
		return ""
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	var b strings.Builder
	if t.dropped > 0 {
		fmt.Fprintf(&b, "(%d earlier lines left out)\n", t.dropped)
	}
	for _, e := range t.entries {
		fmt.Fprintf(&b, "%12s  %-10s %s\n", e.at, e.who, fmt.Sprintf(e.format, e.args...))
	}
	return b.String()
}
