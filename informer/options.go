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

// Options change how an [Informer] works. The zero Options is ready to use: a mirror of
// everything, decoded, without indexes.
type Options[T any] struct {
	// Name is what the informer is called in its status, errors and logs; the plural of
	// the resource is a good one. Defaults to the file and line that called New.
	Name string
	// Resource is the resource of the objects. Only controller.Owns needs it.
	// Defaults to none.
	Resource object.Resource

	// Selection narrows what is mirrored. Defaults to everything.
	Selection object.Selection

	// Namespaces are what is mirrored, each by a list and a watch of its own; the
	// Selection must then name none. An empty list that is not nil is none at first;
	// see [Informer.SetNamespaces]. Defaults to nil: one list and watch for all.
	Namespaces []string

	// Indexes are kept from the start; [Informer.AddIndex] adds more later. Defaults to
	// none.
	Indexes []store.AnyIndex[T]

	// Form is how objects rest: store.Packed is the most compact one, store.Encoded the
	// one that is quicker to write.
	// Defaults to decoded.
	Form store.Form[T]

	// Transform runs once per object before it is stored, including the last state of a
	// deleted object. It owns the object it is given and may write to any part of it
	// until it returns: no other object shares one. The source must yield such objects
	// when asked to (object.Intake.Owned); a stream.Source does.
	// An error, a panic, a nil object and another key, UID or version put the object in
	// quarantine, where Status shows it, and the last good state stays. Defaults to none.
	Transform func(T) (T, error)

	// Verbatim mirrors and reports every change as the source sends it, as client-go's informers
	// do: an unchanged object of a list is an update, another UID under the same name is one
	// update, a version that is not newer counts, and the deletion of an unknown object is
	// reported. The last event wins. It is for sources whose versions do not order changes, such
	// as fake clientsets, and for subscribers that count deltas; with SubOptions.EveryChange a
	// subscriber receives each of them. Defaults to false: subscribers are called for changes only.
	Verbatim bool

	// Resync is the period after which the state is replayed to subscribers without a period
	// of their own. Nothing is listed for it. Defaults to 0: never.
	Resync time.Duration

	// Log is how many changes are kept for subscribers that have not handled them yet.
	// Who is further behind is caught up with the difference of two states.
	// Defaults to 2048, or a sixteenth of the number of objects where that is more.
	Log int

	// Pending is how many changes may be waiting to be mirrored before the reflector
	// has to wait. Defaults to 1024.
	Pending int

	// OnIndexError is called when an index function fails or panics on an object, which is
	// mirrored without values in that index. It is called with the writer's lock held: it may
	// read the mirror, but not ask for its Status. Defaults to none.
	OnIndexError func(*store.IndexError)

	// OnMutation turns on the mutation detector: it is called when a program wrote to an
	// object of the mirror, which is shared. Objects are compared when they change,
	// every 5 seconds, and when Run ends. It is called with the writer's lock held: it
	// may read the mirror, but not ask for its Status. Defaults to nil: no detection
	// and no cost.
	OnMutation func(store.Mutation)
	// Copy makes the deep copies for OnMutation. Defaults to the object's own
	// DeepCopyObject.
	Copy func(T) T

	// OnPanic is called when a subscriber's function panicked, unless SubOptions.OnPanic is set. It is
	// called by the goroutine of that subscriber. Defaults to an error in the log.
	OnPanic func(*PanicError)

	// Around is called for each batch instead of applying it, and must call apply once with
	// that batch, which it may read but not change. It is for metrics: it sees what is applied,
	// when, and how long that takes. It runs in the goroutine that applies. Defaults to none.
	Around func(batch *object.Batch[T], apply func(*object.Batch[T]))

	// Reflector says how to list and watch. Its Name, Selection, Scope, Since, Transform,
	// Accessor and Encode must be empty: the informer sets them. It also sets
	// the Logger, unless there is one. Defaults to the zero reflector.Options.
	Reflector reflector.Options[T]

	// Logger gets the panics of subscribers, unless OnPanic is set, and what could not be
	// held. Defaults to none.
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
		r.Since != (object.Mark{}) || r.Transform != nil || r.Accessor.Key != nil || r.Encode != nil:
		return errors.New("informer: Reflector has a Name, Selection, Scope, Since, Transform, Accessor or Encode; leave it to the informer, which has options of its own for these")
	}
	return nil
}

// SubOptions select what a subscriber receives. The zero SubOptions is everything.
type SubOptions[T any] struct {
	// Name is what the subscriber is called in its status and in reports of panics.
	// Defaults to the file and line that subscribed.
	Name string

	// Filter leaves out objects for which it returns false. An update that makes an
	// object pass is delivered as an addition, one that makes it no longer pass as a
	// deletion. It must depend on nothing but the object. Defaults to all objects.
	Filter func(T) bool

	// IgnoreStatusOnly leaves out updates after which the generation is the same, and
	// so are labels, annotations, finalizers, owners and deletion time. T must have
	// Kubernetes metadata; objects without a generation are never left out, nor updates
	// from one epoch of the server's history to the next (Rewound).
	// Defaults to false.
	IgnoreStatusOnly bool

	// Resync is the period after which all objects are replayed, as updates from a
	// state to itself (Kind Resynced); negative for never. A subscriber that cannot keep
	// up gets fewer. Defaults to the informer's.
	Resync time.Duration

	// EveryChange delivers every change that the informer applies after the subscription began,
	// one by one and in order, however slow the subscriber is. Its backlog is not bounded: what
	// a blocked subscriber costs follows the number of changes, each with the object's states
	// before and after it. What the informer itself did not observe, because a watch was
	// interrupted and followed by a list, is still one change.
	// Defaults to false: a subscriber that falls behind is caught up with the outcome.
	EveryChange bool

	// FromNow leaves out the objects that are there when the subscription begins: the first
	// call for one of them is its next change. Defaults to false: the subscriber is first called
	// for each of them.
	FromNow bool

	// OnPanic is called instead of Options.OnPanic when a function of this subscriber panicked.
	// Defaults to none.
	OnPanic func(*PanicError)

	// OnSynced is called once, in turn with the changes, when the initial state has been
	// told. Defaults to none.
	OnSynced func()
}

// callSite returns the file and line of the nearest caller outside this package.
func callSite() string { return callsite.Outside("github.com/tarnproject/tarn/informer") }
