package sim

import "math/rand/v2"

// Streaming says what a server makes of a request for a streaming list.
type Streaming uint8

// The ways in which servers answer.
const (
	// Streams: it sends the initial events and the bookmark that ends them.
	Streams Streaming = iota
	// Invalid: 422, from a server that knows the field but not its use.
	Invalid
	// BadRequest: 400.
	BadRequest
	// Endless: the parameter was lost on the way. The state comes as synthetic events,
	// and nothing marks its end (W05).
	Endless
)

// Quirks are the liberties that the API grants a server, and the habits of old ones.
// The zero Quirks is a recent server.
type Quirks struct {
	// Streaming is its answer to streaming lists. Defaults to Streams.
	Streaming Streaming
	// LimitIgnored: a list at version "0" comes whole (L04). Defaults to false.
	LimitIgnored bool
	// Lag is how many changes a list or a watch at "0" may be behind. Defaults to 0.
	Lag int
	// EmptyPages: every other page is empty and carries a continue token (L07).
	// Defaults to false.
	EmptyPages bool
	// InconsistentContinue: an expired continue comes with a token for the rest at
	// another version (L06). Defaults to false.
	InconsistentContinue bool
	// TextOnly: ResourceVersionTooLarge shows in the message alone (L13). Defaults to
	// false.
	TextOnly bool
	// GoneInStream: an expired version is reported by an ERROR event in a 200, not by a
	// status (W08). Defaults to false.
	GoneInStream bool
	// GoneReason: 410 has the reason Gone instead of Expired. Defaults to false.
	GoneReason bool
	// NoBookmarks: none are sent, except the one that ends a streaming list. Defaults to
	// false.
	NoBookmarks bool
	// OwnVersionDeleted: a DELETED carries the object's own version, not that of the
	// deletion (W15). Defaults to false.
	OwnVersionDeleted bool
	// PlainUIDs: UIDs are not UUIDs, as those of some aggregated APIs. Defaults to false.
	PlainUIDs bool
	// Shards: a shard selector is applied. Defaults to false: it is ignored.
	Shards bool
}

// RandomQuirks makes up a server: half of them are recent ones.
func RandomQuirks(r *rand.Rand) Quirks {
	if r.IntN(2) == 0 {
		return Quirks{Lag: r.IntN(4), Shards: r.IntN(2) == 0}
	}
	flip := func() bool { return r.IntN(3) == 0 }
	return Quirks{
		Streaming:            Streaming(r.IntN(4)),
		LimitIgnored:         flip(),
		Lag:                  r.IntN(8),
		EmptyPages:           flip(),
		InconsistentContinue: flip(),
		TextOnly:             flip(),
		GoneInStream:         flip(),
		GoneReason:           flip(),
		NoBookmarks:          flip(),
		OwnVersionDeleted:    flip(),
		PlainUIDs:            flip(),
		Shards:               flip(),
	}
}
