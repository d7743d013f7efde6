package informer_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
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

	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type (
	podInformer = informer.Informer[*corev1.Pod]
	podOptions  = informer.Options[*corev1.Pod]
	podHandler  = informer.Handler[*corev1.Pod]
	podSub      = informer.SubOptions[*corev1.Pod]
	podEvent    = informer.Event[*corev1.Pod]
	podItem     = object.Item[*corev1.Pod]
)

var podMeta = object.Meta[*corev1.Pod]()

// world is a naive server: the pods there are, and every event since the beginning. It
// is a source for a reflector.
type world struct {
	mu      sync.Mutex
	version int
	uids    int
	pods    map[object.Key]*corev1.Pod
	history []event
	gone    int // versions up to this one cannot be watched from
	cuts    int
	expired int              // watches to refuse as too old
	refusal map[string]error // of lists of a namespace, "" for all
	lists   int
	changed chan struct{}
}

type event struct {
	object.Event[*corev1.Pod]
	version int
}

func newWorld(keys ...string) *world {
	w := &world{version: 100, pods: map[object.Key]*corev1.Pod{}, changed: make(chan struct{}), refusal: map[string]error{}}
	for _, k := range keys {
		w.set(k)
	}
	return w
}

func (w *world) touch() {
	close(w.changed)
	w.changed = make(chan struct{})
}

// tell adds an event to the history, a bookmark without a kind. The lock must be held.
func (w *world) tell(t object.Kind, pod *corev1.Pod) {
	e := event{version: w.version}
	e.Kind, e.Bookmark = t, t == 0
	e.Item.Version = object.Version(strconv.Itoa(w.version))
	if pod != nil {
		e.Item = itemOf(pod)
	}
	w.history = append(w.history, e)
	w.touch()
}

func itemOf(pod *corev1.Pod) podItem {
	item, err := object.ItemOf(podMeta, pod)
	if err != nil {
		panic(err)
	}
	return item
}

// set creates or updates a pod, given as "shop/web", and returns its new state.
func (w *world) set(key string, edit ...func(*corev1.Pod)) *corev1.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	k := object.RawKey(key)
	w.version++
	typ, pod := object.Added, &corev1.Pod{}
	if old := w.pods[k]; old != nil {
		typ, pod = object.Updated, old.DeepCopy()
	} else {
		w.uids++
		pod.Namespace, pod.Name, pod.UID = k.Namespace, k.Name, object.UID(fmt.Sprint("u", w.uids))
	}
	for _, f := range edit {
		f(pod)
	}
	pod.ResourceVersion = strconv.Itoa(w.version)
	w.pods[k] = pod
	w.tell(typ, pod)
	return pod
}

// remove deletes a pod and returns its last state, with the version of the deletion.
func (w *world) remove(key string) *corev1.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	k := object.RawKey(key)
	w.version++
	pod := w.pods[k].DeepCopy()
	pod.ResourceVersion = strconv.Itoa(w.version)
	delete(w.pods, k)
	w.tell(object.Deleted, pod)
	return pod
}

// bookmark tells the present version, which it moves on.
func (w *world) bookmark() object.Version {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.version++
	w.tell(0, nil)
	return object.Version(strconv.Itoa(w.version))
}

// forget cuts all watches and the history, so that everybody has to list.
func (w *world) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.version++
	w.gone = w.version
	w.cuts++
	w.touch()
}

// rewind restores a version of long ago, with the pods there are now.
func (w *world) rewind(version int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.version, w.gone, w.history = version, version, nil
	for k, pod := range w.pods {
		pod = pod.DeepCopy()
		pod.ResourceVersion = strconv.Itoa(version)
		w.pods[k] = pod
	}
	w.cuts++
	w.expired = 1
	w.touch()
}

// edit changes a pod without a version or an event, as nobody but a restore can.
func (w *world) edit(key string, f func(*corev1.Pod)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	pod := w.pods[object.RawKey(key)].DeepCopy()
	f(pod)
	w.pods[object.RawKey(key)] = pod
}

// refuse makes lists of a namespace fail, or succeed again.
func (w *world) refuse(namespace string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refusal[namespace] = err
}

func (w *world) listCount() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lists
}

// List implements reflector.Source.
func (w *world) List(_ context.Context, opts object.ListOptions, in *object.Intake[*corev1.Pod], sink func(podItem) error) (object.Page, error) {
	w.mu.Lock()
	w.lists++
	err := w.refusal[opts.Namespace]
	pods := slices.SortedFunc(maps.Values(w.pods), func(a, b *corev1.Pod) int { return keyOf(a).Compare(keyOf(b)) })
	page := object.Page{Version: object.Version(strconv.Itoa(w.version))}
	w.mu.Unlock()
	if err != nil {
		return page, err
	}
	for _, pod := range pods {
		if opts.Namespace != "" && pod.Namespace != opts.Namespace {
			continue
		}
		item := itemOf(pod)
		if in.Holds(item.Key, item.UID, item.Version) {
			item.Object, item.Held = nil, true
		}
		if err := sink(item); err != nil {
			return page, err
		}
	}
	return page, nil
}

// Watch implements reflector.Source.
func (w *world) Watch(ctx context.Context, opts object.WatchOptions, _ *object.Intake[*corev1.Pod]) (object.Stream[*corev1.Pod], error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at, err := strconv.Atoi(string(opts.Version))
	if err != nil {
		return nil, apierrors.NewBadRequest("not that kind of watch")
	}
	if w.expired > 0 {
		w.expired--
		return nil, apierrors.NewResourceExpired("too old")
	}
	if at < w.gone {
		return nil, apierrors.NewResourceExpired("too old")
	}
	ctx, cancel := context.WithCancel(ctx)
	return &stream{w: w, ctx: ctx, cancel: cancel, at: at, cuts: w.cuts, namespace: opts.Namespace}, nil
}

type stream struct {
	w         *world
	ctx       context.Context
	cancel    context.CancelFunc
	at, cuts  int
	namespace string
}

func (s *stream) Next() ([]object.Event[*corev1.Pod], error) {
	for {
		s.w.mu.Lock()
		var out []object.Event[*corev1.Pod]
		for _, e := range s.w.history {
			if e.version > s.at && (s.namespace == "" || e.Bookmark || e.Item.Key.Namespace == s.namespace) {
				out = append(out, e.Event)
			}
		}
		s.at = s.w.version
		cut, changed := s.cuts != s.w.cuts, s.w.changed
		s.w.mu.Unlock()
		if cut {
			return nil, io.EOF
		}
		if len(out) > 0 {
			return out, nil
		}
		select {
		case <-changed:
		case <-s.ctx.Done():
			return nil, s.ctx.Err()
		}
	}
}

func (s *stream) Close() error {
	s.cancel()
	return nil
}

func keyOf(pod *corev1.Pod) object.Key {
	return object.Key{Namespace: pod.Namespace, Name: pod.Name}
}

func onNode(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.NodeName = name }
}

func forbidden() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden,
		Message: "pods is forbidden: nobody may list them",
	}}
}

func newInformer(t testing.TB, src reflector.Source[*corev1.Pod], opts podOptions) *podInformer {
	t.Helper()
	if opts.Name == "" {
		opts.Name = "pods"
	}
	opts.Reflector.Streaming = reflector.StreamingOff
	inf, err := informer.New(src, podMeta, opts)
	if err != nil {
		t.Fatal(err)
	}
	return inf
}

// start runs an informer, and returns what stops it and waits for its end, which the test
// does too when it ends.
func start(t testing.TB, inf *podInformer) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := inf.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	}()
	stop = func() {
		cancel()
		<-done
	}
	t.Cleanup(stop)
	return stop
}

func subscribe(t testing.TB, inf *podInformer, h podHandler, opts podSub) *informer.Subscription {
	t.Helper()
	sub, err := inf.Subscribe(h, opts)
	if err != nil {
		t.Fatal(err)
	}
	return sub
}

// diary is a handler that writes down what it is told: "add! shop/web@101", with a mark
// for the initial state, "update shop/web@101>102", "delete? shop/web@102", with one for a
// final state that is unknown.
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

func (d *diary) handler() podHandler {
	return podHandler{
		OnAdd: func(p *corev1.Pod, initial bool) {
			d.write("add%s %s@%s", map[bool]string{true: "!"}[initial], keyOf(p), p.ResourceVersion)
		},
		OnUpdate: func(old, p *corev1.Pod) {
			d.write("update %s@%s>%s", keyOf(p), old.ResourceVersion, p.ResourceVersion)
		},
		OnDelete: func(p *corev1.Pod, unknown bool) {
			d.write("delete%s %s@%s", map[bool]string{true: "?"}[unknown], keyOf(p), p.ResourceVersion)
		},
	}
}

func want[V any](t testing.TB, what string, got, want V) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// closed reports whether a channel is closed, now.
func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// inBubble runs a test in which time is virtual.
func inBubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

// pass lets virtual time pass, and everybody come to rest.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}
