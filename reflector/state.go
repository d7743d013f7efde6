package reflector

// State is where a reflector stands.
type State uint8

// The states, and what may follow each. Stopped may follow all of them.
const (
	// Idle: not started. Listing or Streaming follows.
	Idle State = iota
	// Listing: a LIST is being made, page by page. Watching follows when it is
	// complete; Listing when it begins anew; Streaming when the epoch changed, or the
	// list was refused; BackingOff when it failed.
	Listing
	// Streaming: the initial events of a streaming list are arriving. Watching follows
	// when they are complete, Listing when the server cannot do it, BackingOff or
	// Streaming when they failed.
	Streaming
	// Watching: changes are arriving, or a watch is being opened for them; see
	// Status.Connected. Watching follows when a watch ends in order, BackingOff when
	// it failed, Listing or Streaming when it cannot go on from its version.
	Watching
	// BackingOff: waiting, until Status.Until, because of Status.Cause. Whatever
	// failed follows, or a list.
	BackingOff
	// Stopped: over, because of Status.Cause. Nothing follows.
	Stopped
)

var stateNames = [...]string{"Idle", "Listing", "Streaming", "Watching", "BackingOff", "Stopped"}

// String returns the state's name.
func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return "Invalid"
}
