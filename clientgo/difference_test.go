package clientgo_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"

	"github.com/tarnproject/tarn/clientgo"
)

// The tests here hold docs/clientgo-differences.md, by its ids: what client-go does, and
// what is done here.

func TestD01_AWatchThatBreaksIsResumedWithoutAList(t *testing.T) {
	for name, make := range map[string]newInformer{"client-go": cache.NewSharedIndexInformerWithOptions, "ours": clientgo.NewSharedIndexInformerWithOptions} {
		synctest.Test(t, func(t *testing.T) {
			w := newPodServer(false)
			w.put("a1", false)
			inf := make(w, &corev1.Pod{}, cache.SharedIndexInformerOptions{})
			h := listen(t, inf)
			start(t, inf)
			h.take()
			w.cut() // at once: a very short watch
			<-time.After(time.Minute)
			w.put("a1", false)
			synctest.Wait()
			lists, lines := 1, 1
			if name == "client-go" {
				lists, lines = 2, 2
			}
			if got := h.take(); w.lists() != lists || len(got) != lines {
				t.Errorf("%s: %d lists, received %q", name, w.lists(), got)
			}
		})
	}
}

func TestD22_NoDeletionIsLostWhereAWatchEndsBetweenTwoOfOneVersion(t *testing.T) {
	for name, make := range map[string]newInformer{"client-go": cache.NewSharedIndexInformerWithOptions, "ours": clientgo.NewSharedIndexInformerWithOptions} {
		synctest.Test(t, func(t *testing.T) {
			w := newPodServer(false)
			for _, pod := range []string{"a1", "a2", "a3"} {
				w.put(pod, false)
			}
			inf := make(w, &corev1.Pod{}, cache.SharedIndexInformerOptions{})
			h := listen(t, inf)
			start(t, inf)
			h.take()
			<-time.After(time.Minute)
			w.DeleteTogether(1, "ns1/a1", "ns2/a2", "ns3/a3") // 14
			w.cut()
			<-time.After(time.Minute)
			synctest.Wait()
			gone, version := len(h.take()), inf.LastSyncResourceVersion()
			want := map[string]int{"client-go": 1, "ours": 3}[name]
			if left := len(inf.GetStore().ListKeys()); gone != want || left != 3-want || version != "14" || w.lists() != 1 {
				t.Errorf("%s: %d deletions reported, %d pods left at %s after %d lists", name, gone, left, version, w.lists())
			}
		})
	}
}

// podServer ignores timeouts, so its watches end only when the test cuts them.
func TestD29_AWatchThatOutlastsItsTimeoutIsReplaced(t *testing.T) {
	withoutErrorHandlers(t)
	for name, make := range map[string]newInformer{"client-go": cache.NewSharedIndexInformerWithOptions, "ours": clientgo.NewSharedIndexInformerWithOptions} {
		synctest.Test(t, func(t *testing.T) {
			w := newPodServer(false)
			inf := make(w, &corev1.Pod{}, cache.SharedIndexInformerOptions{})
			h := listen(t, inf)
			start(t, inf)
			<-time.After(5*time.Minute + 29*time.Second)
			if n := w.Counts().Watches; n != 1 {
				t.Errorf("%s: %d watches before any timeout has passed", name, n)
			}
			<-time.After(5*time.Minute + 5*time.Second) // the longest timeout, 30 s, and a back-off
			w.put("a1", false)
			synctest.Wait()
			want := map[string]int{"client-go": 1, "ours": 2}[name]
			if counts, calls := w.Counts(), h.take(); counts.Watches != want || counts.Lists != 1 || len(calls) != 1 {
				t.Errorf("%s: %d watches, %d lists, received %q", name, counts.Watches, counts.Lists, calls)
			}
		})
	}
}

// A reflector writes each deletion once to a store that accepts every write.
func TestD22_AReflectorTellsOfNoDeletionTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newPodServer(false)
		for _, pod := range []string{"a1", "a2", "a3"} {
			w.put(pod, false)
		}
		store := &deletions{Store: clientgo.NewStore(cache.MetaNamespaceKeyFunc)}
		r := clientgo.NewReflector(w, &corev1.Pod{}, store, 0)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			r.RunWithContext(ctx)
		}()
		<-time.After(time.Minute)
		w.DeleteTogether(2, "ns1/a1", "ns2/a2", "ns3/a3") // 14
		for range 3 {
			w.cut()
			<-time.After(time.Minute)
			synctest.Wait()
			if v := r.LastSyncResourceVersion(); v != "14" || w.lists() != 1 {
				t.Errorf("at %s after %d lists", v, w.lists())
			}
		}
		cancel()
		<-done
		slices.Sort(store.keys)
		if want := []string{"a1", "a2", "a3"}; !slices.Equal(store.keys, want) {
			t.Errorf("deleted %q, want %q", store.keys, want)
		}
	})
}

// deletions is a store that records its deletions.
type deletions struct {
	cache.Store
	keys []string
}

func (d *deletions) Delete(obj any) error {
	d.keys = append(d.keys, obj.(*corev1.Pod).Name)
	return d.Store.Delete(obj)
}

func TestD04_ATransformSeesAnObjectOnce(t *testing.T) {
	for name, make := range map[string]newInformer{"client-go": cache.NewSharedIndexInformerWithOptions, "ours": clientgo.NewSharedIndexInformerWithOptions} {
		synctest.Test(t, func(t *testing.T) {
			w := newPodServer(true)
			w.put("a1", false)
			inf := make(w, &corev1.Pod{}, cache.SharedIndexInformerOptions{})
			calls := 0
			err := inf.SetTransform(func(obj any) (any, error) {
				calls++
				return obj, nil
			})
			if err != nil {
				t.Fatal(err)
			}
			start(t, inf)
			if want := map[string]int{"client-go": 2, "ours": 1}[name]; calls != want {
				t.Errorf("%s: %d calls, want %d", name, calls, want)
			}
		})
	}
}

// D08: what a program calls and sets is there all the same.
func TestD08_TheStructsHaveTheSameMethodsAndFields(t *testing.T) {
	for _, pair := range [][2]reflect.Type{
		{reflect.TypeFor[*cache.DeltaFIFO](), reflect.TypeFor[*clientgo.DeltaFIFO]()},
		{reflect.TypeFor[*cache.Reflector](), reflect.TypeFor[*clientgo.Reflector]()},
	} {
		theirs, ours := pair[0], pair[1]
		if theirs == ours {
			t.Errorf("%v is no other type", theirs)
		}
		signature := func(m reflect.Method) string {
			text := ""
			for i := 1; i < m.Type.NumIn(); i++ {
				text += m.Type.In(i).String() + " "
			}
			for out := range m.Type.Outs() {
				text += "returns " + out.String()
			}
			return text
		}
		for want := range theirs.Methods() {
			got, ok := ours.MethodByName(want.Name)
			if !ok || signature(got) != signature(want) {
				t.Errorf("%v has no method %s(%s)", ours, want.Name, signature(want))
			}
		}
		for want := range theirs.Elem().Fields() {
			got, ok := ours.Elem().FieldByName(want.Name)
			if want.IsExported() && (!ok || got.Type != want.Type) {
				t.Errorf("%v has no field %s %v", ours, want.Name, want.Type)
			}
		}
	}
}

func TestD09_AClosedFIFOTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fifo := clientgo.NewDeltaFIFO(cache.MetaNamespaceKeyFunc, nil)
		popped := make(chan error)
		go func() {
			_, err := fifo.Pop(func(any, bool) error { return nil })
			popped <- err
		}()
		synctest.Wait()
		fifo.Close()
		if err := <-popped; err != cache.ErrFIFOClosed {
			t.Errorf("Pop: %v", err)
		}
		for _, err := range []error{fifo.Add(aPod("a", "")), fifo.Delete(aPod("a", "")), fifo.Replace(nil, ""), fifo.Resync()} {
			if err != nil && err != cache.ErrFIFOClosed {
				t.Errorf("after Close: %v", err)
			}
		}
		if err := fifo.Add(aPod("a", "")); err != cache.ErrFIFOClosed || !fifo.IsClosed() {
			t.Errorf("Add: %v", err)
		}
	})
}

func TestD10_WhatAFIFORefusesChangesNothing(t *testing.T) {
	no := errors.New("no")
	fifo := clientgo.NewDeltaFIFOWithOptions(cache.DeltaFIFOOptions{Name: "mine", Transformer: func(obj any) (any, error) {
		if obj.(*corev1.Pod).Name == "bad" {
			return nil, no
		}
		return obj, nil
	}})
	if err := fifo.Replace([]any{aPod("a", ""), aPod("bad", "")}, "1"); !errors.Is(err, no) {
		t.Errorf("Replace: %v", err)
	}
	if err := fifo.Add(5); err == nil || fifo.HasSynced() || fifo.HasSyncedChecker().Name() != "mine" || fifo.Transformer() == nil {
		t.Errorf("Add: %v, synced %v", err, fifo.HasSynced())
	}
	if err := fifo.Add(aPod("c", "")); err != nil {
		t.Fatal(err)
	}
	if key, err := pop(fifo); key != "shop/c" || err != nil {
		t.Errorf("the first is %q, %v", key, err)
	}
}

func pop(fifo *clientgo.DeltaFIFO) (key string, err error) {
	obj, err := fifo.Pop(func(any, bool) error { return nil })
	if err != nil {
		return "", err
	}
	return fifo.KeyOf(obj)
}

func TestD11_AProcessFunctionMayUseTheFIFO(t *testing.T) {
	fifo := clientgo.NewDeltaFIFO(cache.MetaNamespaceKeyFunc, nil)
	if err := fifo.Add(aPod("a", "")); err != nil {
		t.Fatal(err)
	}
	_, err := fifo.Pop(func(any, bool) error { return fifo.Add(aPod("b", "")) })
	if key, err2 := pop(fifo); err != nil || err2 != nil || key != "shop/b" {
		t.Errorf("then %q, %v, %v", key, err, err2)
	}
	if _, err := fifo.KeyOf(cache.Deltas{}); !errors.Is(err, cache.ErrZeroLengthDeltasObject) {
		t.Errorf("no deltas: %v", err)
	}
	if key, err := fifo.KeyOf(cache.DeletedFinalStateUnknown{Key: "x/y"}); key != "x/y" || err != nil {
		t.Errorf("a tombstone: %q, %v", key, err)
	}
}

func TestD13_IndicesThatAreGivenAreNotUsed(t *testing.T) {
	indices := func() cache.Indices { return cache.Indices{"first": {"g": sets.New("ghost")}} }
	first := cache.Indexers{"first": func(obj any) ([]string, error) { return []string{obj.(string)[:1]}, nil }}
	given, ignored := indices(), indices()
	theirs, ours := cache.NewThreadSafeStore(first, given), clientgo.NewThreadSafeStore(first, ignored)
	for _, s := range []cache.ThreadSafeStore{theirs, ours} {
		s.Add("key", "hello")
	}
	keys := func(s cache.ThreadSafeStore, value string) string {
		keys, err := s.IndexKeys("first", value)
		return fmt.Sprint(keys, err)
	}
	if a, b := keys(theirs, "g"), keys(ours, "g"); a != "[ghost] <nil>" || b != "[] <nil>" {
		t.Errorf("what they were given: client-go %s, ours %s", a, b)
	}
	if a, b := keys(theirs, "h"), keys(ours, "h"); a != "[key] <nil>" || a != b {
		t.Errorf("received: client-go %s, ours %s", a, b)
	}
	if !given["first"]["h"].Has("key") || !reflect.DeepEqual(ignored, indices()) {
		t.Errorf("the indices became %v and %v", given, ignored)
	}
}

// series is a gauge that keeps what it was set to.
type series struct{ values []float64 }

func (s *series) Set(v float64)     { s.values = append(s.values, v) }
func (s *series) Observe(v float64) {}

type seriesProvider struct {
	provider
	queued series
}

func (p *seriesProvider) NewQueuedItemMetric(cache.InformerNameAndResource) cache.GaugeMetric {
	return &p.queued
}

func TestD19_TheLengthOfAQueueIsThatOfABatch(t *testing.T) {
	for name, make := range map[string]newInformer{"client-go": cache.NewSharedIndexInformerWithOptions, "ours": clientgo.NewSharedIndexInformerWithOptions} {
		synctest.Test(t, func(t *testing.T) {
			id, err := cache.NewInformerName("d19-" + name)
			if err != nil {
				t.Fatal(err)
			}
			defer id.Release()
			p, w := &seriesProvider{}, newPodServer(false)
			inf := make(w, &corev1.Pod{}, cache.SharedIndexInformerOptions{
				Identifier: id.WithResource(corev1.SchemeGroupVersion.WithResource("pods")), InformerMetricsProvider: p,
			})
			stop := start(t, inf)
			w.locked(func() {
				for i := range 5 {
					w.put(fmt.Sprintf("a%d", i), false)
				}
			})
			synctest.Wait()
			stop()
			// The list is one change. An implementation that counts single changes sets the
			// gauge for each; one that counts batches sets it to numbers that add up to all.
			set, sum := 0, 0.0
			for _, v := range p.queued.values {
				if v > 0 {
					set++
				}
				sum += v
			}
			if name == "ours" && (sum != 6 || len(p.queued.values) != 2*set) || name == "client-go" && set != 6 {
				t.Errorf("%s: the gauge was set to %v", name, p.queued.values)
			}
		})
	}
}
