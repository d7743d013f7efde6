package clientgo_test

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// world is a small server of pods: a cache.ListerWatcher with versions, a history that can
// be forgotten, watches that can be closed, and streaming lists where it is told to.
type world struct {
	streaming bool

	mu        sync.Mutex
	version   int
	uids      int
	pods      map[string]*corev1.Pod
	history   []watch.Event         // what came at each version, one after the other; see expire
	together  map[int][]watch.Event // more that came at a version
	forgotten int                   // versions up to this one cannot be watched from
	watches   []*worldWatch
	listErrs  int // how many lists are going to fail
	lists     int
}

func newWorld(streaming bool) *world {
	return &world{streaming: streaming, pods: map[string]*corev1.Pod{}, version: 10, forgotten: 10}
}

// IsWatchListSemanticsUnSupported is what client-go looks for.
func (w *world) IsWatchListSemanticsUnSupported() bool { return !w.streaming }

func (w *world) names() (names []string) {
	w.locked(func() { names = w.namesLocked() })
	return names
}

func (w *world) namesLocked() []string { return slices.Sorted(maps.Keys(w.pods)) }

// locked does several things as one.
func (w *world) locked(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

// put creates a pod or changes it; a reborn one has a new UID under its old name.
func (w *world) put(name string, reborn bool) { w.locked(func() { w.putLocked(name, reborn) }) }

func (w *world) putLocked(name string, reborn bool) {
	w.version++
	old, typ := w.pods[name], watch.Modified
	if old == nil {
		typ = watch.Added
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns" + name[len(name)-1:], Name: name, ResourceVersion: strconv.Itoa(w.version),
		Labels: map[string]string{"even": strconv.FormatBool(w.version%2 == 0)},
	}}
	if old == nil || reborn {
		w.uids++
		pod.UID = uidOf(w.uids)
	} else {
		pod.UID = old.UID
	}
	pod.Spec.NodeName = fmt.Sprintf("node-%d", w.version%3)
	w.pods[name] = pod
	w.tell(watch.Event{Type: typ, Object: pod})
}

// uidOf returns a UID of the form that servers give.
func uidOf(n int) types.UID { return types.UID(fmt.Sprintf("%08x-2222-4333-8444-555555555555", n)) }

func (w *world) delete(name string) { w.locked(func() { w.deleteLocked(name) }) }

func (w *world) deleteLocked(name string) {
	pod := w.pods[name].DeepCopy()
	delete(w.pods, name)
	w.version++
	pod.ResourceVersion = strconv.Itoa(w.version)
	w.tell(watch.Event{Type: watch.Deleted, Object: pod})
}

// expire deletes pods at one version, as the end of an etcd lease does. Open watches are told
// of the first few.
func (w *world) expire(told int, names ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deleteLocked(names[0])
	w.together = map[int][]watch.Event{}
	for i, name := range names[1:] {
		pod := w.pods[name].DeepCopy()
		delete(w.pods, name)
		pod.ResourceVersion = strconv.Itoa(w.version)
		ev := watch.Event{Type: watch.Deleted, Object: pod}
		w.together[w.version] = append(w.together[w.version], ev)
		for _, ww := range w.watches {
			if i+1 < told {
				ww.send(ev)
			}
		}
	}
}

func versionOf(ev watch.Event) int {
	n, _ := strconv.Atoi(ev.Object.(*corev1.Pod).ResourceVersion)
	return n
}

func (w *world) tell(ev watch.Event) {
	w.history = append(w.history, ev)
	for _, ww := range w.watches {
		ww.send(ev)
	}
}

// bookmark sends one to every watch.
func (w *world) bookmark() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.version++
	w.history = append(w.history, watch.Event{})
	for _, ww := range w.watches {
		ww.send(bookmarkAt(w.version, false))
	}
}

func bookmarkAt(version int, end bool) watch.Event {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: strconv.Itoa(version)}}
	if end {
		pod.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	}
	return watch.Event{Type: watch.Bookmark, Object: pod}
}

// cut closes all watches in order.
func (w *world) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, ww := range w.watches {
		close(ww.results)
	}
	w.watches = nil
}

// forget makes a watch from the past impossible, and tells those that are open so.
func (w *world) forget(tell bool) { w.locked(func() { w.forgetLocked(tell) }) }

func (w *world) forgetLocked(tell bool) {
	w.version++
	w.history, w.forgotten = nil, w.version
	for _, ww := range w.watches {
		if tell {
			st := apierrors.NewResourceExpired("too old").Status()
			ww.results <- watch.Event{Type: watch.Error, Object: &st}
		}
		close(ww.results)
	}
	w.watches = nil
}

// List implements cache.Lister.
func (w *world) List(metav1.ListOptions) (runtime.Object, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lists++
	if w.listErrs > 0 {
		w.listErrs--
		return nil, apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New("not yours"))
	}
	list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(w.version)}}
	for _, name := range slices.Sorted(maps.Keys(w.pods)) {
		list.Items = append(list.Items, *w.pods[name].DeepCopy())
	}
	return list, nil
}

// Watch implements cache.Watcher.
func (w *world) Watch(opts metav1.ListOptions) (watch.Interface, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	ww := &worldWatch{world: w, results: make(chan watch.Event, 1<<12)}
	if opts.SendInitialEvents != nil && *opts.SendInitialEvents {
		if !w.streaming {
			return nil, apierrors.NewBadRequest("no streaming lists here")
		}
		for _, name := range slices.Sorted(maps.Keys(w.pods)) {
			ww.send(watch.Event{Type: watch.Added, Object: w.pods[name]})
		}
		ww.send(bookmarkAt(w.version, true))
		w.watches = append(w.watches, ww)
		return ww, nil
	}
	from, err := strconv.Atoi(opts.ResourceVersion)
	if err != nil {
		return nil, apierrors.NewBadRequest("a watch from no version")
	}
	if from < w.forgotten {
		return nil, apierrors.NewResourceExpired("too old")
	}
	for _, ev := range w.history[min(from-w.forgotten, len(w.history)):] {
		if ev.Object != nil {
			ww.send(ev)
			for _, more := range w.together[versionOf(ev)] {
				ww.send(more)
			}
		}
	}
	w.watches = append(w.watches, ww)
	return ww, nil
}

type worldWatch struct {
	world   *world
	results chan watch.Event
}

func (ww *worldWatch) send(ev watch.Event) {
	ww.results <- watch.Event{Type: ev.Type, Object: ev.Object.DeepCopyObject()}
}

// ResultChan implements watch.Interface.
func (ww *worldWatch) ResultChan() <-chan watch.Event { return ww.results }

// Stop implements watch.Interface.
func (ww *worldWatch) Stop() {
	ww.world.mu.Lock()
	defer ww.world.mu.Unlock()
	if i := slices.Index(ww.world.watches, ww); i >= 0 {
		ww.world.watches = slices.Delete(ww.world.watches, i, i+1)
		close(ww.results)
	}
}

// journal is what somebody was told, in steps. Within a step the order counts for each
// object by itself: the order of a map is nobody's promise.
type journal struct {
	mu    sync.Mutex
	lines []line
}

type line struct{ key, text string }

func (j *journal) add(key, format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, line{key, fmt.Sprintf(format, args...)})
}

// take returns what was told since the last call.
func (j *journal) take() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	slices.SortStableFunc(j.lines, func(a, b line) int { return cmp.Compare(a.key, b.key) })
	var texts []string
	for _, l := range j.lines {
		texts = append(texts, l.key+": "+l.text)
	}
	j.lines = nil
	return texts
}
