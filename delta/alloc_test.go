package delta_test

import (
	"context"
	"runtime"
	"testing"
	"weak"

	"github.com/tarnproject/tarn/delta"
	"github.com/tarnproject/tarn/internal/soak"
	"github.com/tarnproject/tarn/object"
)

// No call allocates in the steady state.
func TestAllocations(t *testing.T) {
	soak.Measures(t)
	ctx := context.Background()
	one := func(delta.Deltas[meta], bool) error { return nil }
	all := func(*object.Batch[meta]) error { return nil }
	back := func(*object.Batch[meta]) error { return delta.ErrRequeue }
	for _, n := range []int{1, 20, 3000} {
		objs, events := metas(n), events(n)
		f := newMetas(t, delta.Options[meta]{})
		b, err := delta.NewBuffer[meta](delta.BufferOptions{Limit: 2 * n})
		must(t, err)
		applyAll := func() {
			for i := range events {
				_ = b.Apply(&events[i])
			}
		}
		for name, round := range map[string]func(){
			"Add and Pop": func() {
				for _, o := range objs {
					_ = f.Add(o)
				}
				for range objs {
					_ = f.Pop(ctx, one)
				}
			},
			"Add, Delete, Held and Pop": func() {
				for _, o := range objs {
					_ = f.Add(o)
					_ = f.Delete(o)
				}
				f.Held(object.RawKey("x"), "u", "1")
				for range objs {
					_ = f.Pop(ctx, one)
				}
			},
			"Apply and PopBatch": func() {
				applyAll()
				_ = b.PopBatch(ctx, all)
			},
			"put back": func() {
				applyAll()
				_ = b.PopBatch(ctx, back)
				_ = b.PopBatch(ctx, all)
			},
		} {
			for range 3 {
				round()
			}
			if got := testing.AllocsPerRun(20, round); got > 0 {
				t.Errorf("%s, %d events: %v allocations", name, n, got)
			}
		}
	}
}

// The memory of a burst is freed.
func TestTheMemoryOfABurstIsFreed(t *testing.T) {
	soak.Measures(t)
	ctx := context.Background()
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	const burst = 200_000
	objs, events := metas(burst), events(burst)
	f := newMetas(t, delta.Options[meta]{})
	b, err := delta.NewBuffer[meta](delta.BufferOptions{})
	must(t, err)
	before := heap()
	for i := range burst {
		must(t, f.Add(objs[i]), b.Apply(&events[i]))
	}
	for range burst {
		must(t, f.Pop(ctx, func(delta.Deltas[meta], bool) error { return nil }))
	}
	for range 3 { // the burst, and two small batches
		must(t, b.PopBatch(ctx, func(*object.Batch[meta]) error { return nil }), b.Apply(&events[0]))
	}
	if grown := int64(heap()) - int64(before); grown > 4<<20 {
		t.Errorf("%d bytes are kept", grown)
	}
	runtime.KeepAlive(f)
	runtime.KeepAlive(b)
	runtime.KeepAlive(objs)
	runtime.KeepAlive(events)
}

// Processed objects can be garbage-collected.
func TestProcessedObjectsAreReleased(t *testing.T) {
	ctx := context.Background()
	f, b := newFIFO(t, delta.Options[*thing]{}), newBuffer(t, delta.BufferOptions{})
	var refs []weak.Pointer[thing]
	for i := range 100 {
		o := at(string(rune('a'+i%26)), i+1)
		refs = append(refs, weak.Make(o))
		if i%20 == 10 {
			must(t, f.Replace(list(i, o)), b.Apply(whole(list(i, o))))
		} else {
			must(t, f.Add(o), b.Apply(event(object.Added, o)))
		}
		if i%2 == 0 {
			must(t, f.Pop(ctx, func(delta.Deltas[*thing], bool) error { return nil }))
		}
		if i%10 == 0 {
			take(t, b)
		}
	}
	take(t, b)
	popAll(t, f, nil)
	runtime.GC()
	for i, ref := range refs {
		if o := ref.Value(); o != nil {
			t.Errorf("object %d, %v, is kept alive", i, o)
		}
	}
	runtime.KeepAlive(f)
	runtime.KeepAlive(b)
}
