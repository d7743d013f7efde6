package shard

import (
	"fmt"
	"strconv"
	"time"

	"github.com/tarnproject/tarn/internal/handover"
	"github.com/tarnproject/tarn/object"
)

// ruling is what the group's lease says.
type ruling struct {
	slots assignment
	// rules identify how the owners divide keys (Options.Rules and Ranges). A member with other rules does not
	// work. They change only while no member works on any slot.
	rules string
	// line is a random text. The member that writes an assignment in place of none, or of one that cannot be
	// read, chooses it, and later ones keep it.
	line string
	// duration is the longest LeaseDuration of the owners.
	duration time.Duration
	// written is what the earlier owners of slots wrote lately. A new owner does not work before
	// its caches have it.
	written versions
}

// rulesOf returns the rules of a process. Members that have another number of slots differ, too.
func rulesOf(text string, ranges bool) string {
	return strconv.FormatUint(object.Hash(fmt.Sprintf("%d %v %s", Slots, ranges, text)), 16)
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
