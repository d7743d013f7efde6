package clientgo

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/url"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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

// NewListWatch returns what lists and watches a resource by our client. To client-go it
// is a ListerWatcher as any other, with contexts; our informers and reflectors see
// through it and use the wire itself: objects are decoded while they arrive, and those
// that are held already are not decoded at all.
//
// The list that its List returns is a metav1.List of the typed objects, or an
// UnstructuredList or PartialObjectMetadataList where objects are of that kind.
func NewListWatch[T runtime.Object](client *wire.Client, res wire.Resource[T], opts ListWatchOptions) (cache.ListerWatcher, error) {
	so := opts.Source
	if opts.Tweak != nil {
		so.Hook = tweaking(opts.Tweak, opts.Source.Hook)
	}
	src, err := stream.NewSource(wire.For(client, res), object.Selection{Namespace: opts.Namespace}, so)
	if err != nil {
		return nil, err
	}
	return &listWatch[T]{src: src, empty: res.New}, nil
}

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

// listWatch is a cache.ListerWatcher of the wire.
type listWatch[T runtime.Object] struct {
	src   *stream.Source[T]
	empty func() T
}

// records is what our informers and reflectors look for; see recordsOf.
func (lw *listWatch[T]) records() reflector.Source[record] { return wireRecords[T]{lw.src} }

func (lw *listWatch[T]) List(opts metav1.ListOptions) (runtime.Object, error) {
	return lw.ListWithContext(context.Background(), opts)
}

func (lw *listWatch[T]) ListWithContext(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	var objs []runtime.Object
	page, err := lw.src.List(ctx, object.ListOptions{
		Selection: object.Selection{Labels: opts.LabelSelector, Fields: opts.FieldSelector},
		Version:   object.Version(opts.ResourceVersion),
		Match:     object.Match(opts.ResourceVersionMatch),
		Limit:     opts.Limit,
		Continue:  opts.Continue,
	}, under[T](nil), func(item object.Item[T]) error {
		if item.Err == nil {
			objs = append(objs, item.Object)
		}
		return item.Err
	})
	if err != nil {
		return nil, err
	}
	lm := metav1.ListMeta{ResourceVersion: string(page.Version), Continue: page.Continue}
	if page.Remaining > 0 {
		lm.RemainingItemCount = &page.Remaining
	}
	return listOf[T](lm, objs)
}

func listOf[T runtime.Object](lm metav1.ListMeta, objs []runtime.Object) (runtime.Object, error) {
	var list runtime.Object = &metav1.List{ListMeta: lm}
	switch any((*T)(nil)).(type) {
	case **unstructured.Unstructured:
		u := &unstructured.UnstructuredList{}
		u.SetResourceVersion(lm.ResourceVersion)
		u.SetContinue(lm.Continue)
		u.SetRemainingItemCount(lm.RemainingItemCount)
		list = u
	case **metav1.PartialObjectMetadata:
		list = &metav1.PartialObjectMetadataList{ListMeta: lm}
	}
	return list, meta.SetList(list, objs)
}

func (lw *listWatch[T]) Watch(opts metav1.ListOptions) (watch.Interface, error) {
	return lw.WatchWithContext(context.Background(), opts)
}

func (lw *listWatch[T]) WatchWithContext(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	wo := object.WatchOptions{
		Selection:     object.Selection{Labels: opts.LabelSelector, Fields: opts.FieldSelector},
		Version:       object.Version(opts.ResourceVersion),
		Match:         object.Match(opts.ResourceVersionMatch),
		InitialEvents: opts.SendInitialEvents != nil && *opts.SendInitialEvents,
		Bookmarks:     opts.AllowWatchBookmarks,
	}
	if opts.TimeoutSeconds != nil {
		wo.Timeout = time.Duration(*opts.TimeoutSeconds) * time.Second
	}
	stream, err := lw.src.Watch(ctx, wo, under[T](nil))
	if err != nil {
		return nil, err
	}
	return watch.NewStreamWatcher(&decoder[T]{stream: stream, empty: lw.empty}, nil), nil // a decoder returns no error but io.EOF
}

// decoder is a watch.Decoder of a stream.
type decoder[T runtime.Object] struct {
	stream object.Stream[T]
	empty  func() T
	events []object.Event[T] // received, and not returned yet
	over   bool
}

func (d *decoder[T]) Close() { d.stream.Close() }

// Decode implements watch.Decoder. An error is an event, which is the last.
func (d *decoder[T]) Decode() (watch.EventType, runtime.Object, error) {
	for !d.over {
		if len(d.events) == 0 {
			var err error
			if d.events, err = d.stream.Next(); err != nil && err != io.EOF {
				d.events = []object.Event[T]{{Item: object.Item[T]{Err: err}}}
			}
			d.over = err == io.EOF
			continue
		}
		ev := &d.events[0]
		d.events, d.over = d.events[1:], ev.Item.Err != nil
		switch {
		case ev.Item.Err != nil:
			return watch.Error, failed(ev.Item.Err), nil
		case ev.Kind != 0:
			return eventTypes[ev.Kind], ev.Item.Object, nil
		case ev.Bookmark:
			obj := d.empty()
			m, err := meta.Accessor(obj)
			if err != nil {
				return watch.Error, failed(err), nil
			}
			m.SetResourceVersion(string(ev.Item.Version))
			if ev.InitialEnd {
				m.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
			}
			return watch.Bookmark, obj, nil
		case ev.Err != nil:
			return watch.Error, failed(ev.Err), nil
		}
	}
	return "", nil, io.EOF
}

var eventTypes = [...]watch.EventType{object.Added: watch.Added, object.Updated: watch.Modified, object.Deleted: watch.Deleted}

// failed returns the object of an event for an error.
func failed(err error) *metav1.Status {
	st := apierrors.NewInternalError(err).Status()
	if api := apierrors.APIStatus(nil); errors.As(err, &api) {
		st = api.Status()
	}
	return &st
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
	out := object.Intake[T]{Unshared: true}
	if in != nil {
		out.Held = in.Held
	}
	return &out
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
