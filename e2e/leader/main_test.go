package leader

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/tarnproject/tarn/e2e/controlplane"
)

var (
	seed   = flag.Uint64("seed", 1, "what decides who suffers what")
	soak   = flag.Int("soak", 1, "how many times as many rounds there are")
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

// The lease is short, so that a takeover does not take long.
const (
	leaseDuration = 3 * time.Second
	renewDeadline = 2 * time.Second
	retryPeriod   = 300 * time.Millisecond
)
