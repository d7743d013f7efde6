package apiserver

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// FaultKind is a way in which an answer goes wrong.
type FaultKind string

// The faults of any request.
const (
	// Unauthorized answers 401, Forbidden 403, NotServed 404.
	Unauthorized FaultKind = "unauthorized"
	Forbidden    FaultKind = "forbidden"
	NotServed    FaultKind = "not-served"
	// Gone answers 410.
	Gone FaultKind = "gone"
	// TooManyRequests answers 429 with Retry-After.
	TooManyRequests FaultKind = "too-many-requests"
	// InternalError answers 500, Unavailable 503.
	InternalError FaultKind = "internal-error"
	Unavailable   FaultKind = "unavailable"
	// Latency waits before anything is done.
	Latency FaultKind = "latency"
	// Stall takes the request and sends nothing; a watch stalls after some events.
	Stall FaultKind = "stall"
	// TruncateBody loses the connection in the middle of an answer that is not a watch.
	TruncateBody FaultKind = "truncate-body"
	// Refuse turns connections away and cuts the one that the request came by.
	Refuse FaultKind = "refuse"
	// EmptyPage makes the first page of a list with a limit empty, with a token.
	EmptyPage FaultKind = "empty-page"
)

// The faults of a watch, after [Fault.After] events.
const (
	// CutWatch loses the connection, EndWatch ends the answer in order.
	CutWatch FaultKind = "cut-watch"
	EndWatch FaultKind = "end-watch"
	// GoneEvent sends an ERROR with 410, ErrorEvent with 500; then the watch ends.
	GoneEvent  FaultKind = "gone-event"
	ErrorEvent FaultKind = "error-event"
	// TruncateFrame loses the connection in the middle of an event.
	TruncateFrame FaultKind = "truncate-frame"
	// CorruptFrame sends what is not an event and ends the watch.
	CorruptFrame FaultKind = "corrupt-frame"
	// DuplicateEvent sends every event twice, StaleEvent the one before it again.
	DuplicateEvent FaultKind = "duplicate-event"
	StaleEvent     FaultKind = "stale-event"
	// DropBookmarks sends none, not even that which ends a streaming list.
	DropBookmarks FaultKind = "drop-bookmarks"
)

var (
	anyFaults   = []FaultKind{Unauthorized, Forbidden, NotServed, Gone, TooManyRequests, InternalError, Unavailable, Latency, Stall, Refuse}
	bodyFaults  = []FaultKind{TruncateBody, EmptyPage}
	watchFaults = []FaultKind{CutWatch, EndWatch, GoneEvent, ErrorEvent, TruncateFrame, CorruptFrame, DuplicateEvent, StaleEvent, DropBookmarks}
	// randomFaults leave out what a client cannot come back from by itself soon.
	randomFaults = []FaultKind{
		Gone, TooManyRequests, InternalError, Unavailable, Latency, Refuse, TruncateBody, EmptyPage, CutWatch, EndWatch,
		GoneEvent, ErrorEvent, TruncateFrame, CorruptFrame, DuplicateEvent, StaleEvent,
	}
)

// Fault is something that goes wrong from now on.
type Fault struct {
	Kind FaultKind `json:"kind"`
	// Resource is a plural such as "pods" or "deployments.apps". Defaults to all.
	Resource string `json:"resource,omitempty"`
	// Verb is get, list, watch, create, update, patch, delete or deletecollection. A
	// streaming list, which is a watch with sendInitialEvents=true, is both a list and a
	// watch. Defaults to all that the fault can strike.
	Verb string `json:"verb,omitempty"`
	// Times is how many requests are struck before the fault is gone. Defaults to all
	// until it is removed.
	Times int `json:"times,omitempty"`
	// After is how many events of a watch are sent before it is struck. Defaults to none.
	After int `json:"after,omitempty"`
	// Wait is the time of Latency, and the Retry-After of TooManyRequests and
	// Unavailable in whole seconds. In JSON it is a number of nanoseconds. Defaults to
	// one second.
	Wait time.Duration `json:"wait,omitempty"`
	// MayMiss says that the fault need not strike: otherwise [Start] fails the test
	// when it ends and nothing was struck. Defaults to false.
	MayMiss bool `json:"mayMiss,omitempty"`
}

// Validate tells what is wrong with a fault.
func (f Fault) Validate() error {
	if !slices.Contains(anyFaults, f.Kind) && !slices.Contains(bodyFaults, f.Kind) && !slices.Contains(watchFaults, f.Kind) {
		return fmt.Errorf("apiserver: %q is not a fault; it is one of %v, %v, %v", f.Kind, anyFaults, bodyFaults, watchFaults)
	}
	if f.Times < 0 || f.After < 0 || f.Wait < 0 {
		return fmt.Errorf("apiserver: times, after and wait of the fault %s must not be negative", f.Kind)
	}
	return nil
}

// target is what faults know of a request.
type target struct {
	kind      *kind
	verb      string
	streaming bool // it is a streaming list
	paged     bool // it asks for the first page of a list
}

// is reports whether a verb is that of the request.
func (t target) is(verb string) bool { return verb == t.verb || verb == "list" && t.streaming }

// target describes a request to the faults.
func (r *request) target() target {
	query := r.URL.Query()
	limit := query.Get("limit")
	return target{
		kind: r.kind, verb: r.verb, streaming: r.verb == "watch" && query.Get("sendInitialEvents") == "true",
		paged: limit != "" && limit != "0" && query.Get("continue") == "",
	}
}

// hits reports whether the fault can strike a request.
func (f *Fault) hits(t target) bool {
	return (f.Verb == "" || t.is(f.Verb)) && named(f.Resource)(t.kind) && t.suits(f.Kind, f.Verb == "list")
}

// suits reports whether a kind of fault can strike the request, and when it is meant for
// lists, whether it can strike one.
func (t target) suits(f FaultKind, lists bool) bool {
	switch {
	case slices.Contains(watchFaults, f):
		return t.verb == "watch"
	case f == EmptyPage:
		return t.verb == "list" && t.paged
	case f == TruncateBody:
		return t.verb != "watch" || t.streaming && lists
	case f == Gone:
		return t.verb == "watch" || t.verb == "list"
	}
	return true
}

// faults are those that are active.
type faults struct {
	mu     sync.Mutex // guards the rest
	active []*injected
	missed []*injected // that have struck nothing so far, active or not
	struck map[FaultKind]int
	rand   *rand.Rand // nil without the random mode
	rate   float64
}

// injected is a fault with the times that are left.
type injected struct{ Fault }

// strikes are the faults that one request suffers, by kind.
type strikes map[FaultKind]strike

// strike is a fault of one request.
type strike struct {
	Fault
	of *injected // nil for one of chance
}

func (s strikes) has(k FaultKind) bool {
	_, ok := s[k]
	return ok
}

// took notes that a fault has had its effect.
func (f *faults) took(of *injected) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.missed = slices.DeleteFunc(f.missed, func(other *injected) bool { return other == of })
}

// unused returns the faults that should have struck and did not.
func (f *faults) unused() (left []Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.missed {
		if !m.MayMiss {
			left = append(left, m.Fault)
		}
	}
	return left
}

// strike chooses the faults for a request.
func (f *faults) strike(t target) strikes {
	f.mu.Lock()
	defer f.mu.Unlock()
	var hit strikes
	add := func(fault Fault, of *injected) {
		if fault.Wait == 0 {
			fault.Wait = time.Second
		}
		if hit == nil {
			hit = strikes{}
		}
		hit[fault.Kind] = strike{fault, of}
		// A watch may end before it has sent as many events as the fault waits for.
		if late := t.verb == "watch" && (slices.Contains(watchFaults, fault.Kind) || fault.Kind == Stall); !late {
			f.missed = slices.DeleteFunc(f.missed, func(other *injected) bool { return other == of })
		}
		f.struck[fault.Kind]++
	}
	f.active = slices.DeleteFunc(f.active, func(fault *injected) bool {
		if hit.has(fault.Kind) || !fault.hits(t) {
			return false
		}
		add(fault.Fault, fault)
		if fault.Times == 0 {
			return false
		}
		fault.Times--
		return fault.Times == 0
	})
	if f.rand != nil && f.rand.Float64() < f.rate {
		suited := slices.DeleteFunc(slices.Clone(randomFaults), func(kind FaultKind) bool { return !t.suits(kind, false) })
		add(Fault{Kind: suited[f.rand.IntN(len(suited))], After: f.rand.IntN(8), Wait: time.Duration(f.rand.Int64N(int64(100*time.Millisecond))) + 1}, nil)
	}
	return hit
}

// Inject makes a fault happen from now on. The function that it returns takes it away.
func (s *Server) Inject(f Fault) (remove func(), err error) {
	if err := f.Validate(); err != nil {
		return nil, err
	}
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	of := &injected{f}
	s.faults.active = append(s.faults.active, of)
	s.faults.missed = append(s.faults.missed, of)
	return func() {
		s.faults.mu.Lock()
		defer s.faults.mu.Unlock()
		s.faults.active = slices.DeleteFunc(s.faults.active, func(other *injected) bool { return other == of })
	}, nil
}

// Random lets faults of all kinds strike by chance: rate is the share of requests that
// suffer one, and seed makes the sequence of choices repeatable. A rate of 0 ends it.
func (s *Server) Random(seed uint64, rate float64) {
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	s.faults.rand, s.faults.rate = nil, rate
	if rate > 0 {
		s.faults.rand = rand.New(rand.NewPCG(seed, 1))
	}
}

// Clear takes all faults away, the random ones too. Watches that are stalled stay so.
func (s *Server) Clear() {
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	s.faults.active, s.faults.rand = nil, nil
}

// Faults returns the faults that are active.
func (s *Server) Faults() []Fault {
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	out := make([]Fault, 0, len(s.faults.active))
	for _, f := range s.faults.active {
		out = append(out, f.Fault)
	}
	return out
}

// Struck counts the requests that a kind of fault has hit.
func (s *Server) Struck(kind FaultKind) int {
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	return s.faults.struck[kind]
}

// Cut loses the connections of all open watches of a resource, such as "pods" or
// "deployments.apps", or of all for the empty name, and counts them. Those that are stalled
// are among them.
func (s *Server) Cut(resource string) int { return s.storage.cutWatches(named(resource)) }

// Compact forgets the history but for the last changes: watches and exact lists from
// before are told 410.
func (s *Server) Compact(keep int) { s.storage.compact(keep) }

// Rewind undoes the last changes, as far as the history reaches, and gives their versions
// out again, as a restore from a backup does. All watches are cut. It returns the
// version that is now the newest. Custom resources that were defined stay so.
func (s *Server) Rewind(changes int) uint64 { return s.storage.rewind(changes) }
