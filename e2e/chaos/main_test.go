package chaos

import (
	"flag"
	"os"
	"testing"

	"github.com/tarnproject/tarn/e2e/controlplane"
)

var (
	seed       = flag.Uint64("seed", 1, "what decides on faults and writes")
	soak       = flag.Int("soak", 1, "how many times as many faults strike")
	faultCount = flag.Int("chaos.faults", 212, "how many faults strike")
	duration   = flag.Duration("chaos.duration", 0, "how long faults strike, however many; 0 is -chaos.faults of them, times -soak")
	writers    = flag.Int("chaos.writers", 3, "how many writers there are")
)

// shared is the control plane. Pods have no watch cache in the API server, so a
// compaction of etcd expires their watches at once. Events live so long that those of one
// second have one lease. A server that is to end ends watches soon, and then itself.
var shared = controlplane.Shared{Options: controlplane.Options{APIServerArgs: []string{
	"--watch-cache-sizes=pods#0", "--event-ttl=20s", "--shutdown-watch-termination-grace-period=2s",
}}}

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(shared.Run(m))
}
