package shards

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

var (
	seed    = flag.Uint64("seed", 1, "determines the faults and the changes")
	long    = flag.Bool("long", false, "ten minutes with 20,000 objects")
	plant   = flag.Bool("plant", false, "replicas ignore their fences, which must fail the test")
	figures = flag.Bool("figures", false, "measure throughput, hand-overs and requests")
)

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
	goleak.VerifyTestMain(m)
}

const (
	// group is the name of the group of replicas, and home the namespace of its Leases.
	group, home = "work", "home"
	// lease is the LeaseDuration of the replicas.
	lease = 15 * time.Second
	// bound is after how long every slot has an owner that works, see package shard.
	bound = 3 * lease
	// sample is the time between two samples of a replica's status.
	sample = 50 * time.Millisecond
	// workers is how many keys a replica reconciles at a time.
	workers = 8
	// ledgerLabel is on all ConfigMaps that are reconciled.
	ledgerLabel = "ledger"
)
