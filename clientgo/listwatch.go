package clientgo

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/url"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
	"github.com/tarnproject/tarn/wire"
	"github.com/tarnproject/tarn/wire/stream"
)

// ListWatchOptions say what is listed and watched. The zero ListWatchOptions are all of
// a resource.
type ListWatchOptions struct {
	// Namespace restricts to one namespace. Defaults to all of them.
	Namespace string
	// Tweak may change the options of each request before it is sent, as the
	// tweakListOptions of generated informers do. Defaults to none.
	Tweak func(*metav1.ListOptions)
	// Source says how objects are requested and decoded. Its Hook runs after Tweak. Objects share no part with
	// each other. Defaults to the zero Options.
	Source stream.Options
}

// NewListWatch returns the ListerWatcher with which the informers of this package read a resource through Tarn's
// client: objects are decoded while they arrive, and those that the store holds are not decoded again. Its List
// and Watch return an error: the informers of client-go cannot use it.
func NewListWatch[T runtime.Object](client *wire.Client, res wire.Resource[T], opts ListWatchOptions) (cache.ListerWatcher, error) {
	so := opts.Source
	if opts.Tweak != nil {
		so.Hook = tweaking(opts.Tweak, opts.Source.Hook)
	}
	src, err := stream.NewSource(wire.For(client, res), object.Selection{Namespace: opts.Namespace}, so)
	if err != nil {
		return nil, err
	}
	return direct{wireRecords[T]{src}}, nil
}

// NewLazyListWatch returns a ListerWatcher, as [NewListWatch] does, that is found when it is first needed, as that
// of a resource about which the server has to be asked. An error of find is that of the request, and the next
// request calls find again; what it found is kept. find may be called by several goroutines.
func NewLazyListWatch(find func(ctx context.Context) (cache.ListerWatcher, error)) cache.ListerWatcher {
	var known atomic.Pointer[reflector.Source[record]]
	get := func(ctx context.Context) (reflector.Source[record], error) {
		if source := known.Load(); source != nil {
			return *source, nil
		}
		found, err := find(ctx)
		if err != nil {
			return nil, err
		}
		source := recordsOf(found, nil)
		known.Store(&source)
		return source, nil
	}
	return direct{reflector.SourceFuncs[record]{
		ListFunc: func(ctx context.Context, opts object.ListOptions, in *object.Intake[record], sink func(object.Item[record]) error) (object.Page, error) {
			source, err := get(ctx)
			if err != nil {
				return object.Page{}, err
			}
			return source.List(ctx, opts, in, sink)
		},
		WatchFunc: func(ctx context.Context, opts object.WatchOptions, in *object.Intake[record]) (object.Stream[record], error) {
			source, err := get(ctx)
			if err != nil {
				return nil, err
			}
			return source.Watch(ctx, opts, in)
		},
	}}
}

// direct is a ListerWatcher that is only a source for the informers of this package.
type direct struct{ records reflector.Source[record] }

var errDirect = errors.New("clientgo: only the informers of package clientgo can use the result of NewListWatch; give cache.NewListWatchFromClient to those of client-go")

func (direct) List(metav1.ListOptions) (runtime.Object, error)   { return nil, errDirect }
func (direct) Watch(metav1.ListOptions) (watch.Interface, error) { return nil, errDirect }

// tweaking returns the hook that gives a query to tweak as client-go's options.
func tweaking(tweak func(*metav1.ListOptions), next func(wire.Verb, url.Values)) func(wire.Verb, url.Values) {
	return func(verb wire.Verb, query url.Values) {
		var lo metav1.ListOptions
		err := metav1.Convert_url_Values_To_v1_ListOptions(&query, &lo, nil)
		var changed url.Values
		if err == nil {
			tweak(&lo)
			changed, err = metav1.ParameterCodec.EncodeParameters(&lo, metav1.Unversioned)
		}
		if err != nil {
			panic(err) // the wire asks for nothing that ListOptions do not have
		}
		clear(query)
		maps.Copy(query, changed)
		if next != nil {
			next(verb, query)
		}
	}
}

// wireRecords is the wire's source with its objects as records.
type wireRecords[T runtime.Object] struct{ src *stream.Source[T] }

func (s wireRecords[T]) List(ctx context.Context, opts object.ListOptions, in *object.Intake[record], sink func(object.Item[record]) error) (object.Page, error) {
	return s.src.List(ctx, opts, under[T](in), func(item object.Item[T]) error { return sink(recordItem(&item)) })
}

func (s wireRecords[T]) Watch(ctx context.Context, opts object.WatchOptions, in *object.Intake[record]) (object.Stream[record], error) {
	stream, err := s.src.Watch(ctx, opts, under[T](in))
	if err != nil {
		return nil, err
	}
	return &recordStream[T]{Stream: stream, initial: opts.InitialEvents}, nil
}

// under returns the intake of the wire's source. Programs that are written for client-go may write to an object, so objects
// share no part with each other.
func under[T runtime.Object](in *object.Intake[record]) *object.Intake[T] {
	out := &object.Intake[T]{Unshared: true}
	if in != nil {
		out.Held = in.Held
	}
	return out
}

func recordItem[T runtime.Object](item *object.Item[T]) object.Item[record] {
	out := object.Item[record]{
		Key: item.Key, UID: item.UID, Version: item.Version, Held: item.Held, Err: item.Err, Raw: item.Raw,
	}
	if !item.Held && item.Err == nil {
		out.Value = object.Decoded(&box{item.Object})
	}
	return out
}

// recordStream is a stream with its objects as records.
type recordStream[T runtime.Object] struct {
	object.Stream[T]
	initial bool // the initial events are not over
	events  []object.Event[record]
}

// Next implements object.Stream. Events after the initial ones have no UID, so that each
// counts; see lwSource.
func (s *recordStream[T]) Next() ([]object.Event[record], error) {
	events, err := s.Stream.Next()
	if err == io.EOF {
		return nil, ended(s.initial)
	}
	if err != nil {
		return nil, &streamError{err}
	}
	clear(s.events)
	s.events = s.events[:0]
	for i := range events {
		ev := &events[i]
		out := object.Event[record]{Kind: ev.Kind, Bookmark: ev.Bookmark, InitialEnd: ev.InitialEnd, Err: ev.Err}
		out.Item = recordItem(&ev.Item)
		if ev.Err != nil {
			out.Err = &streamError{ev.Err}
		}
		if !s.initial {
			out.Item.UID = ""
		}
		s.initial = s.initial && !ev.InitialEnd
		if ev.Kind == 0 {
			out.Item.Object = nil
		}
		s.events = append(s.events, out)
	}
	return s.events, nil
}
