package clientgo

import (
	"context"
	"fmt"
	"io"
	"reflect"
	"runtime/debug"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
)

// SourceOf makes a source for Tarn's reflectors and informers that calls the List and Watch of a
// ListerWatcher. A streaming list is a call of Watch, unless
// watchlist.DoesClientNotSupportWatchListSemantics says that the ListerWatcher does not support it.
//
// Objects are passed on as the ListerWatcher returns them. With a transform they belong to
// the informer: the ListerWatcher must return objects that nothing else refers to, as
// client-go's clients and fakes do.
//
// If the context ends before a List without a context returns, SourceOf does not wait for it, as
// client-go does not. Its goroutine ends when it returns.
func SourceOf(lw cache.ListerWatcher) reflector.Source[runtime.Object] {
	return &lwSource[runtime.Object]{
		lw:   cache.ToListerWatcherWithContext(lw),
		wrap: func(obj runtime.Object) runtime.Object { return obj },
		uids: true,
	}
}

// recordsOf returns the source of records for an informer or a reflector: Tarn's client if lw has
// one, otherwise lw's List and Watch.
func recordsOf(lw cache.ListerWatcher, expected any) reflector.Source[record] {
	if w, ok := lw.(interface {
		records() reflector.Source[record]
	}); ok {
		return w.records()
	}
	s := &lwSource[record]{
		lw:   cache.ToListerWatcherWithContext(lw),
		wrap: func(obj runtime.Object) record { return &box{obj} },
	}
	if expected != nil {
		s.want = reflect.TypeOf(expected)
		if u, ok := expected.(*unstructured.Unstructured); ok {
			s.kind = u.GroupVersionKind()
		}
	}
	return s
}

// owned is a source whose objects share no part with each other, with or without a transform.
// Programs written for client-go may rely on it.
type owned struct{ reflector.Source[record] }

// List implements reflector.Source.
func (s owned) List(ctx context.Context, opts object.ListOptions, in *object.Intake[record], sink func(object.Item[record]) error) (object.Page, error) {
	return s.Source.List(ctx, opts, unshared(in), sink)
}

// Watch implements reflector.Source.
func (s owned) Watch(ctx context.Context, opts object.WatchOptions, in *object.Intake[record]) (object.Stream[record], error) {
	return s.Source.Watch(ctx, opts, unshared(in))
}

// transformed is a source whose objects go through a program's transform, which may rename them.
// An object on which the transform fails is an item that cannot be read.
type transformed struct {
	reflector.Source[record]
	transform func() cache.TransformFunc // returns nil for none
}

// List implements reflector.Source.
func (s transformed) List(ctx context.Context, opts object.ListOptions, in *object.Intake[record], sink func(object.Item[record]) error) (object.Page, error) {
	f := s.transform()
	if f == nil {
		return s.Source.List(ctx, opts, in, sink)
	}
	return s.Source.List(ctx, opts, unshared(in), func(item object.Item[record]) error {
		transformItem(f, &item)
		return sink(item)
	})
}

// Watch implements reflector.Source.
func (s transformed) Watch(ctx context.Context, opts object.WatchOptions, in *object.Intake[record]) (object.Stream[record], error) {
	f := s.transform()
	if f == nil {
		return s.Source.Watch(ctx, opts, in)
	}
	stream, err := s.Source.Watch(ctx, opts, unshared(in))
	if err != nil {
		return nil, err
	}
	return transformedStream{stream, f}, nil
}

// transformedStream is the stream of a transformed source.
type transformedStream struct {
	object.Stream[record]
	transform cache.TransformFunc
}

// Next implements object.Stream.
func (s transformedStream) Next() ([]object.Event[record], error) {
	events, err := s.Stream.Next()
	for i := range events {
		if events[i].Kind != 0 {
			transformItem(s.transform, &events[i].Item)
		}
	}
	return events, err
}

// transformItem transforms an item that is decoded. A panic of the transform is an error.
func transformItem(f cache.TransformFunc, item *object.Item[record]) {
	if item.Held || item.Err != nil {
		return
	}
	defer func() {
		if thrown := recover(); thrown != nil {
			item.Object, item.Err = nil, fmt.Errorf("transform: %w", &object.PanicError{Value: thrown, Stack: debug.Stack()})
		}
	}()
	var key object.Key
	obj, err := f(item.Object.obj)
	if err == nil {
		key, err = keyOf(obj)
	}
	if err != nil {
		item.Object, item.Err = nil, fmt.Errorf("transform: %w", err)
		return
	}
	item.Key, item.Object.obj = key, obj
}

// answered is a source that calls note when a watch has been answered. A streaming list that was
// refused does not count: a LIST and a watch follow.
type answered struct {
	reflector.Source[record]
	note func()
}

// Watch implements reflector.Source.
func (s answered) Watch(ctx context.Context, opts object.WatchOptions, in *object.Intake[record]) (object.Stream[record], error) {
	stream, err := s.Source.Watch(ctx, opts, in)
	if err == nil || !opts.InitialEvents {
		s.note()
	}
	return stream, err
}

// unshared returns an intake for objects that share nothing.
func unshared[T any](in *object.Intake[T]) *object.Intake[T] {
	out := object.Intake[T]{Unshared: true}
	if in != nil {
		out = *in
		out.Unshared = true
	}
	return &out
}

// lwSource is a reflector.Source over a ListerWatcher.
type lwSource[T any] struct {
	lw   cache.ListerWatcherWithContext
	wrap func(runtime.Object) T
	// uids passes the UIDs of objects on. Without them the reflector and the store take no event
	// for an old one and no object for another one, as in client-go: fakes send any UID and
	// version.
	uids bool
	want reflect.Type            // of the objects of events; nil for any
	kind schema.GroupVersionKind // of unstructured ones; empty for any
}

// List implements reflector.Source.
func (s *lwSource[T]) List(ctx context.Context, opts object.ListOptions, _ *object.Intake[T], sink func(object.Item[T]) error) (object.Page, error) {
	list, err := s.list(ctx, metav1.ListOptions{
		LabelSelector:        opts.Labels,
		FieldSelector:        opts.Fields,
		ResourceVersion:      string(opts.Version),
		ResourceVersionMatch: metav1.ResourceVersionMatch(opts.Match),
		Limit:                opts.Limit,
		Continue:             opts.Continue,
	})
	if err != nil {
		return object.Page{}, err
	}
	if u, ok := list.(*unstructured.UnstructuredList); ok && isTable(u.GroupVersionKind()) {
		return object.Page{}, &object.WrongKindError{Want: "a list", Got: u.GroupVersionKind().String()}
	}
	m, err := meta.ListAccessor(list)
	if err != nil {
		return object.Page{}, fmt.Errorf("unable to understand a list of type %T: %w", list, err)
	}
	// Each object gets memory of its own, or the last of them would keep the whole list.
	err = meta.EachListItemWithAlloc(list, func(obj runtime.Object) error {
		om, err := meta.Accessor(obj)
		if err != nil {
			return fmt.Errorf("object has no meta: %w", err)
		}
		item := object.Item[T]{Key: metaKey(om), Version: object.Version(om.GetResourceVersion()), Value: object.Decoded(s.wrap(obj))}
		if s.uids {
			item.UID = om.GetUID()
		}
		return sink(item)
	})
	if err != nil {
		return object.Page{}, err
	}
	page := object.Page{Version: object.Version(m.GetResourceVersion()), Continue: m.GetContinue()}
	if n := m.GetRemainingItemCount(); n != nil {
		page.Remaining = *n
	}
	return page, nil
}

// list calls List and waits no longer than ctx lasts.
func (s *lwSource[T]) list(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	type result struct {
		list   runtime.Object
		err    error
		thrown any
	}
	results := make(chan result, 1)
	go func() {
		var r result
		defer func() {
			r.thrown = recover()
			results <- r
		}()
		r.list, r.err = s.lw.ListWithContext(ctx, opts)
	}()
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case r := <-results:
		if r.thrown != nil {
			panic(r.thrown)
		}
		return r.list, r.err
	}
}

func isTable(kind schema.GroupVersionKind) bool {
	return kind.Kind == "Table" && kind.Group == metav1.GroupName
}

// Watch implements reflector.Source.
func (s *lwSource[T]) Watch(ctx context.Context, opts object.WatchOptions, _ *object.Intake[T]) (object.Stream[T], error) {
	lo := metav1.ListOptions{
		LabelSelector:        opts.Labels,
		FieldSelector:        opts.Fields,
		ResourceVersion:      string(opts.Version),
		ResourceVersionMatch: metav1.ResourceVersionMatch(opts.Match),
		AllowWatchBookmarks:  opts.Bookmarks,
	}
	if opts.Timeout > 0 {
		lo.TimeoutSeconds = new(int64(opts.Timeout / time.Second))
	}
	if opts.InitialEvents {
		lo.SendInitialEvents = new(true)
	}
	w, err := s.lw.WatchWithContext(ctx, lo)
	if err != nil {
		if opts.InitialEvents && noStatus(err) && !utilnet.IsConnectionRefused(err) {
			err = &noStreamError{err}
		}
		return nil, err
	}
	return &lwStream[T]{source: s, watch: w, initial: opts.InitialEvents, closed: make(chan struct{})}, nil
}

// noStatus reports whether an error is not one that the API has sent.
func noStatus(err error) bool { return apierrors.ReasonForError(err) == metav1.StatusReasonUnknown }

// noStreamError is the error of a streaming list that failed without a reason from the API, as with
// a fake that does not support it. As in client-go a LIST follows at once, except if the connection
// was refused.
type noStreamError struct{ cause error }

func (e *noStreamError) Error() string        { return e.cause.Error() }
func (e *noStreamError) Unwrap() error        { return e.cause }
func (e *noStreamError) Is(target error) bool { return target == object.ErrCorrupt }

// lwStream is an object.Stream of a watch.Interface.
type lwStream[T any] struct {
	source  *lwSource[T]
	watch   watch.Interface
	initial bool // the initial events are not over; the goroutine in Next writes to it
	events  []object.Event[T]
	closed  chan struct{}
	once    sync.Once
}

// maxEvents is the largest number of events that Next returns together.
const maxEvents = 256

// Next implements object.Stream.
func (s *lwStream[T]) Next() ([]object.Event[T], error) {
	clear(s.events)
	s.events = s.events[:0]
	results := s.watch.ResultChan()
	for len(s.events) == 0 {
		select {
		case <-s.closed:
			return nil, context.Canceled
		case ev, ok := <-results:
			if !ok {
				return nil, ended(s.initial)
			}
			s.add(ev)
		}
	}
	for len(s.events) < maxEvents {
		select {
		case ev, ok := <-results:
			if !ok {
				return s.events, nil // the next call returns the end
			}
			s.add(ev)
		default:
			return s.events, nil
		}
	}
	return s.events, nil
}

// ended returns how a stream ended that its server has closed. The reflector asks for a streaming
// list again that was cut, as client-go does; for one that is complete without a bookmark it would
// ask for a LIST.
func ended(initial bool) error {
	if initial {
		return &streamError{io.ErrUnexpectedEOF}
	}
	return io.EOF
}

// add takes an event. As in client-go, one that cannot be understood is reported and left out.
func (s *lwStream[T]) add(ev watch.Event) {
	if ev.Type == watch.Error {
		err := apierrors.FromObject(ev.Object)
		if s.initial && noStatus(err) {
			err = &noStreamError{err}
		}
		s.events = append(s.events, object.Event[T]{Err: &streamError{err}})
		return
	}
	m, err := s.source.understand(ev.Object)
	if err != nil {
		utilruntime.HandleErrorWithContext(context.Background(), err, "Unable to understand watch event", "type", ev.Type)
		return
	}
	out := object.Event[T]{Item: object.Item[T]{Version: object.Version(m.GetResourceVersion())}}
	switch ev.Type {
	case watch.Added:
		out.Kind = object.Added
	case watch.Modified:
		out.Kind = object.Updated
	case watch.Deleted:
		out.Kind = object.Deleted
	case watch.Bookmark:
		out.Bookmark = true
		out.InitialEnd = m.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true"
		s.initial = s.initial && !out.InitialEnd
		s.events = append(s.events, out)
		return
	default:
		s.events = append(s.events, object.Event[T]{})
		return
	}
	out.Item.Key = metaKey(m)
	if s.source.uids {
		out.Item.UID = m.GetUID()
	}
	out.Item.Value = object.Decoded(s.source.wrap(ev.Object))
	s.events = append(s.events, out)
}

// understand returns the metadata of an event's object if it is of the type expected.
func (s *lwSource[T]) understand(obj runtime.Object) (metav1.Object, error) {
	if s.want != nil && s.want != reflect.TypeOf(obj) {
		return nil, fmt.Errorf("expected type %v, but watch event object had type %T", s.want, obj)
	}
	if !s.kind.Empty() && obj.GetObjectKind().GroupVersionKind() != s.kind {
		return nil, fmt.Errorf("expected gvk %v, but watch event object had gvk %v", s.kind, obj.GetObjectKind().GroupVersionKind())
	}
	if u, ok := obj.(*unstructured.Unstructured); ok && isTable(u.GroupVersionKind()) {
		return nil, fmt.Errorf("unsupported gvk %v", u.GroupVersionKind())
	}
	return meta.Accessor(obj)
}

// streamError is the error that ended an open watch. As in client-go, watch error handlers are
// called for failed requests only, not for it.
type streamError struct{ cause error }

func (e *streamError) Error() string { return e.cause.Error() }
func (e *streamError) Unwrap() error { return e.cause }

// Close implements object.Stream.
func (s *lwStream[T]) Close() error {
	s.once.Do(func() {
		close(s.closed)
		s.watch.Stop()
	})
	return nil
}
