package store_test

import (
	"fmt"
	"runtime"
	"strconv"
	"testing"

	"github.com/tarnproject/tarn/delta"
	"github.com/tarnproject/tarn/internal/soak"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/store"
	corev1 "k8s.io/api/core/v1"
)

// scopes is a buffer and a store of many namespaces, each with a mark of its own.
type scopes struct {
	buffer  *delta.Buffer[*corev1.Pod]
	store   *store.Store[*corev1.Pod]
	n       int
	version int
}

func newScopes(t testing.TB, n int) *scopes {
	s := &scopes{store: newPodStore(t), n: n, version: n}
	var err error
	s.buffer, err = delta.NewBuffer[*corev1.Pod](delta.BufferOptions{Held: s.store.Held})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		s.add(t, fmt.Sprintf("n%d", i), i+1)
	}
	s.flush(t)
	return s
}

func (s *scopes) add(t testing.TB, namespace string, version int) {
	update := event(object.Updated, pod(namespace+"/x", version))
	mark := object.Mark{Scope: object.Scope(namespace), Version: update.Version}
	if err := s.buffer.Apply(&podBatch{Changes: []podDelta{update}, Marks: []object.Mark{mark}}); err != nil {
		t.Fatal(err)
	}
}

func (s *scopes) flush(t testing.TB) {
	err := s.buffer.PopBatch(t.Context(), func(b *podBatch) error {
		_, err := s.store.Apply(b, nil)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// events applies n events, each a batch.
func (s *scopes) events(t testing.TB, n int) {
	for i := range n {
		s.version++
		s.add(t, "n"+strconv.Itoa(i%s.n), s.version)
		s.flush(t)
	}
}

// An event costs the same however many namespaces are covered.
func TestAnEventCostsTheSameHoweverManyScopesThereAre(t *testing.T) {
	soak.Measures(t)
	bytes := func(n int) uint64 {
		const events = 2000
		s := newScopes(t, n)
		s.events(t, events)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		s.events(t, events)
		runtime.ReadMemStats(&after)
		return (after.TotalAlloc - before.TotalAlloc) / events
	}
	few, many := bytes(2), bytes(5000)
	if many > 2*few+1024 {
		t.Errorf("an event allocates %d bytes with 2 scopes and %d with 5,000", few, many)
	}
}

// What is known of a namespace that left is dropped, and pinned snapshots still know it.
func TestMarksOfScopesThatLeftAreDropped(t *testing.T) {
	s := newScopes(t, 3)
	before := s.store.Snapshot()
	defer before.Release()
	for i := range 3 {
		left := &object.List[*corev1.Pod]{Mark: object.Mark{Scope: object.Scope(fmt.Sprintf("n%d", i))}}
		if err := s.buffer.Apply(&podBatch{Changes: []podDelta{{Kind: object.Replaced, List: left}}}); err != nil {
			t.Fatal(err)
		}
		s.flush(t)
		want(t, "marks", len(s.store.Stats().Marks), 2-i)
		want(t, "mark before", before.Mark(object.Scope(fmt.Sprintf("n%d", i))).Version, object.Version(strconv.Itoa(i+1)))
	}
}

func BenchmarkEventOfOneOfManyScopes(b *testing.B) {
	for _, n := range []int{1, 100, 5000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			s := newScopes(b, n)
			b.ReportAllocs()
			b.ResetTimer()
			s.events(b, b.N)
		})
	}
}
