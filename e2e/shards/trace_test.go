package shards

import (
	"encoding/json"
	"io"
	"sync"
	"time"

	"github.com/tarnproject/tarn/controller/shard"
)

// line is what a replica reports on its standard output. All processes of a machine share the wall
// clock that its times are of.
type line struct {
	What report    `json:"what"`
	At   time.Time `json:"at"`
	// From is when a reconcile began, or a time in which the process did not run. It ended At.
	From time.Time `json:"from,omitzero"`
	Key  string    `json:"key,omitempty"`
	// Text is what is wrong, or the name of the member.
	Text string `json:"text,omitempty"`
	// Slots are those that the replica works on.
	Slots []shard.Slot `json:"slots,omitempty"`
	// Reconciles and Requests count the reconciles and the requests for membership so far.
	Reconciles int64 `json:"reconciles,omitempty"`
	Requests   int64 `json:"requests,omitempty"`
}

type report string

const (
	reconciled report = "reconciled" // a reconcile with something to do has ended
	stalled    report = "stalled"    // the process did not run for a time
	status     report = "status"     // the slots and counts, when the slots have changed and once a second
	wrong      report = "wrong"      // the replica has found a violation itself
)

// trace writes lines, each with one call, so that none is lost when the process is killed.
type trace struct {
	mu  sync.Mutex // guards out
	out io.Writer
}

func (t *trace) report(l line) {
	data, err := json.Marshal(l)
	if err != nil {
		panic(err) // a struct of plain values
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	// The write fails only if the test has ended, and then there is no reader to report to.
	_, _ = t.out.Write(append(data, '\n'))
}
