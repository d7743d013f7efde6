package shard

import (
	"math"
	"slices"
	"strconv"

	"github.com/tarnproject/tarn/object"
)

// Slots is the number of equal parts of the 64-bit hash space that members of a group share.
const Slots = 256

// Slot is a part of the hash space: all hashes whose first eight bits are its number.
type Slot uint8

// SlotOf returns the slot of a text as a range of the hashes of server-side sharding, 64-bit FNV-1a.
// Texts that differ in their last two characters only, as namespaces often do, have almost the same
// hash and so the same slot; see [ByNamespace].
func SlotOf(text string) Slot { return Slot(object.Hash(text) >> 56) }

// hashes returns the hashes of server-side sharding that are in the slot.
func (s Slot) hashes() object.HashRange {
	return object.HashRange{First: uint64(s) << 56, Last: uint64(s)<<56 | (1<<56 - 1)}
}

// mix spreads the differences of hashes over all bits: FNV leaves the high ones alike for texts that
// differ at the end only.
func mix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// Spread returns the name of a slot for a text, for a Queue.Group of your own in controller.Options: texts
// that are equal have the same slot, and similar ones mostly different slots. The name of a slot is
// returned as it is.
func Spread(text string) string {
	if n, err := strconv.ParseUint(text, 10, 8); err == nil && Slot(n).String() == text {
		return text
	}
	return spread(text)
}

func spread(text string) string { return Slot(mix(object.Hash(text)) >> 56).String() }

// String returns the slot's number. It is the name of the slot's group of keys in a controller.
func (s Slot) String() string { return strconv.Itoa(int(s)) }

// ByNamespace returns the slot of a key's namespace, for Queue.Group of controller.Options. Objects of
// a namespace belong to the same member, so owners and dependents stay together. Cluster-scoped
// objects are all in one slot. It spreads similar names, so a slot is no range of the server's hashes.
func ByNamespace(key object.Key) string { return spread(key.Namespace) }

// ByKey returns the slot of a key's namespace and name, for Queue.Group of controller.Options. It
// divides the work evenly whatever the namespaces are.
func ByKey(key object.Key) string { return spread(key.String()) }

// ByRange returns the slot of a key's namespace, for Queue.Group of controller.Options in a group with
// Options.Ranges. Unlike that of [ByNamespace], the slot is a range of the server's hashes.
func ByRange(key object.Key) string { return SlotOf(key.Namespace).String() }

// candidate is a member that slots can be placed on.
type candidate struct {
	name    string
	rules   string
	weight  int
	blocked slotSet // it cannot get these
}

// place returns the member that a slot belongs to, by weighted rendezvous hashing: every member
// has a score for the slot, and the highest one wins. So a member that joins takes slots from all
// others and moves none between them, and one that leaves gives its own to all others.
// Candidates must be sorted by name, so that all members agree when scores are equal. The result is
// empty if no candidate can get the slot.
func place(slot Slot, candidates []candidate) string {
	best, name := math.Inf(-1), ""
	for i := range candidates {
		c := &candidates[i]
		if c.blocked[slot] {
			continue
		}
		x := mix(object.Hash(c.name + string([]byte{0, byte(slot)})))
		// unit is uniform in (0, 1), so the share of a member is proportional to its weight.
		unit := (float64(x>>11) + 0.5) / (1 << 53)
		if score := float64(c.weight) / -math.Log(unit); score > best {
			best, name = score, c.name
		}
	}
	return name
}

func sortCandidates(c []candidate) {
	slices.SortFunc(c, func(a, b candidate) int {
		if a.name < b.name {
			return -1
		}
		return 1
	})
}
