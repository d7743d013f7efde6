package delta_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarnproject/tarn/delta"
	"github.com/tarnproject/tarn/object"
)

// Several producers, two consumers, requeues, panics and a Close at a random
// time: every accepted change is processed once, in order for each key.
func TestConcurrent(t *testing.T) {
	const producers, keys, events = 4, 8, 500
	type queue struct {
		update func(*thing) error
		pop    func(process func([]object.Change[*thing]) error) error
		close  func()
		left   func() int
	}
	ctx := context.Background()
	fifo := func(known *cache) queue {
		f := newFIFO(t, delta.Options[*thing]{Known: known})
		return queue{f.Update, func(process func([]object.Change[*thing]) error) error {
			f.Held(object.RawKey("p0/k0"), "u", "1")
			return f.Pop(ctx, func(d delta.Deltas[*thing], _ bool) error { return process(d) })
		}, f.Close, f.Len}
	}
	buffer := func(limit int) func(*cache) queue {
		return func(known *cache) queue {
			b := newBuffer(t, delta.BufferOptions{Held: known.Held, Limit: limit})
			return queue{func(o *thing) error { return b.Apply(event(object.Updated, o)) }, func(process func([]object.Change[*thing]) error) error {
				b.Held(object.RawKey("p0/k0"), "u", "1")
				return b.PopBatch(ctx, func(b *object.Batch[*thing]) error { return process(b.Changes) })
			}, b.Close, func() int { s := b.Stats(); return s.Deltas + s.InFlight + s.Blocked }}
		}
	}
	for name, of := range map[string]func(*cache) queue{
		"FIFO": fifo, "Buffer": buffer(0), "Buffer, limit 1": buffer(1), "Buffer, limit 64": buffer(64),
	} {
		for _, closeAt := range []int64{producers * events, 300} {
			t.Run(fmt.Sprintf("%s, closeAt=%d", name, closeAt), func(t *testing.T) {
				held := newCache()
				q := of(held)
				var accepted [producers][keys]int // the last version accepted
				var total atomic.Int64
				var producing, consuming sync.WaitGroup
				for p := range producers {
					producing.Go(func() {
						for v := 1; v <= events; v++ {
							k := v % keys
							err := q.update(at(fmt.Sprintf("p%d/k%d", p, k), v))
							if errors.Is(err, delta.ErrClosed) {
								return
							}
							if err != nil {
								t.Error(err)
							}
							accepted[p][k] = v
							if total.Add(1) == closeAt {
								q.close()
							}
						}
					})
				}
				var busy atomic.Int32
				for c := range 2 {
					consuming.Go(func() {
						r := rand.New(rand.NewPCG(uint64(c), 0))
						for {
							err := consumeOne(q.pop, held, r, &busy)
							if errors.Is(err, delta.ErrClosed) {
								return
							}
							if err != nil && !errors.Is(err, delta.ErrRequeue) {
								t.Error(err)
								return
							}
						}
					})
				}
				producing.Wait()
				q.close()
				consuming.Wait()
				for p := range producers {
					for k, v := range accepted[p] {
						if v == 0 {
							continue
						}
						o, ok := held.Get(object.RawKey(fmt.Sprintf("p%d/k%d", p, k)))
						if !ok || o.version != object.Version(fmt.Sprint(v)) {
							t.Errorf("producer %d key %d ends at %v, want version %d", p, k, o, v)
						}
					}
				}
				want(t, "left", q.left(), 0)
			})
		}
	}
}

func consumeOne(pop func(func([]object.Change[*thing]) error) error, held *cache, r *rand.Rand, busy *atomic.Int32) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = r.(error)
		}
	}()
	return pop(func(deltas []object.Change[*thing]) error {
		if busy.Add(1) != 1 {
			return errors.New("two process functions at a time")
		}
		defer busy.Add(-1)
		switch r.IntN(20) {
		case 0:
			return delta.ErrRequeue
		case 1:
			panic(delta.ErrRequeue)
		}
		for _, d := range deltas {
			old, ok := held.Get(d.Key)
			if ok && !d.Value.Object.version.After(old.version) {
				return fmt.Errorf("%v after %v", d.Value.Object, old)
			}
			held.apply([]object.Change[*thing]{d})
		}
		return nil
	})
}

// Lists, deletions and resyncs while a consumer works, for the race detector. At the end the
// consumer holds the expected state.
func TestConcurrentLists(t *testing.T) {
	for _, batches := range []bool{false, true} {
		t.Run(fmt.Sprintf("batches=%v", batches), func(t *testing.T) {
			held := newCache()
			f, b := newFIFO(t, delta.Options[*thing]{Known: held}), newBuffer(t, delta.BufferOptions{Held: held.Held, Limit: 16})
			var sink object.Sink[*thing] = f
			if batches {
				sink = b
			}
			scopes := []object.Scope{"a", "b", "c"}
			expected := make([]map[object.Key]*thing, len(scopes))
			var producing, consuming sync.WaitGroup
			for i, scope := range scopes {
				expected[i] = map[object.Key]*thing{}
				producing.Go(func() {
					r := rand.New(rand.NewPCG(uint64(i), 0))
					for v := 1; v < 700; v++ {
						o := at(fmt.Sprintf("%s/%d", scope, r.IntN(10)), v)
						var err error
						switch r.IntN(8) {
						case 0:
							l := object.List[*thing]{Mark: object.Mark{Scope: scope, Version: o.version}}
							for k, old := range expected[i] {
								item, _ := object.ItemOf(things, old)
								if r.IntN(4) == 0 {
									delete(expected[i], k)
									continue
								}
								if sink.Held(k, old.uid, old.version) {
									item.Object, item.Held = nil, true
								} else {
									t.Errorf("%v is not held", old)
								}
								l.Items = append(l.Items, item)
							}
							err = sink.Apply(whole(l))
						case 1, 2:
							delete(expected[i], o.key)
							err = sink.Apply(event(object.Deleted, o))
						case 3:
							err = errors.Join(f.Resync(), sink.Apply(bookmark(scope, v)))
						default:
							expected[i][o.key] = o
							err = sink.Apply(event(object.Updated, o))
						}
						if err != nil {
							t.Error(err)
						}
					}
				})
			}
			consuming.Go(func() {
				for {
					err := f.Pop(context.Background(), func(d delta.Deltas[*thing], _ bool) error {
						if !batches { // else these are resyncs
							held.apply(d)
						}
						return nil
					})
					if errors.Is(err, delta.ErrClosed) {
						return
					}
				}
			})
			marks := map[object.Scope]object.Mark{}
			consuming.Go(func() {
				for {
					err := b.PopBatch(context.Background(), func(b *object.Batch[*thing]) error {
						for _, m := range b.Marks {
							if marks[m.Scope].Version.After(m.Version) {
								t.Errorf("mark %v after %v", m, marks[m.Scope])
							}
							marks[m.Scope] = m
						}
						held.apply(b.Changes)
						return nil
					})
					if errors.Is(err, delta.ErrClosed) {
						return
					}
				}
			})
			producing.Wait()
			f.Close()
			b.Close()
			consuming.Wait()
			all := map[object.Key]*thing{}
			for _, m := range expected {
				for k, o := range m {
					all[k] = o
				}
			}
			want(t, "held", stateOf(held.m), stateOf(all))
		})
	}
}

func TestLimitBlocksProducers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBuffer(t, delta.BufferOptions{Limit: 2})
		apply(t, b, event(object.Added, at("a", 1)), event(object.Added, at("b", 2)))
		var done atomic.Int32
		for _, batch := range []*object.Batch[*thing]{
			event(object.Added, at("c", 3)),
			whole(list(9, at("a", 1), at("d", 4), at("e", 5), at("f", 6))), // admitted as a whole
		} {
			go func() { apply(t, b, batch); done.Add(1) }()
		}
		synctest.Wait()
		want(t, "went through", done.Load(), int32(0))
		want(t, "blocked", b.Stats().Blocked, 2)

		// A batch that goes back does not wait for the limit, and blocks producers again.
		_ = b.PopBatch(t.Context(), func(*object.Batch[*thing]) error {
			synctest.Wait()
			want(t, "went through", done.Load(), int32(2))
			return delta.ErrRequeue
		})
		go func() { apply(t, b, bookmark("", 9)); done.Add(1) }()
		synctest.Wait()
		want(t, "blocked", b.Stats().Blocked, 1)
		take(t, b)
		synctest.Wait()
		want(t, "went through", done.Load(), int32(3))
		want(t, "blocked", b.Stats().Blocked, 0)
	})
}

func TestLimitCloseFreesProducers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBuffer(t, delta.BufferOptions{Limit: 1})
		apply(t, b, event(object.Added, at("b", 1)))
		errs := make(chan error)
		for i := range 3 {
			go func() { errs <- b.Apply(event(object.Updated, at("b", i))) }()
		}
		synctest.Wait()
		want(t, "blocked", b.Stats().Blocked, 3)
		b.Close()
		for range 3 {
			if err := <-errs; !errors.Is(err, delta.ErrClosed) {
				t.Errorf("got %v, want ErrClosed", err)
			}
		}
	})
}

func TestConsumersTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFIFO(t, delta.Options[*thing]{})
		must(t, f.Add(at("a", 1)), f.Add(at("b", 2)))
		start := time.Now()
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() { popPatiently(t, f, func() { <-time.After(time.Hour) }) })
		}
		synctest.Wait()
		// The context of a third consumer ends while it waits for its turn.
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if err := f.Pop(ctx, nil); !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
		})
		wg.Wait()
		want(t, "took", time.Since(start), 2*time.Hour)
	})
}

// The FIFO is closed and empty, but a batch in flight is requeued: a second consumer waits
// for it.
func TestCloseWaitsForBatchesInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFIFO(t, delta.Options[*thing]{})
		must(t, f.Add(at("a", 1)))
		f.Close()
		go func() {
			_ = f.Pop(t.Context(), func(delta.Deltas[*thing], bool) error {
				<-time.After(time.Hour)
				return delta.ErrRequeue
			})
		}()
		synctest.Wait()
		want(t, "popped", popPatiently(t, f, func() {}), []string{"Added a@1"})
	})
}

// popPatiently calls pop with a context that does not end.
func popPatiently(t *testing.T, f *delta.FIFO[*thing], meanwhile func()) (out []string) {
	must(t, f.Pop(t.Context(), func(d delta.Deltas[*thing], _ bool) error {
		out = text(d)
		meanwhile()
		return nil
	}))
	return out
}
