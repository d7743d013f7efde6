package clientgo_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/tarnproject/tarn/internal/sim/simtest"
	"github.com/tarnproject/tarn/object"
)

// podServer is a simtest.Server of pods as a cache.ListerWatcher. Its first pod has version 11. The
// namespace of a pod follows from the last letter of its name: "a1" is in ns1.
type podServer struct {
	*simtest.Server[*corev1.Pod]

	free     chan struct{} // received while a request is answered, and by locked
	uids     int
	listErrs int // how many lists will fail
}

func newPodServer(streaming bool) *podServer {
	s := &podServer{Server: simtest.New[*corev1.Pod](10), free: make(chan struct{}, 1)}
	s.free <- struct{}{}
	s.Streams = streaming
	s.OnList = func(int, object.ListOptions, func(object.Item[*corev1.Pod]) error) (page object.Page, err error, ok bool) {
		if s.listErrs == 0 {
			return page, nil, false
		}
		s.listErrs--
		return page, apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New("not yours")), true
	}
	return s
}

// keyOfPod returns the key of the pod with that name.
func keyOfPod(name string) string { return "ns" + name[len(name)-1:] + "/" + name }

// uidOf returns a UID in the form that servers give.
func uidOf(n int) types.UID { return types.UID(fmt.Sprintf("%08x-2222-4333-8444-555555555555", n)) }

// locked calls f while no request is answered.
func (s *podServer) locked(f func()) {
	<-s.free
	defer func() { s.free <- struct{}{} }()
	f()
}

func (s *podServer) version() int {
	n, _ := strconv.Atoi(string(s.Version()))
	return n
}

func (s *podServer) has(name string) bool { return s.Get(keyOfPod(name)) != nil }

func (s *podServer) lists() int { return s.Counts().Lists }

func (s *podServer) names() (names []string) {
	for _, pod := range s.Objects() {
		names = append(names, pod.Name)
	}
	slices.Sort(names)
	return names
}

// put creates or updates a pod. A recreated one has a new UID under its old name.
func (s *podServer) put(name string, recreated bool, edits ...func(*corev1.Pod)) {
	version, created := s.version()+1, !s.has(name)
	s.Set(keyOfPod(name), append([]func(*corev1.Pod){func(pod *corev1.Pod) {
		pod.Labels = map[string]string{"even": strconv.FormatBool(version%2 == 0)}
		pod.Spec.NodeName = fmt.Sprintf("node-%d", version%3)
		if created || recreated {
			s.uids++
			pod.UID = uidOf(s.uids)
		}
	}}, edits...)...)
}

func (s *podServer) delete(name string) { s.Delete(keyOfPod(name)) }

// cut closes all watches in order.
func (s *podServer) cut() { s.Cut(io.EOF) }

// expire compacts the history and closes all watches. If notify is true they first get an error
// event.
func (s *podServer) expire(notify bool) {
	if !notify {
		s.Expire()
		return
	}
	s.SetVersion(s.version() + 1)
	s.Compact()
	s.Cut(apierrors.NewResourceExpired("too old"))
}

// IsWatchListSemanticsUnSupported is the method that client-go looks for.
func (s *podServer) IsWatchListSemanticsUnSupported() bool { return !s.Streams }

// List implements cache.Lister.
func (s *podServer) List(metav1.ListOptions) (runtime.Object, error) {
	<-s.free
	defer func() { s.free <- struct{}{} }()
	list := &corev1.PodList{}
	page, err := s.Server.List(context.Background(), object.ListOptions{}, nil, func(item object.Item[*corev1.Pod]) error {
		list.Items = append(list.Items, *item.Object)
		return nil
	})
	list.ResourceVersion = string(page.Version)
	if err != nil {
		return nil, err
	}
	return list, nil
}

// Watch implements cache.Watcher.
func (s *podServer) Watch(opts metav1.ListOptions) (watch.Interface, error) {
	<-s.free
	defer func() { s.free <- struct{}{} }()
	stream, err := s.Server.Watch(context.Background(), object.WatchOptions{
		Version: object.Version(opts.ResourceVersion), InitialEvents: opts.SendInitialEvents != nil && *opts.SendInitialEvents,
		Match: object.Match(opts.ResourceVersionMatch), Bookmarks: opts.AllowWatchBookmarks,
	}, nil)
	if err != nil {
		return nil, err
	}
	w := &podWatch{stream: stream, results: make(chan watch.Event, 1<<12), stopped: make(chan struct{})}
	w.stop = sync.OnceFunc(func() { close(w.stopped) })
	go w.run()
	return w, nil
}

// podWatch is a watch.Interface over a stream.
type podWatch struct {
	stream  object.Stream[*corev1.Pod]
	results chan watch.Event
	stopped chan struct{}
	stop    func()
}

// ResultChan implements watch.Interface.
func (w *podWatch) ResultChan() <-chan watch.Event { return w.results }

// Stop implements watch.Interface.
func (w *podWatch) Stop() {
	w.stop()
	_ = w.stream.Close()
}

// run passes events on until the stream ends. An error of the API is the last event.
func (w *podWatch) run() {
	defer close(w.results)
	for {
		events, err := w.stream.Next()
		if status := apierrors.APIStatus(nil); errors.As(err, &status) {
			w.send(watch.Event{Type: watch.Error, Object: new(status.Status())})
		}
		if err != nil {
			return
		}
		for _, ev := range events {
			w.send(eventOf(ev))
		}
	}
}

func (w *podWatch) send(ev watch.Event) {
	select {
	case w.results <- ev:
	case <-w.stopped:
	}
}

// eventOf returns an event as client-go has it.
func eventOf(ev object.Event[*corev1.Pod]) watch.Event {
	if ev.Bookmark {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: string(ev.Item.Version)}}
		if ev.InitialEnd {
			pod.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
		}
		return watch.Event{Type: watch.Bookmark, Object: pod}
	}
	types := map[object.Kind]watch.EventType{object.Added: watch.Added, object.Updated: watch.Modified, object.Deleted: watch.Deleted}
	return watch.Event{Type: types[ev.Kind], Object: ev.Item.Object}
}

// recording is a simtest.Recorder whose lines begin with the key of an object. The order of lines
// counts for each object by itself: client-go's lists have the order of a map.
type recording struct{ simtest.Recorder }

func (r *recording) add(key, format string, args ...any) {
	r.Add("%s: %s", key, fmt.Sprintf(format, args...))
}

// take returns the lines since the last call, in the order of the keys.
func (r *recording) take() []string {
	lines := r.Take()
	key := func(line string) string {
		key, _, _ := strings.Cut(line, ": ")
		return key
	}
	slices.SortStableFunc(lines, func(a, b string) int { return cmp.Compare(key(a), key(b)) })
	return lines
}
