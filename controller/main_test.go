package controller_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is a naive API server for one resource: optimistic writes, finalizers, and every
// event since the beginning. It is a source for a reflector and the API of a client.
type server[T controller.Object] struct {
	mu      sync.Mutex
	version int
	uids    int
	objects map[object.Key]T
	history []object.Event[T]
	stalled bool // streams tell nothing
	changed chan struct{}
	// onWrite, if set, is called when a write begins, and its error refuses it.
	onWrite func(ctx context.Context) error
}

// none are options that nobody needs here.
type none struct{}

type (
	podServer = server[*corev1.Pod]
	podClient = controller.Client[*corev1.Pod, none, func(*corev1.Pod), none, none]
	podAPI    = controller.API[*corev1.Pod, none, func(*corev1.Pod), none, none]
)

var _ podAPI = (*podServer)(nil)

func newServer[T controller.Object]() *server[T] {
	return &server[T]{version: 100, objects: map[object.Key]T{}, changed: make(chan struct{})}
}

func newPods(keys ...string) *podServer {
	s := newServer[*corev1.Pod]()
	for _, k := range keys {
		s.set(k)
	}
	return s
}

func keyOf(o metav1.Object) object.Key {
	return object.Key{Namespace: o.GetNamespace(), Name: o.GetName()}
}

func (s *server[T]) refuse(reason metav1.StatusReason, code int32, key object.Key) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: code, Reason: reason, Message: fmt.Sprintf("%s: %s", key, reason)}}
}

// put stores an object under a new version. As with a real server, the answer to the
// write that deletes an object has the version it had. The lock must be held.
func (s *server[T]) put(obj T) T {
	key := keyOf(obj)
	before := obj
	_, exists := s.objects[key]
	s.version++
	obj.SetResourceVersion(strconv.Itoa(s.version))
	typ := object.Added
	switch gone := obj.GetDeletionTimestamp() != nil && len(obj.GetFinalizers()) == 0; {
	case gone:
		typ = object.Deleted
		before = clone(obj)
		before.SetResourceVersion(s.objects[key].GetResourceVersion())
		delete(s.objects, key)
	case exists:
		typ = object.Updated
		s.objects[key] = obj
	default:
		s.objects[key] = obj
	}
	item, err := object.ItemOf(object.Meta[T](), obj)
	if err != nil {
		panic(err)
	}
	s.history = append(s.history, object.Event[T]{Kind: typ, Item: item})
	s.wake()
	return before
}

func (s *server[T]) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// begin starts a write: it takes the lock unless the write is refused.
func (s *server[T]) begin(ctx context.Context) error {
	if s.onWrite != nil {
		if err := s.onWrite(ctx); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if check, ok := ctx.Value(checkKey{}).(func() error); ok {
		if err := check(); err != nil {
			return err
		}
	}
	s.mu.Lock()
	return nil
}

func clone[T controller.Object](obj T) T { return obj.DeepCopyObject().(T) }

func (s *server[T]) Create(ctx context.Context, obj T, _ none) (T, error) {
	if err := s.begin(ctx); err != nil {
		return obj, err
	}
	defer s.mu.Unlock()
	if _, ok := s.objects[keyOf(obj)]; ok {
		return obj, s.refuse(metav1.StatusReasonAlreadyExists, 409, keyOf(obj))
	}
	obj = clone(obj)
	s.uids++
	obj.SetUID(object.UID(fmt.Sprint("u", s.uids)))
	return s.put(obj), nil
}

func (s *server[T]) Update(ctx context.Context, obj T, _ none) (T, error) {
	if err := s.begin(ctx); err != nil {
		return obj, err
	}
	defer s.mu.Unlock()
	old, ok := s.objects[keyOf(obj)]
	switch {
	case !ok:
		return obj, apierrors.NewNotFound(schema.GroupResource{}, obj.GetName())
	case obj.GetResourceVersion() != "" && obj.GetResourceVersion() != old.GetResourceVersion():
		return obj, apierrors.NewConflict(schema.GroupResource{}, obj.GetName(), nil)
	}
	obj = clone(obj)
	obj.SetUID(old.GetUID())
	obj.SetDeletionTimestamp(old.GetDeletionTimestamp())
	return s.put(obj), nil
}

func (s *server[T]) UpdateStatus(ctx context.Context, obj T, opts none) (T, error) {
	return s.Update(ctx, obj, opts)
}

func (s *server[T]) Patch(ctx context.Context, key object.Key, patch func(T), _ none, _ ...string) (obj T, err error) {
	if err := s.begin(ctx); err != nil {
		return obj, err
	}
	defer s.mu.Unlock()
	old, ok := s.objects[key]
	if !ok {
		return obj, apierrors.NewNotFound(schema.GroupResource{}, key.Name)
	}
	obj = clone(old)
	patch(obj)
	return s.put(obj), nil
}

// Apply makes the labels of config, which is an object, those of the stored one.
func (s *server[T]) Apply(ctx context.Context, key object.Key, config any, opts none, _ ...string) (obj T, err error) {
	return s.Patch(ctx, key, func(obj T) {
		obj.SetLabels(config.(T).GetLabels())
		obj.SetFinalizers(config.(T).GetFinalizers())
	}, opts)
}

func (s *server[T]) DeleteReturningUID(ctx context.Context, key object.Key, _ none) (object.UID, error) {
	if err := s.begin(ctx); err != nil {
		return "", err
	}
	defer s.mu.Unlock()
	old, ok := s.objects[key]
	if !ok {
		return "", apierrors.NewNotFound(schema.GroupResource{}, key.Name)
	}
	obj := clone(old)
	now := metav1.Now()
	obj.SetDeletionTimestamp(&now)
	return s.put(obj).GetUID(), nil
}

type checkKey struct{}

func (s *server[T]) CheckAttempts(ctx context.Context, check func() error) context.Context {
	return context.WithValue(ctx, checkKey{}, check)
}

// set is what a user does: it creates or changes the object of a key, given as "shop/web".
func (s *server[T]) set(key string, edit ...func(T)) T {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := object.RawKey(key)
	obj, ok := s.objects[k]
	if ok {
		obj = clone(obj)
	} else {
		obj = newOf[T]()
		obj.SetNamespace(k.Namespace)
		obj.SetName(k.Name)
		s.uids++
		obj.SetUID(object.UID(fmt.Sprint("u", s.uids)))
	}
	for _, f := range edit {
		f(obj)
	}
	return s.put(obj)
}

func newOf[T controller.Object]() T {
	var t T
	switch any(t).(type) {
	case *corev1.Pod:
		return any(&corev1.Pod{}).(T)
	case *corev1.Namespace:
		return any(&corev1.Namespace{}).(T)
	case *corev1.ConfigMap:
		return any(&corev1.ConfigMap{}).(T)
	}
	panic(fmt.Sprintf("no %T", t))
}

// remove is what a user does who deletes.
func (s *server[T]) remove(key string) {
	if _, err := s.DeleteReturningUID(context.Background(), object.RawKey(key), none{}); err != nil {
		panic(err)
	}
}

func (s *server[T]) get(key string) (T, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	obj, ok := s.objects[object.RawKey(key)]
	return obj, ok
}

func (s *server[T]) keys() []object.Key {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.SortedFunc(maps.Keys(s.objects), object.Key.Compare)
}

// stall makes streams fall silent, or speak again.
func (s *server[T]) stall(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stalled = on
	s.wake()
}

// List implements reflector.Source.
func (s *server[T]) List(_ context.Context, _ object.ListOptions, _ *object.Intake[T], sink func(object.Item[T]) error) (object.Page, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	page := object.Page{Version: object.Version(strconv.Itoa(s.version))}
	for _, key := range slices.SortedFunc(maps.Keys(s.objects), object.Key.Compare) {
		item, err := object.ItemOf(object.Meta[T](), s.objects[key])
		if err == nil {
			err = sink(item)
		}
		if err != nil {
			return page, err
		}
	}
	return page, nil
}

// Watch implements reflector.Source.
func (s *server[T]) Watch(ctx context.Context, opts object.WatchOptions, _ *object.Intake[T]) (object.Stream[T], error) {
	at, err := strconv.Atoi(string(opts.Version))
	if err != nil {
		return nil, apierrors.NewBadRequest("not that kind of watch")
	}
	ctx, cancel := context.WithCancel(ctx)
	return reflector.StreamFuncs[T]{
		NextFunc: func() ([]object.Event[T], error) {
			for {
				s.mu.Lock()
				var events []object.Event[T]
				if !s.stalled {
					events = slices.Clone(s.history[at-100:]) // one for each version
					at = s.version
				}
				changed := s.changed
				s.mu.Unlock()
				if len(events) > 0 {
					return events, nil
				}
				select {
				case <-changed:
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			}
		},
		CloseFunc: func() error { cancel(); return nil },
	}, nil
}

func newInformer[T controller.Object](name string, s *server[T]) *informer.Informer[T] {
	inf, err := informer.New(s, object.Meta[T](), informer.Options[T]{
		Name: name, Reflector: reflector.Options[T]{Streaming: reflector.StreamingOff},
	})
	if err != nil {
		panic(err)
	}
	return inf
}

// start runs parts, and returns what stops them and returns their error. The test stops
// them at its end at the latest.
func start(t testing.TB, parts ...controller.Runner) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- controller.Run(ctx, parts...) }()
	stop = sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	t.Cleanup(func() { _ = stop() })
	return stop
}

type (
	options = controller.Options[object.Key]
	result  = controller.Result
)

func newController(t testing.TB, reconcile controller.Func[object.Key], opts options, sources ...controller.Source[object.Key]) *controller.Controller[object.Key] {
	t.Helper()
	c, err := controller.New("web", reconcile, opts, sources...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// diary is what was reconciled, in order.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) write(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
}

// read returns what was written since it was last called.
func (d *diary) read() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	lines := d.lines
	d.lines = nil
	return lines
}

func want[V any](t testing.TB, what string, got, want V) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func inBubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

// pass lets virtual time pass, and everybody come to rest.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// label is an edit of an object.
func label[T controller.Object](key, value string) func(T) {
	return func(obj T) {
		labels := maps.Clone(obj.GetLabels())
		if labels == nil {
			labels = map[string]string{}
		}
		labels[key] = value
		obj.SetLabels(labels)
	}
}
