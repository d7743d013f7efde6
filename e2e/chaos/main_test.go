package chaos

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
	faultCount = flag.Int("chaos.faults", 212, "how many faults strike")
	seed       = flag.Uint64("chaos.seed", 1, "what decides on faults and writes")
	duration   = flag.Duration("chaos.duration", 0, "how long faults strike, however many; 0 is -chaos.faults of them")
	writers    = flag.Int("chaos.writers", 3, "how many writers there are")
)

// shared is the control plane. Pods have no watch cache in the API server, so that what
// etcd forgets is gone for their watches at once. Events live so long that those of two
// seconds have one lease.
var shared = controlplane.Shared{Options: controlplane.Options{APIServerArgs: []string{"--watch-cache-sizes=pods#0", "--event-ttl=40s"}}}

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(shared.Run(m))
}

// patience is how long anything may take here, on a machine that is busy otherwise too.
const patience = 4 * time.Minute

// eventually waits for something that nobody tells of: until holds returns nil.
func eventually(ctx context.Context, what string, holds func() error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := holds()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waited in vain for %s: %w", what, err)
		case <-tick.C:
		}
	}
}

// linger lets time pass.
func linger(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
