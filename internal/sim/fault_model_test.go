package sim

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// Fault is one way in which a list or a watch goes wrong.
type Fault uint8

// The faults, by the place where they strike.
const (
	// On any request: it is answered by an error.
	Refused      Fault = iota // the connection is
	Unauthorized              // 401 (W23)
	Forbidden                 // 403 (W23)
	NotFound                  // 404 (W23)
	Busy                      // 429 with Retry-After (W09)
	Internal                  // 500
	Unavailable               // 503 (W09)
	WrongKind                 // L12
	Garbage                   // not the protocol at all
	TooLarge                  // 504 ResourceVersionTooLarge (L13)
	Gone                      // 410, and for continue tokens (W08, L06)

	// In a list.
	ListCut       // the connection is lost between two items (L10)
	ListTruncated // the body ends early (L10)
	ListSlow      // seconds pass between two items
	ListStalled   // nothing comes any more

	// When a watch is opened.
	StreamingRefused // 400 or 422, if it is a streaming list (W06)
	EmptyClose       // 200 and the end (W12)
	Replayed         // events from before the version come first (W14)

	// In a watch.
	Cut           // the connection is lost
	Ended         // the server ends it in order (W11)
	Stalled       // nothing comes any more (W13)
	GoneEvent     // ERROR 410 (W08)
	InternalEvent // ERROR 500 (W10)
	BusyEvent     // ERROR 429
	CorruptFrame  // W20
	Duplicated    // an event comes twice (W14)
	UnknownType   // W21
	NoEnd         // the bookmark that ends a streaming list is lost (W05)
	EarlyBookmark // a plain one comes among initial events (W02)
	BookmarkLost  // W07
	Folded        // a deletion and a creation become one MODIFIED (W17)

	// In an item.
	Undecodable // L11
	Nameless    // L11, and not even the key can be read

	// Faults is how many there are.
	Faults
)

var faultNames = [Faults]string{
	"refused", "unauthorized", "forbidden", "not found", "busy", "internal", "unavailable", "wrong kind",
	"garbage", "too large", "gone", "list cut", "list truncated", "list slow", "list stalled", "streaming refused",
	"empty close", "replayed", "cut", "ended", "stalled", "gone event", "internal event", "busy event",
	"corrupt frame", "duplicated", "unknown type", "no end", "early bookmark", "bookmark lost", "folded",
	"undecodable", "nameless",
}

// String returns the fault's name.
func (f Fault) String() string {
	if f < Faults {
		return faultNames[f]
	}
	return fmt.Sprintf("fault %d", uint8(f))
}

// FaultPlan says how likely each fault is where it can strike, from 0 to 1. The zero
// plan has none.
type FaultPlan [Faults]float64

// RandomFaults makes up a plan: none at all, a few kinds often, objects that cannot be decoded, or
// everything now and then.
func RandomFaults(r *rand.Rand) FaultPlan {
	var p FaultPlan
	switch r.IntN(10) {
	case 0:
	case 8, 9: // new lives, and states of them, that cannot be decoded
		for _, f := range [...]Fault{Undecodable, Folded, GoneEvent, Replayed} {
			p[f] = 0.4 * r.Float64()
		}
	case 1, 2, 3:
		for range 1 + r.IntN(4) {
			p[r.IntN(int(Faults))] = 0.1 + 0.3*r.Float64()
		}
	default:
		rate := 0.08 * r.Float64()
		for f := range p {
			if r.IntN(3) > 0 {
				p[f] = rate
			}
		}
	}
	return p
}

// String names the faults that can strike.
func (p FaultPlan) String() string {
	var names []string
	for f, rate := range p {
		if rate > 0 {
			names = append(names, fmt.Sprintf("%v %.2f", Fault(f), rate))
		}
	}
	if len(names) == 0 {
		return "no faults"
	}
	return strings.Join(names, ", ")
}
