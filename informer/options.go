package informer

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/tarnproject/tarn/internal/callsite"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
	"github.com/tarnproject/tarn/store"
)

// Options configure an [Informer]. The zero Options mirrors everything, decoded, without indexes.
type Options[T any] struct {
	// Name identifies the informer in its status, errors and logs; the plural of the resource is
	// a good choice. Defaults to the file and line that called New.
	Name string
	// Resource is the resource of the objects. Only controller.Owns needs it.
	// Defaults to none.
	Resource object.Resource

	// Selection narrows what is mirrored. [Informer.SetShard] changes its Shard. Defaults to
	// everything.
	Selection object.Selection

	// Namespaces restricts the mirror to these namespaces, with one list and watch for each.
	// Selection.Namespace must then be empty. An empty slice that is not nil means no namespace
	// until [Informer.SetNamespaces] adds one. Defaults to nil: one list and watch for all.
	Namespaces []string

	// Indexes are the initial indexes; [Informer.AddIndex] adds more. Defaults to none.
	Indexes []store.AnyIndex[T]

	// Form is how objects are stored: store.Packed takes the least memory. Defaults to decoded objects.
	Form *store.Form[T]

	// Transform runs once per object before it is stored, including the last state of a
	// deleted object. It owns the object and may modify any part of it until it returns: no part
	// is shared with another object. The source must support that (object.Intake.Owned); a
	// stream.Source does. If it returns an error or nil, panics, or changes the key, UID or
	// version, the object is quarantined: Status reports it, and the mirror keeps the last good
	// state. Defaults to none.
	Transform func(T) (T, error)

	// Verbatim stores and reports every change as the source sends it, as client-go's informers
	// do: an unchanged object of a list is an update, a new UID under the same name is one
	// update, an older version is applied, and the deletion of an unknown object is reported. The
	// last event wins. Use it for sources whose versions do not order changes, such as fake
	// clientsets, and for subscribers that count deltas. A subscriber with SubOptions.EveryChange
	// receives each of them. Defaults to false: subscribers are called for changes only.
	Verbatim bool

	// Resync is the period after which the mirror's state is replayed to subscribers that do not
	// set SubOptions.Resync. It makes no request. Defaults to 0: never.
	Resync time.Duration

	// Log is the number of changes that are kept for subscribers that have not handled them yet.
	// A subscriber that is further behind is caught up with the difference between two states.
	// Defaults to 2048, or to a sixteenth of the number of objects if that is more.
	Log int

	// Pending is the number of received changes that may wait to be applied before the reflector
	// blocks. Defaults to 1024.
	Pending int

	// OnIndexError is called when an index function fails or panics on an object. The object is
	// stored without values in that index. The writer's lock is held during the call: the
	// function may read the mirror but not call Status. Defaults to none.
	OnIndexError func(*store.IndexError)

	// OnMutation enables the mutation detector: it is called when the program modified a shared
	// object of the mirror. Objects are compared when they change, every 5 seconds, and when Run
	// ends. The writer's lock is held during the call: the function may read the mirror but not
	// call Status. Defaults to nil: no detection and no cost.
	OnMutation func(store.Mutation)
	// Copy makes the deep copies for OnMutation. Defaults to the object's own
	// DeepCopyObject.
	Copy func(T) T

	// OnPanic is called, by the goroutine of the subscriber, when a subscriber's function
	// panicked, unless SubOptions.OnPanic is set. If it panics itself, that is logged. Defaults to
	// logging an error.
	OnPanic func(*PanicError)

	// Around wraps the application of each batch, for metrics. It must call apply once, with that
	// batch, which it may read but not modify. It runs in the goroutine that applies batches.
	// Defaults to none.
	Around func(batch *object.Batch[T], apply func(*object.Batch[T]))

	// Applied is called after each batch with what it changed and the state that it led to, for a journal. It must
	// neither block nor call methods that wait for a batch; it may keep the values of the changes.
	// Defaults to none.
	Applied func(batch *object.Batch[T], changes []object.Change[T], now store.Snapshot[T])

	// Reflector configures list and watch. Its Name, Selection, Scope, Since, Transform, Accessor
	// and Encoder must be empty: the informer sets them. The informer also sets the Logger if it
	// is nil. Defaults to the zero reflector.Options.
	Reflector reflector.Options[T]

	// Logger receives objects that could not be stored and, unless OnPanic is set, panics of
	// subscribers. Defaults to none.
	Logger *slog.Logger
}

func (o Options[T]) withDefaults() Options[T] {
	if o.Name == "" {
		o.Name = callSite()
	}
	if o.Pending == 0 {
		o.Pending = 1024
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Reflector.Logger == nil {
		o.Reflector.Logger = o.Logger
	}
	if o.OnPanic == nil {
		log := o.Logger
		o.OnPanic = func(e *PanicError) {
			log.Error("a subscriber panicked", "subscriber", e.Subscriber, "key", e.Key.String(),
				"panic", fmt.Sprint(e.Value), "stack", string(e.Stack))
		}
	}
	return o
}

func (o Options[T]) validate() error {
	r := &o.Reflector
	switch {
	case o.Log < 0:
		return fmt.Errorf("informer: Log is %d; want a positive number, or 0 for the default", o.Log)
	case o.Pending < 0:
		return fmt.Errorf("informer: Pending is %d; want a positive number, or 0 for the default", o.Pending)
	case o.Resync < 0:
		return fmt.Errorf("informer: Resync is %v; want a positive time, or 0 for never", o.Resync)
	case o.Namespaces != nil && o.Selection.Namespace != "":
		return fmt.Errorf("informer: both Namespaces and Selection.Namespace %q are set; name it among Namespaces", o.Selection.Namespace)
	case slices.Contains(o.Namespaces, ""):
		return errors.New("informer: an empty name is among Namespaces; leave Namespaces nil for all of them")
	case r.Name != "" || r.Selection != (object.Selection{}) || r.Scope != object.Everything ||
		r.Since != (object.Mark{}) || r.Transform != nil || r.Accessor.Key != nil || r.Encoder != nil:
		return errors.New("informer: Reflector has a Name, Selection, Scope, Since, Transform, Accessor or Encoder; leave it to the informer, which has options of its own for these")
	}
	return nil
}

// SubOptions select what a subscriber receives. The zero SubOptions is everything.
type SubOptions[T any] struct {
	// Name is what the subscriber is called in its status and in reports of panics.
	// Defaults to the file and line that subscribed.
	Name string

	// Reading is how the objects of a handler are decoded if the mirror has a compact form; see
	// store.Reading. Only Subscribe uses it. Defaults to that of the form.
	Reading *store.Reading[T]

	// Filter drops objects for which it returns false. An update after which an object passes is
	// delivered as an addition, one after which it no longer passes as a deletion. The result
	// must depend on the object only. An object for which it panics is dropped, and the panic
	// reported. Defaults to all objects.
	Filter func(T) bool

	// Resync is the period after which all objects are replayed, as updates without a change
	// (Kind Synced); negative for never. A slow subscriber gets fewer replays. Defaults to
	// Options.Resync.
	Resync time.Duration

	// EveryChange delivers every change that the informer applies after the subscription began,
	// one by one and in order, however slow the subscriber is. The backlog is not bounded: it
	// grows with the number of changes, each of which holds the object's states before and after
	// it. If a watch was interrupted and followed by a list, what happened in between is one
	// change per object. Defaults to false: a subscriber that falls behind is caught up with the
	// difference.
	EveryChange bool

	// FromNow skips the objects that exist when the subscription begins: the first call for such
	// an object is its next change. Defaults to false: the subscriber first receives each of
	// them.
	FromNow bool

	// OnPanic is called instead of Options.OnPanic when a function of this subscriber panicked.
	// Defaults to none.
	OnPanic func(*PanicError)

	// OnSynced is called once, in order with the changes, after the subscriber has received the
	// initial state. Defaults to none.
	OnSynced func()
}

// callSite returns the file and line of the nearest caller outside this package.
func callSite() string { return callsite.Outside("github.com/tarnproject/tarn/informer") }
