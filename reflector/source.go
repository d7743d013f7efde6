package reflector

import (
	"context"

	"github.com/tarnproject/tarn/object"
)

// Source lists and watches one resource. A reflector calls it from one goroutine, one call at a
// time. Its errors are, or wrap, an *apierrors.StatusError for an answer of the API,
// [object.ErrCorrupt] or [object.ErrWrongKind]. All others count as failures of the network, after
// which the request is repeated. The reflector ends the context of a request that is silent for
// too long.
//
// Where the intake is Owned, the objects belong to the transform, which writes to them: they share
// no part with each other or with anything that the source or another goroutine can reach.
// Otherwise they are read-only for every party.
type Source[T any] interface {
	// List requests one page and calls sink for each item as it arrives. It returns sink's error
	// as soon as there is one. Items that the intake holds may be left undecoded and are then
	// marked Held. A source that decodes on several goroutines calls the intake's Prepare there;
	// for other sources the reflector calls it. The intake may be nil, and may be used from any
	// goroutine until List returns. The page's Version is that of the whole list.
	List(ctx context.Context, opts object.ListOptions, in *object.Intake[T], sink func(object.Item[T]) error) (object.Page, error)

	// Watch opens a stream, which ends when ctx does. The intake is as in List, until the stream
	// is closed. The item of a Deleted event is always decoded.
	Watch(ctx context.Context, opts object.WatchOptions, in *object.Intake[T]) (object.Stream[T], error)
}

// SourceFuncs makes a [Source] from two functions.
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

// StreamFuncs makes an [object.Stream] from two functions. Without a CloseFunc, Close does
// nothing, and NextFunc must return when the context of the watch is done.
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
