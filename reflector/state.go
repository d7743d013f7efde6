package reflector

import "context"

// State is what a reflector is doing.
type State uint8

// The states, and what may follow each. Stopped may follow all of them.
const (
	// Idle: not started. Listing or Streaming follows.
	Idle State = iota
	// Listing: a LIST is read, page by page. Watching follows when it is complete, BackingOff
	// when it failed, Listing when it starts over, and Listing or Streaming when it found that
	// the server's history was restored.
	Listing
	// Streaming: the initial events of a streaming list are arriving. Watching follows when they
	// are complete, BackingOff when they failed, Listing when the server does not support
	// streaming lists, and Streaming when it starts over.
	Streaming
	// Watching: changes are arriving, or a watch for them is being opened; see
	// Status.Connected. Watching follows when the server ends a watch normally, BackingOff when
	// it failed, Listing or Streaming when it cannot continue from its version.
	Watching
	// BackingOff: waiting until Status.Until because of Status.Cause. The state that failed
	// follows, or a list.
	BackingOff
	// Stopped: ended because of Status.Cause. Nothing follows.
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

// state is a state with the data that belongs to it. Its implementations are idle, *listing,
// *streaming, *watching, *backingOff and stopped. Only the goroutine in Run or Step uses them.
type state[T any] interface {
	// step performs one step and returns the next state, which may be the same one. An error
	// stops the reflector.
	step(ctx context.Context, r *Reflector[T]) (state[T], error)
	// show sets State, and what else of the status belongs to the state alone: Page, Until and
	// Connected, which are zero before the call.
	show(s *Status)
	// leave frees what the state holds, unless the next state took it over. It may be called
	// more than once.
	leave()
}

// idle is the state before the first step.
type idle[T any] struct{}

func (idle[T]) step(_ context.Context, r *Reflector[T]) (state[T], error) {
	return r.list(plan{}), nil
}
func (idle[T]) show(s *Status) { s.State = Idle }
func (idle[T]) leave()         {}

// stopped is the state after the last step.
type stopped[T any] struct{}

func (stopped[T]) step(context.Context, *Reflector[T]) (state[T], error) { return nil, errStopped }
func (stopped[T]) show(s *Status)                                        { s.State = Stopped }
func (stopped[T]) leave()                                                {}

// opOf names the request that is made in a state.
func opOf(s State) string {
	switch s {
	case Listing:
		return "list"
	case Streaming:
		return "streaming list"
	}
	return "watch"
}
