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
	all := func(*object.Batch[meta], bool) error { return nil }
	for _, n := range []int{1, 20, 3000} {
		objs := metas(n)
		for name, round := range map[string]func(f *delta.FIFO[meta]){
			"Add and Pop": func(f *delta.FIFO[meta]) {
				for _, o := range objs {
					_ = f.Add(o)
				}
				for range objs {
					_ = f.Pop(ctx, one)
				}
			},
			"Add and PopBatch": func(f *delta.FIFO[meta]) {
				for _, o := range objs {
					_ = f.Add(o)
				}
				_ = f.PopBatch(ctx, all)
			},
			"Add, Delete and PopBatch": func(f *delta.FIFO[meta]) {
				for _, o := range objs {
					_ = f.Add(o)
					_ = f.Delete(o)
				}
				_ = f.PopBatch(ctx, all)
			},
			"Add, Held and Pop": func(f *delta.FIFO[meta]) {
				for _, o := range objs {
					_ = f.Add(o)
				}
				f.Held(object.RawKey("x"), "u", "1")
				for range objs {
					_ = f.Pop(ctx, one)
				}
			},
			"put back": func(f *delta.FIFO[meta]) {
				for _, o := range objs {
					_ = f.Add(o)
				}
				_ = f.PopBatch(ctx, func(*object.Batch[meta], bool) error { return delta.ErrRequeue })
				_ = f.PopBatch(ctx, all)
			},
		} {
			f := newMetas(t, delta.Options[meta]{Limit: 2 * n})
			for range 3 {
				round(f)
			}
			if got := testing.AllocsPerRun(20, func() { round(f) }); got > 0 {
				t.Errorf("%s, %d events: %v allocations", name, n, got)
			}
		}
	}
}

// Processed objects can be garbage-collected.
func TestProcessedObjectsAreReleased(t *testing.T) {
	ctx := context.Background()
	for _, mode := range modes {
		f := newFIFO(t, delta.Options[*thing]{})
		var refs []weak.Pointer[thing]
		for i := range 100 {
			o := at(string(rune('a'+i%26)), i+1)
			refs = append(refs, weak.Make(o))
			if i%20 == 10 {
				must(t, f.Replace(list(i, o)))
			} else {
				must(t, f.Add(o))
			}
			if mode.pop && i%2 == 0 {
				must(t, f.Pop(ctx, func(delta.Deltas[*thing], bool) error { return nil }))
			}
			if mode.batch && i%10 == 0 {
				must(t, f.PopBatch(ctx, func(*object.Batch[*thing], bool) error { return nil }))
			}
		}
		if mode.batch {
			must(t, f.PopBatch(ctx, func(*object.Batch[*thing], bool) error { return nil }))
		} else {
			popAll(t, f, nil)
		}
		runtime.GC()
		for i, ref := range refs {
			if o := ref.Value(); o != nil {
				t.Errorf("%s: object %d, %v, is kept alive", mode.name, i, o)
			}
		}
		runtime.KeepAlive(f)
	}
}
