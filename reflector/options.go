package reflector

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/tarnproject/tarn/internal/callsite"
	"github.com/tarnproject/tarn/object"
)

// Mode says whether lists are streaming lists.
type Mode uint8

// The modes.
const (
	// StreamingAuto uses streaming lists, and falls back to LIST for at least an hour where they
	// do not work.
	StreamingAuto Mode = iota
	// StreamingOff uses LIST only.
	StreamingOff
	// StreamingOn never falls back: a streaming list that fails is retried.
	StreamingOn
)

var modeNames = [...]string{"auto", "off", "on"}

// String returns "auto", "off" or "on".
func (m Mode) String() string {
	if int(m) < len(modeNames) {
		return modeNames[m]
	}
	return "invalid"
}

// Options configure a [Reflector]. The zero Options is ready to use. Unless stated otherwise,
// functions are called from the goroutine that runs the reflector; they must not call its Run or
// Step.
type Options[T any] struct {
	// Name identifies the reflector in its status, errors and logs.
	// Defaults to the file and line that called New.
	Name string

	// Selection narrows what is listed and watched. [Reflector.SetShard] changes its Shard.
	// Defaults to everything.
	Selection object.Selection

	// Scope is what the lists cover, and so what a list may delete. Set it to the namespace
	// where several reflectors, one for each namespace, feed one FIFO.
	// Defaults to object.Everything: the sink has no other reflector.
	Scope object.Scope

	// Since is how far an earlier reflector of the same sink and scope had come. The first list
	// is then not older, and a rewind in the meantime is detected. Its Scope is ignored.
	// Defaults to the zero Mark: there was none.
	Since object.Mark

	// Latest makes the first list ask for the most recent state, and not for any state or that of
	// Since. Defaults to false.
	Latest bool

	// Streaming says whether lists are streaming lists. Defaults to StreamingAuto.
	Streaming Mode

	// PageSize is the limit of one page where a list is paged. A negative size disables paging.
	// Defaults to 500.
	PageSize int64

	// MinWatchTimeout is the shortest timeout that a watch asks the server for. Each watch has a
	// random one between this and twice as much. Defaults to 5 minutes.
	MinWatchTimeout time.Duration

	// Silence is how long a watch may be silent before it counts as dead. Servers need not send
	// bookmarks, so a short time makes watches of quiet resources reconnect without need.
	// Defaults to no fixed time: a watch is dead when it has been silent for 30 seconds and the
	// server should have ended it 30 seconds ago.
	Silence time.Duration

	// ListSilence is how long a LIST may take for its first item, and for each one after it.
	// Defaults to 2 minutes.
	ListSilence time.Duration

	// InitialSilence is how long a streaming list may take for each initial event, and for the
	// bookmark that ends them. Events of later changes do not extend it.
	// Defaults to 30 seconds.
	InitialSilence time.Duration

	// ServerErrorsFor is how long a watch that ends with an internal error of the server is
	// retried before a list. Defaults to 1 minute.
	ServerErrorsFor time.Duration

	// RemovedAfter is how long LIST must have answered 404, at least three times, before a resource
	// that was served counts as removed and its objects are deleted. A negative time means
	// never. Defaults to 30 seconds.
	RemovedAfter time.Duration

	// Backoff is how long to wait after failures. Defaults to the zero Backoff.
	Backoff Backoff

	// Budget bounds how many reflectors that share it list at the same time.
	// Defaults to nil: no bound.
	Budget *Budget

	// Transform changes each object before it is stored, including the last state of a
	// deleted one. It owns the object it is given, and may write to any part of it. It runs on
	// the goroutine that decodes the object, several at a time. It must not change key, UID
	// or version. An error, a panic, a nil result or another identity puts the object in
	// quarantine. An object that the sink already holds is not transformed again. Defaults to
	// none.
	Transform func(T) (T, error)

	// Accessor reads the identity of what Transform returns. Defaults to none: a changed
	// identity is not detected.
	Accessor object.Accessor[T]

	// Encoder returns how the sink encodes objects, after Transform. live reports whether they come
	// from a watch, so that subscribers will read them soon. It is called for each request, and what
	// it returns runs where Transform does. Defaults to none.
	Encoder func(live func() bool) object.Encoder[T]

	// OnError is called with each failure, which is always an [*Error]. It must not block.
	// Defaults to a warning in the log.
	OnError func(error)

	// Logger receives failures, unless OnError is set, and slow lists and batches.
	// Defaults to none.
	Logger *slog.Logger

	// SlowList is how long a list may take before it is logged.
	// Defaults to 10 seconds.
	SlowList time.Duration

	// SlowBatch is how long the sink may take for the events of one read before it is logged.
	// Defaults to 100 milliseconds.
	SlowBatch time.Duration

	// Rand returns random numbers in [0, 1). Tests set it to be deterministic.
	// Defaults to math/rand/v2's Float64.
	Rand func() float64
}

// Backoff says how long to wait before a request is retried. Each wait is random in [d, 2d), where
// d begins at Min and doubles up to Max. A Retry-After of the server is honoured, up to 10 minutes,
// plus a random time.
type Backoff struct {
	// Min is the first d. Defaults to 800 milliseconds.
	Min time.Duration
	// Max is the largest d. Defaults to 30 seconds.
	Max time.Duration
	// ResetAfter is the time without a failure after which d begins at Min again.
	// Defaults to 2 minutes.
	ResetAfter time.Duration
}

func (o Options[T]) withDefaults() Options[T] {
	or := func(d *time.Duration, def time.Duration) {
		if *d == 0 {
			*d = def
		}
	}
	or(&o.MinWatchTimeout, 5*time.Minute)
	or(&o.ListSilence, 2*time.Minute)
	or(&o.InitialSilence, 30*time.Second)
	or(&o.ServerErrorsFor, time.Minute)
	or(&o.RemovedAfter, 30*time.Second)
	or(&o.SlowList, 10*time.Second)
	or(&o.SlowBatch, 100*time.Millisecond)
	or(&o.Backoff.Min, 800*time.Millisecond)
	or(&o.Backoff.Max, max(30*time.Second, o.Backoff.Min))
	or(&o.Backoff.ResetAfter, 2*time.Minute)
	if o.PageSize == 0 {
		o.PageSize = 500
	}
	if o.Rand == nil {
		o.Rand = rand.Float64
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

func (o Options[T]) validate() error {
	for _, d := range []struct {
		name string
		d    time.Duration
	}{
		{"MinWatchTimeout", o.MinWatchTimeout},
		{"Silence", o.Silence},
		{"ListSilence", o.ListSilence},
		{"InitialSilence", o.InitialSilence},
		{"ServerErrorsFor", o.ServerErrorsFor},
		{"SlowList", o.SlowList},
		{"SlowBatch", o.SlowBatch},
		{"Backoff.Min", o.Backoff.Min},
		{"Backoff.Max", o.Backoff.Max},
		{"Backoff.ResetAfter", o.Backoff.ResetAfter},
	} {
		if d.d < 0 {
			return fmt.Errorf("reflector: %s is %v; want a positive time, or 0 for the default", d.name, d.d)
		}
	}
	if o.Backoff.Max < o.Backoff.Min {
		return fmt.Errorf("reflector: Backoff.Max is %v, less than Backoff.Min, which is %v", o.Backoff.Max, o.Backoff.Min)
	}
	if o.Streaming > StreamingOn {
		return fmt.Errorf("reflector: Streaming is %d; want StreamingAuto, StreamingOff or StreamingOn", o.Streaming)
	}
	if o.Scope != object.Everything && o.Selection.Namespace != string(o.Scope) {
		return fmt.Errorf("reflector: the scope is %q but the selection has namespace %q; a list would delete objects that it does not cover",
			o.Scope, o.Selection.Namespace)
	}
	return nil
}

// callSite returns the file and line of the nearest caller outside this package.
func callSite() string { return callsite.Outside("github.com/tarnproject/tarn/reflector") }
