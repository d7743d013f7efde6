package sim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/tarnproject/tarn/object"
)

// Source is what a reflector reads: a [Server], or what stands before one.
type Source interface {
	// List serves one page, as [Server.List] does.
	List(context.Context, object.ListOptions, *object.Intake[*Thing], func(object.Item[*Thing]) error) (object.Page, error)
	// Watch opens a watch, as [Server.Watch] does.
	Watch(context.Context, object.WatchOptions, *object.Intake[*Thing]) (object.Stream[*Thing], error)
}

// Faulty passes requests on to a source and spoils some, by a plan and by chance. It may
// be used from any goroutine; which request meets which fault is then a matter of their
// order.
type Faulty struct {
	src   Source
	trace *Trace
	plan  FaultPlan

	mu   sync.Mutex // guards everything below
	rand *rand.Rand
	off  bool
	// outage, if not nil, is the answer to every request.
	outage  error
	counts  [Faults]int
	spoiled map[object.Key]bool // objects that were served undecodable
	blurred bool                // and one of them without a name
	fresh   int                 // items after a restore that are likely to be undecodable
	past    map[object.Scope][]object.Event[*Thing]
	open    map[*faultyStream]struct{}
	// expiries counts the calls of Expire, and notified has the calls that each scope has been notified of.
	expiries int
	notified map[object.Scope]int
}

// NewFaulty makes a source that follows a plan.
func NewFaulty(src Source, plan FaultPlan, r *rand.Rand, trace *Trace) *Faulty {
	return &Faulty{src: src, plan: plan, rand: r, trace: trace, spoiled: map[object.Key]bool{},
		past: map[object.Scope][]object.Event[*Thing]{}, open: map[*faultyStream]struct{}{}, notified: map[object.Scope]int{}}
}

// Off turns all faults off, or on again. Streams that have stalled are cut.
func (f *Faulty) Off(off bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.off = off
	if off {
		f.outage = nil
		for s := range f.open {
			s.release()
		}
	}
}

// Outage makes every request fail with an error until it is called with nil.
func (f *Faulty) Outage(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.outage = err
	f.trace.Add("fault", "outage: %v", err)
}

// Counts returns how often each fault was injected.
func (f *Faulty) Counts() [Faults]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.counts
}

// Spoiled returns the objects that were served undecodable; blurred says that one could
// not even be named. A reader cannot know their state. Healed forgets them.
func (f *Faulty) Spoiled() (keys []object.Key, blurred bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	state := map[object.Key]*Thing{}
	for k := range f.spoiled {
		state[k] = nil
	}
	return sortedKeys(state), f.blurred
}

// Healed says that readers know the state of all objects again.
func (f *Faulty) Healed() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.spoiled)
	f.blurred = false
}

// Drained reports whether everything received was passed on.
func (f *Faulty) Drained() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for s := range f.open {
		if s.queued.Load() > 0 {
			return false
		}
	}
	return true
}

// Expire makes the next watch of each scope that begins at a version fail with 410, even
// while faults are off.
func (f *Faulty) Expire() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.expiries++
}

// expired reports whether a watch is to fail because of Expire. The lock must be held.
func (f *Faulty) expired(opts object.WatchOptions) bool {
	scope := object.Scope(opts.Namespace)
	due := f.notified[scope] < f.expiries
	f.notified[scope] = f.expiries
	return due && opts.Version.Known() && !opts.InitialEvents
}

// Forget drops what was received and not passed on, and what would be replayed: it is of
// another history.
func (f *Faulty) Forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.past)
	f.fresh = 10
	for s := range f.open {
		s.lost.Store(true)
		s.release()
	}
}

// strikes decides whether a fault happens now. The lock must be held.
func (f *Faulty) strikes(fault Fault) bool {
	if f.off || f.plan[fault] == 0 || f.rand.Float64() >= f.plan[fault] {
		return false
	}
	f.counts[fault]++
	f.trace.Add("fault", "%v", fault)
	return true
}

// refusal decides whether a request is answered by an error.
func (f *Faulty) refusal(versioned bool) error {
	if f.outage != nil {
		return f.outage
	}
	for fault := Refused; fault <= Gone; fault++ {
		if !versioned && fault >= TooLarge || !f.strikes(fault) {
			continue
		}
		q := Quirks{TextOnly: f.rand.IntN(2) == 0, GoneReason: f.rand.IntN(2) == 0}
		return [...]func() error{
			Refused: refused, Unauthorized: unauthorized, Forbidden: forbidden, NotFound: notFound,
			Busy:     func() error { return busy(1 + f.rand.IntN(20)) },
			Internal: internal, Unavailable: unavailable,
			WrongKind: wrongKind,
			Garbage:   func() error { return fmt.Errorf("%w: <html>", object.ErrCorrupt) },
			TooLarge:  func() error { return q.tooLarge(2, 1) },
			Gone:      func() error { return q.gone(1, 2) },
		}[fault]()
	}
	return nil
}

func wrongKind() error {
	return &object.WrongKindError{Want: "sim.example/v1, Kind=ThingList", Got: "meta.k8s.io/v1, Kind=Table"}
}

// List implements [Source].
func (f *Faulty) List(ctx context.Context, opts object.ListOptions, in *object.Intake[*Thing], sink func(object.Item[*Thing]) error) (object.Page, error) {
	f.mu.Lock()
	err := f.refusal(opts.Version.Known() || opts.Continue != "")
	f.mu.Unlock()
	if err != nil {
		f.trace.Add("fault", "list %s: %v", describeList(opts), err)
		return object.Page{}, err
	}
	return f.src.List(ctx, opts, in, func(item object.Item[*Thing]) error {
		f.mu.Lock()
		cut, short, slow := f.strikes(ListCut), f.strikes(ListTruncated), f.strikes(ListSlow)
		stalled := f.strikes(ListStalled)
		item = f.spoil(item, false)
		f.mu.Unlock()
		if slow {
			wait(ctx, 3*time.Second)
		}
		if stalled {
			<-ctx.Done()
		}
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case cut:
			return fmt.Errorf("reading the list: %w", io.ErrUnexpectedEOF)
		case short:
			return fmt.Errorf("%w: the list ends early", object.ErrCorrupt)
		}
		return sink(item)
	})
}

// wait lets time pass. It is not for the tests themselves: they wait for events.
func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

var errUndecodable = errors.New("spec: expected a number, got an object")

// spoil may make an item undecodable. Readers need no more than the name of a deleted one. The lock
// must be held.
func (f *Faulty) spoil(item object.Item[*Thing], deleted bool) object.Item[*Thing] {
	if item.Held {
		return item // it is not decoded
	}
	f.fresh--
	nameless := f.strikes(Nameless)
	again := f.fresh > 0 && !f.off && f.plan[Undecodable] > 0 && f.rand.IntN(2) == 0
	if !nameless && !again && !f.strikes(Undecodable) {
		return item
	}
	if nameless || !deleted {
		f.spoiled[item.Key] = true
	}
	f.trace.Add("fault", "%s at %s cannot be decoded", item.Key, item.Version)
	item.Object, item.Err, item.Raw = nil, errUndecodable, []byte(`{"spec":{}}`)
	if nameless {
		f.blurred = true
		item.Key, item.UID = object.Key{}, ""
	}
	return item
}
