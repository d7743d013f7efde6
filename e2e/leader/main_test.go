package leader

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/tarnproject/tarn/e2e/controlplane"
)

var (
	seed   = flag.Uint64("leader.seed", 1, "what decides who suffers what")
	rounds = flag.Int("leader.rounds", 12, "how often a leader is killed or paused")
)

var shared controlplane.Shared

// replicaArg makes the test's binary a replica.
const replicaArg = "replica"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == replicaArg {
		if err := replica(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "replica:", err)
			os.Exit(1)
		}
		return
	}
	flag.Parse()
	os.Exit(shared.Run(m))
}

// patience is how long anything may take here, on a machine that is busy otherwise too.
const patience = 3 * time.Minute

// The lease is short, so that a takeover does not take long.
const (
	leaseDuration = 4 * time.Second
	renewDeadline = 3 * time.Second
	retryPeriod   = 300 * time.Millisecond
)

// linger lets time pass.
func linger(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
