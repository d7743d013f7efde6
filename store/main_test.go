package store_test

import (
	"errors"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The tests of this package are named by the cases of semantics.md that they prove. This
// file has what they share: pods written as "shop/web" with a version, batches, and
// changes and objects as text.

type (
	podStore    = store.Store[*corev1.Pod]
	podSnapshot = store.Snapshot[*corev1.Pod]
	podChange   = object.Change[*corev1.Pod]
	podDelta    = object.Change[*corev1.Pod]
	podBatch    = object.Batch[*corev1.Pod]
	podList     = object.List[*corev1.Pod]
	podItem     = object.Item[*corev1.Pod]
	podOptions  = store.Options[*corev1.Pod]
	podIndex    = store.AnyIndex[*corev1.Pod]
)

var podMeta = object.Meta[*corev1.Pod]()

// pod makes a pod of a key such as "shop/web"; its UID is the key.
func pod(key string, version int, change ...func(*corev1.Pod)) *corev1.Pod {
	k := object.RawKey(key)
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace:       k.Namespace,
		Name:            k.Name,
		UID:             object.UID(key),
		ResourceVersion: strconv.Itoa(version),
	}}
	for _, f := range change {
		f(p)
	}
	return p
}

func onNode(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.NodeName = name }
}

func withUID(uid object.UID) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.UID = uid }
}

func withVersion(v object.Version) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.ResourceVersion = string(v) }
}

func withLabels(keyValues ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Labels = map[string]string{}
		for i := 0; i < len(keyValues); i += 2 {
			p.Labels[keyValues[i]] = keyValues[i+1]
		}
	}
}

// nodeIndex makes the index that most tests use.
func nodeIndex() *store.Index[*corev1.Pod, string] {
	return store.NewIndex("node", func(p *corev1.Pod) string { return p.Spec.NodeName })
}

func newPodStore(t testing.TB, indexes ...podIndex) *podStore {
	t.Helper()
	return newPodStoreWith(t, podOptions{Indexes: indexes})
}

func newPodStoreWith(t testing.TB, opts podOptions) *podStore {
	t.Helper()
	s, err := store.New(podMeta, opts)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func set(t testing.TB, s *podStore, pods ...*corev1.Pod) {
	t.Helper()
	for _, p := range pods {
		if err := s.Set(p); err != nil {
			t.Fatal(err)
		}
	}
}

func event(typ object.Kind, p *corev1.Pod) podDelta {
	i := item(p)
	return object.ChangeOf(typ, &i)
}

// listed makes the delta of a list of everything.
func listed(version int, pods ...*corev1.Pod) podDelta {
	return listedAt(object.Mark{Version: object.Version(strconv.Itoa(version))}, pods...)
}

func listedAt(mark object.Mark, pods ...*corev1.Pod) podDelta {
	l, err := object.ListOf(podMeta, "", pods...)
	if err != nil {
		panic(err)
	}
	l.Mark = mark
	return podDelta{Kind: object.Replaced, List: &l}
}

func listedItems(version int, items ...podItem) podDelta {
	return podDelta{Kind: object.Replaced, List: &podList{
		Mark:  object.Mark{Version: object.Version(strconv.Itoa(version))},
		Items: items,
	}}
}

// item makes the list item of a pod.
func item(p *corev1.Pod) podItem {
	i, err := object.ItemOf(podMeta, p)
	if err != nil {
		panic(err)
	}
	return i
}

// heldItem makes the item of a pod that was not decoded because the store has it.
func heldItem(p *corev1.Pod) podItem {
	i := item(p)
	i.Object, i.Held = nil, true
	return i
}

// brokenItem makes the item of a pod that could not be decoded.
func brokenItem(p *corev1.Pod) podItem {
	i := item(p)
	i.Object, i.Err, i.Raw = nil, errors.New("bad JSON"), []byte("{")
	return i
}

// upTo makes the mark of everything at a version.
func upTo(version int) []object.Mark {
	return []object.Mark{{Version: object.Version(strconv.Itoa(version))}}
}

// apply applies deltas as one batch that ends at a version, and returns the changes as
// text.
func apply(t testing.TB, s *podStore, version int, deltas ...podDelta) []string {
	t.Helper()
	return changeTexts(applyBatch(t, s, &podBatch{Changes: deltas, Marks: upTo(version)}))
}

func applyBatch(t testing.TB, s *podStore, b *podBatch) []podChange {
	t.Helper()
	changes, err := s.Apply(b, nil)
	if err != nil {
		t.Fatal(err)
	}
	return changes
}

// changeTexts writes changes as "Added shop/web@1", "Updated shop/web@1>2", "Deleted
// shop/web@2>3"; a question mark says that the final state is unknown.
func changeTexts(changes []podChange) []string {
	var out []string
	for _, c := range changes {
		s := c.Kind.String()
		if c.Unknown {
			s += "?"
		}
		s += " " + c.Key.String() + "@"
		if old := c.Old(); old != nil {
			s += old.ResourceVersion + ">"
		}
		out = append(out, s+c.New().ResourceVersion)
	}
	return out
}

// podTexts writes pods as "shop/web@1", in the order in which they come.
func podTexts(pods iter.Seq[*corev1.Pod]) []string {
	var out []string
	for p := range pods {
		out = append(out, fmt.Sprintf("%s@%s", object.Key{Namespace: p.Namespace, Name: p.Name}, p.ResourceVersion))
	}
	return out
}

// sorted is podTexts without an order, for indexes.
func sorted(pods iter.Seq[*corev1.Pod]) []string {
	out := podTexts(pods)
	slices.Sort(out)
	return out
}

// content returns the store's content as text.
func content(s *podStore) (texts []string) {
	s.View(func(snap podSnapshot) { texts = podTexts(snap.Sorted()) })
	return texts
}

func want[V any](t testing.TB, what string, got, want V) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// same fails unless both are the very same object.
func same[X any](t testing.TB, what string, got, want *X) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got another object, %p, want %p", what, got, want)
	}
}

func get(t testing.TB, s *podStore, key string) *corev1.Pod {
	t.Helper()
	p, ok := s.Get(object.RawKey(key))
	if !ok {
		t.Fatalf("no object %q", key)
	}
	return p
}

// wantPanic fails unless f panics with that text.
func wantPanic(t testing.TB, text string, f func()) {
	t.Helper()
	defer func() {
		t.Helper()
		if r := recover(); fmt.Sprint(r) != text {
			t.Errorf("panic: got %v, want %q", r, text)
		}
	}()
	f()
}

// collected runs the garbage collector until done, but not for ever. Cleanups run in a
// goroutine of the runtime's, so one collection need not be enough.
func collected(done func() bool) bool {
	for range 200 {
		runtime.GC()
		for range 100 {
			if done() {
				return true
			}
			runtime.Gosched()
		}
	}
	return false
}

// gate is an index whose function, once closed, holds the writer up in the middle of a
// transaction.
type gate struct {
	*store.Index[*corev1.Pod, string]
	closed  bool // of the writer
	entered chan struct{}
	open    chan struct{}
}

func newGate() *gate {
	g := &gate{entered: make(chan struct{}), open: make(chan struct{})}
	g.Index = store.NewIndex("gate", func(p *corev1.Pod) string {
		if g.closed {
			g.closed = false
			close(g.entered)
			<-g.open
		}
		return p.Name
	})
	return g
}

// during runs write, and check while write is in the middle of its transaction.
func (g *gate) during(write, check func()) {
	g.closed = true
	done := make(chan struct{})
	go func() {
		defer close(done)
		write()
	}()
	<-g.entered
	check()
	close(g.open)
	<-done
}
