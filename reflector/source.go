package reflector

import (
	"context"

	"github.com/tarnproject/tarn/object"
)

// Source lists and watches one resource. A reflector calls it from one goroutine, one
// call at a time. Its errors are *apierrors.StatusError (or wrap it) for what the API
// says, [object.ErrCorrupt], [object.ErrWrongKind] and [object.ErrIdle]; all others
// count as failures of the network, after which the same is asked again.
//
// Where the options of a request have Owned set, the objects it yields belong to the
// reflector, whose transform writes to them: they share no part with each other or with
// anything that the source or another goroutine can reach. Otherwise they are read-only
// for all.
type Source[T any] interface {
	// List requests one page and calls sink for each item as it arrives; it returns
	// sink's error as soon as there is one. Items that held affirms may be left
	// undecoded and are then marked Held. held may be nil and may be called from any
	// goroutine, until List returns. The page's Version is that of the whole list.
	List(ctx context.Context, opts object.ListOptions, held object.Held, sink func(object.Item[T]) error) (object.Page, error)

	// Watch opens a stream, which ends when ctx does. held is as in List, until the
	// stream is closed; an item of a Deleted event is decoded in any case.
	Watch(ctx context.Context, opts object.WatchOptions, held object.Held) (object.Stream[T], error)
}

// SourceFuncs makes a [Source] of two functions.
type SourceFuncs[T any] struct {
	ListFunc  func(ctx context.Context, opts object.ListOptions, held object.Held, sink func(object.Item[T]) error) (object.Page, error)
	WatchFunc func(ctx context.Context, opts object.WatchOptions, held object.Held) (object.Stream[T], error)
}

// List calls ListFunc.
func (s SourceFuncs[T]) List(ctx context.Context, opts object.ListOptions, held object.Held, sink func(object.Item[T]) error) (object.Page, error) {
	return s.ListFunc(ctx, opts, held, sink)
}

// Watch calls WatchFunc.
func (s SourceFuncs[T]) Watch(ctx context.Context, opts object.WatchOptions, held object.Held) (object.Stream[T], error) {
	return s.WatchFunc(ctx, opts, held)
}

// StreamFuncs makes an [object.Stream] of two functions. Without a CloseFunc, Close
// does nothing: NextFunc must then return when the context of the watch is done.
type StreamFuncs[T any] struct {
	NextFunc  func() ([]object.Event[T], error)
	CloseFunc func() error
}

// Next calls NextFunc.
func (s StreamFuncs[T]) Next() ([]object.Event[T], error) { return s.NextFunc() }

// Close calls CloseFunc.
func (s StreamFuncs[T]) Close() error {
	if s.CloseFunc == nil {
		return nil
	}
	return s.CloseFunc()
}
