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

// recordsOf returns the source of records for an informer: Tarn's client if lw has one, otherwise lw's List and Watch.
// As in client-go, it does not wait for a List without a context that returns after its context has ended.
func recordsOf(lw cache.ListerWatcher, expected any) reflector.Source[record] {
	if d, ok := lw.(direct); ok {
		return d.records
	}
	s := &lwSource{lw: cache.ToListerWatcherWithContext(lw)}
	if expected != nil {
		s.want = reflect.TypeOf(expected)
		if u, ok := expected.(*unstructured.Unstructured); ok {
			s.kind = u.GroupVersionKind()
		}
	}
	return s
}

// transformed is a source whose objects go through a program's transform, which may rename them.
// An object on which the transform fails is an item that cannot be read.
type transformed struct {
	reflector.Source[record]
	transform func() cache.TransformFunc // returns nil for none
	// answered is called when a watch has been answered. A streaming list that was refused does not count: a LIST and a
	// watch follow.
	answered func()
}

func (s transformed) List(ctx context.Context, opts object.ListOptions, in *object.Intake[record], sink func(object.Item[record]) error) (object.Page, error) {
	f := s.transform()
	return s.Source.List(ctx, opts, in, func(item object.Item[record]) error {
		transformItem(f, &item)
		return sink(item)
	})
}

func (s transformed) Watch(ctx context.Context, opts object.WatchOptions, in *object.Intake[record]) (object.Stream[record], error) {
	stream, err := s.Source.Watch(ctx, opts, in)
	if err == nil || !opts.InitialEvents {
		s.answered()
	}
	if f := s.transform(); err == nil && f != nil {
		stream = transformedStream{stream, f}
	}
	return stream, err
}

// transformedStream is the stream of a transformed source.
type transformedStream struct {
	object.Stream[record]
	transform cache.TransformFunc
}

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
	if f == nil || item.Held || item.Err != nil {
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

// lwSource is a reflector.Source over a ListerWatcher. It passes no UIDs on. Without them the reflector and the store take no event
// for an old one and no object for another one, as in client-go: fakes send any UID and version.
type lwSource struct {
	lw   cache.ListerWatcherWithContext
	want reflect.Type            // of the objects of events; nil for any
	kind schema.GroupVersionKind // of unstructured ones; empty for any
}

func (s *lwSource) List(ctx context.Context, opts object.ListOptions, _ *object.Intake[record], sink func(object.Item[record]) error) (object.Page, error) {
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
		item := object.Item[record]{Key: metaKey(om), Version: object.Version(om.GetResourceVersion()), Value: object.Decoded(&box{obj})}
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
func (s *lwSource) list(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
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

func (s *lwSource) Watch(ctx context.Context, opts object.WatchOptions, _ *object.Intake[record]) (object.Stream[record], error) {
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
	return &lwStream{source: s, watch: w, initial: opts.InitialEvents, closed: make(chan struct{})}, nil
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
type lwStream struct {
	source  *lwSource
	watch   watch.Interface
	initial bool // the initial events are not over; the goroutine in Next writes to it
	events  []object.Event[record]
	closed  chan struct{}
	once    sync.Once
}

// maxEvents is the largest number of events that Next returns together.
const maxEvents = 256

func (s *lwStream) Next() ([]object.Event[record], error) {
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
func (s *lwStream) add(ev watch.Event) {
	if ev.Type == watch.Error {
		err := apierrors.FromObject(ev.Object)
		if s.initial && noStatus(err) {
			err = &noStreamError{err}
		}
		s.events = append(s.events, object.Event[record]{Err: &streamError{err}})
		return
	}
	m, err := s.source.understand(ev.Object)
	if err != nil {
		utilruntime.HandleErrorWithContext(context.Background(), err, "Unable to understand watch event", "type", ev.Type)
		return
	}
	out := object.Event[record]{Item: object.Item[record]{Version: object.Version(m.GetResourceVersion())}}
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
		s.events = append(s.events, object.Event[record]{})
		return
	}
	out.Item.Key = metaKey(m)
	out.Item.Value = object.Decoded(&box{ev.Object})
	s.events = append(s.events, out)
}

// understand returns the metadata of an event's object if it is of the type expected.
func (s *lwSource) understand(obj runtime.Object) (metav1.Object, error) {
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

func (s *lwStream) Close() error {
	s.once.Do(func() {
		close(s.closed)
		s.watch.Stop()
	})
	return nil
}
