package apiserver

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/tarnproject/tarn/apiserver/internal/kinds"
	"github.com/tarnproject/tarn/apiserver/internal/request"
)

// FaultKind is a way in which a request fails.
type FaultKind string

// Faults that apply to any request.
const (
	// Unauthorized responds with 401, Forbidden with 403, NotServed with 404.
	Unauthorized FaultKind = "unauthorized"
	Forbidden    FaultKind = "forbidden"
	NotServed    FaultKind = "not-served"
	// Gone responds with 410.
	Gone FaultKind = "gone"
	// TooManyRequests responds with 429 and Retry-After.
	TooManyRequests FaultKind = "too-many-requests"
	// InternalError responds with 500, Unavailable with 503.
	InternalError FaultKind = "internal-error"
	Unavailable   FaultKind = "unavailable"
	// Latency delays the request before it is processed.
	Latency FaultKind = "latency"
	// Stall accepts the request and never responds. A watch stalls after [Fault.After]
	// events.
	Stall FaultKind = "stall"
	// TruncateBody drops the connection in the middle of a response that is not a watch.
	TruncateBody FaultKind = "truncate-body"
	// Refuse drops the connection of the request and refuses new ones.
	Refuse FaultKind = "refuse"
	// EmptyPage returns an empty first page with a continue token for a list with a limit.
	EmptyPage FaultKind = "empty-page"
)

// Faults that apply to a watch, after [Fault.After] events. Those that end it end at most ten watches from the
// same version at one instant: a client that watches again at once, and has received nothing that it can
// continue from, would otherwise stop the clock of a testing/synctest bubble.
const (
	// CutWatch drops the connection, EndWatch ends the response cleanly.
	CutWatch FaultKind = "cut-watch"
	EndWatch FaultKind = "end-watch"
	// GoneEvent sends an ERROR event with 410, ErrorEvent one with 500; then the watch
	// ends.
	GoneEvent  FaultKind = "gone-event"
	ErrorEvent FaultKind = "error-event"
	// TruncateFrame drops the connection in the middle of an event.
	TruncateFrame FaultKind = "truncate-frame"
	// CorruptFrame sends malformed data and ends the watch.
	CorruptFrame FaultKind = "corrupt-frame"
	// DuplicateEvent sends every event twice. StaleEvent repeats the previous event after
	// each one.
	DuplicateEvent FaultKind = "duplicate-event"
	StaleEvent     FaultKind = "stale-event"
	// DropBookmarks sends no bookmarks, not even the one that ends a streaming list.
	DropBookmarks FaultKind = "drop-bookmarks"
)

// Faults that apply to writes: create, update, patch, delete and deletecollection.
const (
	// Conflict responds with 409 to an update, patch or delete, AlreadyExists to a create.
	// Neither stores anything.
	Conflict      FaultKind = "conflict"
	AlreadyExists FaultKind = "already-exists"
	// WebhookDown responds with 500, as if an admission webhook could not be reached.
	WebhookDown FaultKind = "webhook-down"
	// LeaderLost makes another holder take the Lease that an update or patch renews, and
	// responds with 409.
	LeaderLost FaultKind = "leader-lost"
	// KillBefore kills the client's [Process] before the write is stored, KillAfter when it
	// has been stored and before the response is sent. For a client that is not a Process
	// they only drop the connection.
	KillBefore FaultKind = "kill-before"
	KillAfter  FaultKind = "kill-after"
)

// StaleCache sends the events of a watch [Fault.Wait] after the change. A list or watch from
// resource version "0" begins with the state of that time ago.
const StaleCache FaultKind = "stale-cache"

var (
	anyFaults   = []FaultKind{Unauthorized, Forbidden, NotServed, Gone, TooManyRequests, InternalError, Unavailable, Latency, Stall, Refuse}
	bodyFaults  = []FaultKind{TruncateBody, EmptyPage}
	writeFaults = []FaultKind{Conflict, AlreadyExists, WebhookDown, LeaderLost, KillBefore, KillAfter}
	endFaults   = []FaultKind{CutWatch, EndWatch, GoneEvent, ErrorEvent, TruncateFrame, CorruptFrame}
	watchFaults = append(slices.Clone(endFaults), DuplicateEvent, StaleEvent, DropBookmarks)
	// randomFaults excludes faults that a client does not soon recover from by itself.
	randomFaults = []FaultKind{
		Gone, TooManyRequests, InternalError, Unavailable, Latency, Refuse, TruncateBody, EmptyPage, CutWatch, EndWatch,
		GoneEvent, ErrorEvent, TruncateFrame, CorruptFrame, DuplicateEvent, StaleEvent,
	}
)

// faultVerbs are the values of Fault.Verb, besides "".
var faultVerbs = append([]string{"get", "list", "watch", "write"}, changeVerbs...)

var changeVerbs = []string{"create", "update", "patch", "delete", "deletecollection"}

// FaultKinds returns all kinds of faults.
func FaultKinds() []FaultKind {
	return slices.Concat(anyFaults, bodyFaults, writeFaults, []FaultKind{StaleCache}, watchFaults)
}

// Fault describes a failure to inject.
type Fault struct {
	Kind FaultKind `json:"kind"`
	// Resource restricts the fault to a resource such as "pods" or "deployments.apps".
	// Defaults to all.
	Resource string `json:"resource,omitempty"`
	// Verb restricts the fault to get, list, watch, create, update, patch, delete or
	// deletecollection, or to "write" for the last five. A streaming list (a watch with
	// sendInitialEvents=true) matches both list and watch. Defaults to all verbs to which the
	// fault kind applies.
	Verb string `json:"verb,omitempty"`
	// Times is the number of requests to fail before the fault is removed. Defaults to no
	// limit.
	Times int `json:"times,omitempty"`
	// For removes the fault this long after it was injected. In JSON it is in nanoseconds.
	// Defaults to no limit.
	For time.Duration `json:"for,omitempty"`
	// After is the number of events that a watch sends before the fault applies. For other
	// faults it is the number of matching requests that pass first. Defaults to 0.
	After int `json:"after,omitempty"`
	// Wait is the delay of Latency and StaleCache, and the Retry-After of TooManyRequests and Unavailable
	// in whole seconds. In JSON it is in nanoseconds. Defaults to one second.
	Wait time.Duration `json:"wait,omitempty"`
	// Optional allows the fault not to hit any request. Otherwise [Start] fails a test that
	// ends before the fault hit one. Defaults to false.
	Optional bool `json:"optional,omitempty"`
}

// Validate returns an error if the fault is invalid.
func (f Fault) Validate() error {
	if all := FaultKinds(); !slices.Contains(all, f.Kind) {
		return fmt.Errorf("apiserver: unknown fault kind %q: must be one of %v", f.Kind, all)
	}
	if f.Verb != "" && !slices.Contains(faultVerbs, f.Verb) {
		return fmt.Errorf("apiserver: fault %s: unknown verb %q: must be one of %v", f.Kind, f.Verb, faultVerbs)
	}
	if f.Times < 0 || f.For < 0 || f.After < 0 || f.Wait < 0 {
		return fmt.Errorf("apiserver: fault %s: times, for, after and wait must not be negative", f.Kind)
	}
	return nil
}

// target holds the properties of a request that faults match on.
type target struct {
	kind      *kinds.Kind
	verb      string
	sub       bool // of a subresource
	streaming bool // a streaming list
	paged     bool // the first page of a list with a limit
	cached    bool // a list from resource version "0"
}

// is reports whether the request matches a verb.
func (t target) is(verb string) bool {
	return verb == t.verb || verb == "list" && t.streaming || verb == "write" && t.writes()
}

func (t target) writes() bool { return slices.Contains(changeVerbs, t.verb) }

func targetOf(r *request.Request) target {
	query := r.URL.Query()
	limit := query.Get("limit")
	return target{
		kind: r.Kind, verb: r.Verb, sub: r.Subresource != "", streaming: r.Verb == "watch" && query.Get("sendInitialEvents") == "true",
		paged:  limit != "" && limit != "0" && query.Get("continue") == "",
		cached: r.Verb == "list" && query.Get("resourceVersion") == "0" && query.Get("continue") == "",
	}
}

// matches reports whether the fault applies to a request.
func (f *Fault) matches(t target) bool {
	return (f.Verb == "" || t.is(f.Verb)) && kinds.Named(f.Resource)(t.kind) && t.accepts(f.Kind, f.Verb == "list")
}

// accepts reports whether a fault kind can affect the request. lists is set if the fault is
// restricted to lists.
func (t target) accepts(f FaultKind, lists bool) bool {
	switch {
	case slices.Contains(watchFaults, f):
		return t.verb == "watch"
	case f == EmptyPage:
		return t.verb == "list" && t.paged
	case f == TruncateBody:
		return t.verb != "watch" || t.streaming && lists
	case f == Gone:
		return t.verb == "watch" || t.verb == "list"
	case f == StaleCache:
		return t.verb == "watch" || t.cached
	case f == Conflict:
		return t.writes() && t.verb != "create"
	case f == AlreadyExists:
		return t.verb == "create" && !t.sub && !t.kind.Review
	case f == LeaderLost:
		return t.kind.Kind == "Lease" && (t.verb == "update" || t.verb == "patch")
	case slices.Contains(writeFaults, f):
		return t.writes() && !t.kind.Review
	}
	return true
}

// faults holds the active faults.
type faults struct {
	mu       sync.Mutex // guards the rest
	active   []*injected
	pending  []*injected // not hit a request yet; includes removed faults
	injected map[FaultKind]int
	rand     *rand.Rand // nil unless Random is on
	rate     float64
}

// injected is an active fault. Its Times and skip count down.
type injected struct {
	Fault
	skip  int       // matching requests that pass first
	until time.Time // zero without For

	at    time.Time      // when ended was counted
	ended map[string]int // watches that the fault ended at that instant, by where they began
}

// endsAtOnce is how many watches from one version a fault ends at one instant.
const endsAtOnce = 10

// mayEnd counts the end of a watch by a fault, and reports whether the fault may still end one there.
func (f *faults) mayEnd(of *injected, start string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now := time.Now(); of.ended == nil || !now.Equal(of.at) {
		of.at, of.ended = now, map[string]int{}
	}
	of.ended[start]++
	return of.ended[start] <= endsAtOnce
}

// expired reports whether the time of the fault is over.
func (f *injected) expired() bool { return !f.until.IsZero() && !time.Now().Before(f.until) }

// countsEvents reports whether After counts the events of a watch instead of requests.
func countsEvents(kind FaultKind, t target) bool {
	return t.verb == "watch" && (slices.Contains(watchFaults, kind) || kind == Stall)
}

// requestFaults holds the faults of one request by kind.
type requestFaults map[FaultKind]requestFault

type requestFault struct {
	Fault
	of *injected // nil for a random fault
}

// add sets the fault of a kind.
func (s *requestFaults) add(f Fault, of *injected) {
	if *s == nil {
		*s = requestFaults{}
	}
	(*s)[f.Kind] = requestFault{f, of}
}

func (s requestFaults) has(k FaultKind) bool {
	_, ok := s[k]
	return ok
}

// used records that a fault took effect.
func (f *faults) used(of *injected) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pending = slices.DeleteFunc(f.pending, func(other *injected) bool { return other == of })
}

// unused returns the faults that took no effect and are not marked Optional.
func (f *faults) unused() (left []Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.pending {
		if !m.Optional {
			left = append(left, m.Fault)
		}
	}
	return left
}

// pick returns the faults that apply to a request and counts them down.
func (f *faults) pick(t target) requestFaults {
	f.mu.Lock()
	defer f.mu.Unlock()
	var picked requestFaults
	add := func(fault Fault, of *injected) {
		if fault.Wait == 0 {
			fault.Wait = time.Second
		}
		picked.add(fault, of)
		// The watch may end before it has sent After events, so the fault is marked used
		// later.
		if !countsEvents(fault.Kind, t) {
			f.pending = slices.DeleteFunc(f.pending, func(other *injected) bool { return other == of })
		}
		f.injected[fault.Kind]++
	}
	f.active = slices.DeleteFunc(f.active, func(fault *injected) bool {
		if fault.expired() {
			return true
		}
		if picked.has(fault.Kind) || !fault.matches(t) {
			return false
		}
		if fault.skip > 0 && !countsEvents(fault.Kind, t) {
			fault.skip--
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
		suited := slices.DeleteFunc(slices.Clone(randomFaults), func(kind FaultKind) bool { return !t.accepts(kind, false) })
		add(Fault{Kind: suited[f.rand.IntN(len(suited))], After: f.rand.IntN(8), Wait: time.Duration(f.rand.Int64N(int64(100*time.Millisecond))) + 1}, nil)
	}
	return picked
}

// Inject activates a fault. The returned function removes it.
func (s *Server) Inject(f Fault) (remove func(), err error) {
	if err := f.Validate(); err != nil {
		return nil, err
	}
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	of := &injected{Fault: f, skip: f.After}
	if f.For > 0 {
		of.until = time.Now().Add(f.For)
	}
	s.faults.active = append(s.faults.active, of)
	s.faults.pending = append(s.faults.pending, of)
	return func() {
		s.faults.mu.Lock()
		defer s.faults.mu.Unlock()
		s.faults.active = slices.DeleteFunc(s.faults.active, func(other *injected) bool { return other == of })
	}, nil
}

// Random injects random faults: rate is the fraction of requests that fail, and seed makes
// the sequence reproducible. A rate of 0 turns it off.
func (s *Server) Random(seed uint64, rate float64) {
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	s.faults.rand, s.faults.rate = nil, rate
	if rate > 0 {
		s.faults.rand = rand.New(rand.NewPCG(seed, 1))
	}
}

// Clear removes all faults, including random ones. Watches that have stalled remain
// stalled.
func (s *Server) Clear() {
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	s.faults.active, s.faults.rand = nil, nil
}

// Faults returns the active faults.
func (s *Server) Faults() []Fault {
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	out := make([]Fault, 0, len(s.faults.active))
	for _, f := range s.faults.active {
		if !f.expired() {
			out = append(out, f.Fault)
		}
	}
	return out
}

// Injected returns the number of requests hit by a kind of fault.
func (s *Server) Injected(kind FaultKind) int {
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	return s.faults.injected[kind]
}

// Cut drops the connections of all open watches of a resource such as "pods" or
// "deployments.apps", or of all resources if it is empty. It includes stalled watches and
// returns their number.
func (s *Server) Cut(resource string) int { return s.storage.CutWatches(kinds.Named(resource)) }

// Compact discards the history except for the last keep changes. Watches and exact lists at
// older versions then get 410.
func (s *Server) Compact(keep int) { s.storage.Compact(keep) }

// Rewind undoes the last changes, as far as the history reaches, and reuses their versions,
// like a restore from a backup. All watches are cut. Custom resources stay defined. It
// returns the current version.
func (s *Server) Rewind(changes int) uint64 { return s.storage.Rewind(changes) }
