package shard

import (
	"strconv"
	"time"

	"github.com/tarnproject/tarn/internal/handover"
	"github.com/tarnproject/tarn/object"
)

// ruling is what the group's lease says.
type ruling struct {
	slots assignment
	// ranges is true if the slots are ranges of the server's hashes (Options.Ranges).
	ranges bool
	// duration is the longest LeaseDuration of the owners.
	duration time.Duration
	// written is what the earlier owners of slots wrote lately. A new owner does not work before
	// its caches have it.
	written versions
}

// What the leases say about writes; see package handover.
type (
	versions = handover.Versions
	part     = handover.Part
	history  = handover.History
)

// covered reports whether a cache with a shard receives the changes of the part.
func covered(p part, shard object.Shard) bool {
	n, err := strconv.ParseUint(p.Slot, 10, 8)
	return err != nil || shard.ContainsHash(Slot(n).hashes().First)
}
