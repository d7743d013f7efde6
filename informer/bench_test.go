package informer_test

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/internal/sim/simtest"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/store"
)

// faucet is a source of updates that are made beforehand: keys pods, updated in turn,
// as many as are asked for at the gate.
type faucet struct {
	pods    []*corev1.Pod
	gate    chan []object.Event[*corev1.Pod] // nothing at all ends a watch as expired
	version atomic.Int64                     // of the next list
}

func newFaucet(keys int) *faucet {
	f := &faucet{gate: make(chan []object.Event[*corev1.Pod])}
	for i := range keys {
		f.pods = append(f.pods, benchPod(i, i+1))
	}
	f.version.Store(int64(keys))
	return f
}

func benchPod(i, version int) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: fmt.Sprint("ns-", i%10), Name: fmt.Sprint("pod-", i), UID: object.UID(strconv.Itoa(i)),
			ResourceVersion: strconv.Itoa(version), Labels: map[string]string{"app": fmt.Sprint("app-", i%50)},
		},
		Spec: corev1.PodSpec{NodeName: fmt.Sprint("node-", i%100)},
	}
}

func (f *faucet) List(_ context.Context, _ object.ListOptions, in *object.Intake[*corev1.Pod], sink func(podItem) error) (object.Page, error) {
	for _, pod := range f.pods {
		item := simtest.ItemOf(pod)
		if in.Holds(item.Key, item.UID, item.Version) {
			item.Object, item.Held = nil, true
		}
		if err := sink(item); err != nil {
			return object.Page{}, err
		}
	}
	return object.Page{Version: object.Version(strconv.FormatInt(f.version.Load(), 10))}, nil
}

func (f *faucet) Watch(ctx context.Context, _ object.WatchOptions, _ *object.Intake[*corev1.Pod]) (object.Stream[*corev1.Pod], error) {
	return &tap{f, ctx}, nil
}

type tap struct {
	*faucet
	ctx context.Context
}

func (s *tap) Next() ([]object.Event[*corev1.Pod], error) {
	select {
	case events := <-s.gate:
		if events == nil {
			return nil, apierrors.NewResourceExpired("too old")
		}
		return events, nil
	case <-s.ctx.Done():
		return nil, io.EOF
	}
}

func (s *tap) Close() error { return nil }

// updates makes n events, in portions of a size.
func (f *faucet) updates(from, n, size int) [][]object.Event[*corev1.Pod] {
	var out [][]object.Event[*corev1.Pod]
	for i := 0; i < n; i += size {
		var events []object.Event[*corev1.Pod]
		for j := i; j < min(n, i+size); j++ {
			pod := *f.pods[j%len(f.pods)]
			pod.ResourceVersion = strconv.Itoa(from + j)
			events = append(events, object.Event[*corev1.Pod]{Kind: object.Updated, Item: simtest.ItemOf(&pod)})
		}
		out = append(out, events)
	}
	return out
}

func threeIndexes() []store.AnyIndex[*corev1.Pod] {
	return []store.AnyIndex[*corev1.Pod]{
		store.NewIndex("namespace", func(p *corev1.Pod) string { return p.Namespace }),
		store.NewIndex("node", func(p *corev1.Pod) string { return p.Spec.NodeName }),
		store.NewLabelIndex(podMeta.Labels),
	}
}

// BenchmarkUpdate is what one update of a decoded object costs, from the stream to the
// last handler: three indexes, and a server that sends as fast as it can, some events to
// a read.
func BenchmarkUpdate(b *testing.B) {
	for _, handlers := range []int{0, 1, 10} {
		for _, portion := range []int{1, 32} {
			b.Run(fmt.Sprintf("handlers=%d/portion=%d", handlers, portion), func(b *testing.B) {
				benchUpdates(b, handlers, portion)
			})
		}
	}
}

func benchUpdates(b *testing.B, handlers, portion int) {
	const keys = 10_000
	f := newFaucet(keys)
	inf := newInformer(b, f, podOptions{Indexes: threeIndexes()})
	var handled atomic.Int64
	done := make(chan struct{})
	total := int64(handlers) * int64(b.N)
	for range handlers {
		// One that counts its own, so that the count is not what is measured.
		n := 0
		h := podHandler{OnUpdate: func(_, _ *corev1.Pod) {
			if n++; n == b.N && handled.Add(int64(n)) == total {
				close(done)
			}
		}}
		subscribe(b, inf, h, podSub{})
	}
	start(b, inf)
	if err := inf.WaitSynced(b.Context()); err != nil {
		b.Fatal(err)
	}
	events := f.updates(keys+1, b.N, portion)
	last := object.Version(strconv.Itoa(keys + b.N))
	runtime.GC()
	b.ReportAllocs()
	b.ResetTimer()
	report, first := cpu(b), inf.Status().Store.Revision
	for _, e := range events {
		f.gate <- e
	}
	if err := inf.WaitFor(b.Context(), last); err != nil {
		b.Fatal(err)
	}
	if handlers > 0 {
		<-done
	}
	report()
	b.StopTimer()
	st, falls := inf.Status(), uint64(0)
	for _, s := range st.Subscribers {
		falls += s.CaughtUp
	}
	b.ReportMetric(float64(b.N)/float64(st.Store.Revision-first), "events/batch")
	b.ReportMetric(float64(falls), "falls")
}

// BenchmarkQuietLatency is the time from an event on a stream that was quiet to the
// handler.
func BenchmarkQuietLatency(b *testing.B) {
	f := newFaucet(1000)
	inf := newInformer(b, f, podOptions{Indexes: threeIndexes()})
	called := make(chan struct{})
	subscribe(b, inf, podHandler{OnUpdate: func(_, _ *corev1.Pod) { called <- struct{}{} }}, podSub{})
	start(b, inf)
	if err := inf.WaitSynced(b.Context()); err != nil {
		b.Fatal(err)
	}
	events := f.updates(1001, b.N, 1)
	b.ReportAllocs()
	b.ResetTimer()
	for _, e := range events {
		f.gate <- e
		<-called
	}
}

// BenchmarkBlockedHandler has a handler that is stuck while 100,000 updates of 8 KB hit
// 1,000 keys, and reports what the heap grows by.
func BenchmarkBlockedHandler(b *testing.B) {
	const keys, updates = 1000, 100_000
	for b.Loop() {
		f := newFaucet(keys)
		inf := newInformer(b, f, podOptions{Indexes: threeIndexes()})
		gate := make(chan struct{})
		subscribe(b, inf, podHandler{OnUpdate: func(_, _ *corev1.Pod) { <-gate }}, podSub{})
		stop := start(b, inf)
		if err := inf.WaitSynced(b.Context()); err != nil {
			b.Fatal(err)
		}
		before := heap()
		for i := 0; i < updates; i += 100 {
			events := f.updates(keys+1+i, 100, 100)[0]
			for j := range events {
				n := (i + j) % keys
				pod := *f.pods[n]
				pod.ResourceVersion = strconv.Itoa(keys + 1 + i + j)
				pod.Annotations = map[string]string{"blob": string(make([]byte, 8<<10))}
				events[j].Item = simtest.ItemOf(&pod)
			}
			f.gate <- events
		}
		if err := inf.WaitFor(b.Context(), object.Version(strconv.Itoa(keys+updates))); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(heap()-before)/1e6, "heap-MB")
		b.ReportMetric(float64(inf.Status().Store.Retained), "versions")
		close(gate)
		stop()
	}
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// BenchmarkRelist is a list of 10,000 objects of which none has changed.
func BenchmarkRelist(b *testing.B) {
	const keys = 10_000
	f := newFaucet(keys)
	inf := newInformer(b, f, podOptions{Indexes: threeIndexes()})
	var calls atomic.Int64
	count := func(_, _ *corev1.Pod) { calls.Add(1) }
	subscribe(b, inf, podHandler{OnUpdate: count}, podSub{})
	start(b, inf)
	if err := inf.WaitSynced(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		// An event before each, or the reflector would back off.
		next := f.version.Add(2)
		pod := *f.pods[0]
		pod.ResourceVersion = strconv.FormatInt(next-1, 10)
		f.pods[0] = &pod
		f.gate <- []object.Event[*corev1.Pod]{{Kind: object.Updated, Item: simtest.ItemOf(&pod)}}
		f.gate <- nil
		if err := inf.WaitFor(b.Context(), object.Version(strconv.FormatInt(next, 10))); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/keys, "ns/object")
	b.ReportMetric(float64(calls.Load())/float64(b.N)-1, "calls/relist")
}
