package leader

import (
	"encoding/json"
	"io"
	"sync"
	"time"
)

// line is one thing that a replica reports to have done.
type line struct {
	What whatDone `json:"what"`
	Key  string   `json:"key,omitempty"`
	// At is when, by the wall clock, which all processes of a machine share.
	At time.Time `json:"at"`
	// Asked is when the fence was asked that let it happen, before it answered.
	Asked time.Time `json:"asked,omitzero"`
	// Deadline is when the lease ended as far as was known then.
	Deadline time.Time `json:"deadline,omitzero"`
	// Count is the number of the write to the key.
	Count int `json:"count,omitempty"`
	// How a write ended: "" is well.
	How string `json:"how,omitempty"`
}

type whatDone string

// What replicas do.
const (
	led        whatDone = "led"        // a term began
	lost       whatDone = "lost"       // it ended, and all work with it
	reconciled whatDone = "reconciled" // a reconcile began
	writing    whatDone = "writing"    // a write began
	wrote      whatDone = "wrote"      // it ended
)

// How writes end.
const (
	conflict  = "conflict"
	notLeader = "not the leader"
	cancelled = "cancelled"
)

// trace writes lines, each at once, so that nothing is lost with the process.
type trace struct {
	mu  sync.Mutex // guards out
	out io.Writer
}

func (t *trace) tell(l line) {
	data, err := json.Marshal(l)
	if err != nil {
		panic(err) // a struct of plain values
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	// The write fails only if the test has ended, and then there is no reader to report to.
	_, _ = t.out.Write(append(data, '\n'))
}
