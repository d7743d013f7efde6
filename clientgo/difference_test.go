package clientgo_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/tarnproject/tarn/clientgo"
)

// The tests here hold docs/clientgo-differences.md, by its ids: what client-go does, and
// what is done here.

func TestD01_AWatchThatBreaksIsResumedWithoutAList(t *testing.T) {
	for name, make := range map[string]newInformer{"client-go": cache.NewSharedIndexInformerWithOptions, "ours": clientgo.NewSharedIndexInformerWithOptions} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(false)
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
			if got := h.take(); w.lists != lists || len(got) != lines {
				t.Errorf("%s: %d lists, told %q", name, w.lists, got)
			}
		})
	}
}

func TestD18_NoDeletionIsLostWhereAWatchEndsBetweenTwoOfOneVersion(t *testing.T) {
	for name, make := range map[string]newInformer{"client-go": cache.NewSharedIndexInformerWithOptions, "ours": clientgo.NewSharedIndexInformerWithOptions} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(false)
			for _, pod := range []string{"a1", "a2", "a3"} {
				w.put(pod, false)
			}
			inf := make(w, &corev1.Pod{}, cache.SharedIndexInformerOptions{})
			h := listen(t, inf)
			start(t, inf)
			h.take()
			<-time.After(time.Minute)
			w.expire(1, "a1", "a2", "a3") // 14
			w.cut()
			<-time.After(time.Minute)
			synctest.Wait()
			gone, version := len(h.take()), inf.LastSyncResourceVersion()
			want := map[string]int{"client-go": 1, "ours": 3}[name]
			if left := len(inf.GetStore().ListKeys()); gone != want || left != 3-want || version != "14" || w.lists != 1 {
				t.Errorf("%s: %d deletions told, %d pods left at %s after %d lists", name, gone, left, version, w.lists)
			}
		})
	}
}

// The reflector of a store that is told of everything tells it once.
func TestD18_AReflectorTellsOfNoDeletionTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(false)
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
		w.expire(2, "a1", "a2", "a3") // 14
		for range 3 {
			w.cut()
			<-time.After(time.Minute)
			synctest.Wait()
			if v := r.LastSyncResourceVersion(); v != "14" || w.lists != 1 {
				t.Errorf("at %s after %d lists", v, w.lists)
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

// deletions is a store that notes what it is told to delete.
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
			w := newWorld(true)
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
