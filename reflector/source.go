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
	// sink's error as soon as there is one. Items that the intake holds may be left
	// undecoded and are then marked Held. A source that decodes on several goroutines calls
	// the intake's Prepare there; for all others the reflector calls it. The objects
	// belong to the reflector, and where the intake is Owned they share no part with
	// each other or with the source. The intake may be nil and may be used from any
	// goroutine, until List returns. The page's Version is that of the whole list.
	List(ctx context.Context, opts object.ListOptions, in *object.Intake[T], sink func(object.Item[T]) error) (object.Page, error)

	// Watch opens a stream, which ends when ctx does. The intake is as in List, until the
	// stream is closed; an item of a Deleted event is decoded in any case.
	Watch(ctx context.Context, opts object.WatchOptions, in *object.Intake[T]) (object.Stream[T], error)
}

// SourceFuncs makes a [Source] of two functions.
type SourceFuncs[T any] struct {
	ListFunc  func(ctx context.Context, opts object.ListOptions, in *object.Intake[T], sink func(object.Item[T]) error) (object.Page, error)
	WatchFunc func(ctx context.Context, opts object.WatchOptions, in *object.Intake[T]) (object.Stream[T], error)
}

// List calls ListFunc.
func (s SourceFuncs[T]) List(ctx context.Context, opts object.ListOptions, in *object.Intake[T], sink func(object.Item[T]) error) (object.Page, error) {
	return s.ListFunc(ctx, opts, in, sink)
}

// Watch calls WatchFunc.
func (s SourceFuncs[T]) Watch(ctx context.Context, opts object.WatchOptions, in *object.Intake[T]) (object.Stream[T], error) {
	return s.WatchFunc(ctx, opts, in)
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
