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

// Several producers, two consumers, a limit, requeues, panics and a Close at a random
// time: every accepted change is processed once, in order for each key.
func TestConcurrent(t *testing.T) {
	const producers, keys, events = 4, 8, 500
	for _, limit := range []int{0, 1, 64} {
		for _, closeAt := range []int64{producers * events, 300} {
			t.Run(fmt.Sprintf("limit=%d,closeAt=%d", limit, closeAt), func(t *testing.T) {
				held := newCache()
				f := newFIFO(t, delta.Options[*thing]{Known: held, Limit: limit})
				var accepted [producers][keys]int // the last version accepted
				var total atomic.Int64
				var producing, consuming sync.WaitGroup
				for p := range producers {
					producing.Go(func() {
						for v := 1; v <= events; v++ {
							k := v % keys
							err := f.Update(at(fmt.Sprintf("p%d/k%d", p, k), v))
							if errors.Is(err, delta.ErrClosed) {
								return
							}
							if err != nil {
								t.Error(err)
							}
							accepted[p][k] = v
							f.Held(object.RawKey("p0/k0"), "u", "1")
							if total.Add(1) == closeAt {
								f.Close()
							}
						}
					})
				}
				var busy atomic.Int32
				for c := range 2 {
					consuming.Go(func() {
						r := rand.New(rand.NewPCG(uint64(c), 0))
						for {
							err := consumeOne(f, held, r, &busy, c == 0)
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
				f.Close()
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
				if s := f.Stats(); s.Deltas != 0 || s.InFlight != 0 || s.Blocked != 0 {
					t.Errorf("left: %+v", s)
				}
			})
		}
	}
}

func consumeOne(f *delta.FIFO[*thing], held *cache, r *rand.Rand, busy *atomic.Int32, batch bool) (err error) {
	process := func(deltas []object.Change[*thing]) error {
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
	}
	defer func() {
		if r := recover(); r != nil {
			err = r.(error)
		}
	}()
	if batch {
		return f.PopBatch(context.Background(), func(b *object.Batch[*thing], _ bool) error { return process(b.Changes) })
	}
	return f.Pop(context.Background(), func(d delta.Deltas[*thing], _ bool) error { return process(d) })
}

// Lists, deletions and resyncs while a consumer works, for the race detector. At the end the
// consumer holds the expected state.
func TestConcurrentLists(t *testing.T) {
	held := newCache()
	scopes := []object.Scope{"a", "b", "c"}
	f := newFIFO(t, delta.Options[*thing]{Known: held, Limit: 16})
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
						switch {
						case r.IntN(4) == 0:
							delete(expected[i], k)
							continue
						case f.Held(k, old.uid, old.version):
							item.Object, item.Held = nil, true
						default:
							t.Errorf("%v is not held", old)
						}
						l.Items = append(l.Items, item)
					}
					err = f.Replace(l)
				case 1, 2:
					delete(expected[i], o.key)
					err = f.Apply(scoped(object.Deleted, o))
				case 3:
					err = errors.Join(f.Resync(), f.Bookmark(object.Mark{Scope: scope, Version: o.version}))
				default:
					expected[i][o.key] = o
					err = f.Apply(scoped(object.Updated, o))
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	marks := map[object.Scope]object.Mark{}
	consuming.Go(func() {
		for n := 0; ; n++ {
			var err error
			if n%3 == 0 {
				err = f.PopBatch(context.Background(), func(b *object.Batch[*thing], _ bool) error {
					for _, m := range b.Marks {
						if marks[m.Scope].Version.After(m.Version) { // equal if a deletion left the version incomplete
							t.Errorf("mark %v after %v", m, marks[m.Scope])
						}
						marks[m.Scope] = m
					}
					held.apply(b.Changes)
					return nil
				})
			} else {
				err = f.Pop(context.Background(), func(d delta.Deltas[*thing], _ bool) error {
					held.apply(d)
					return nil
				})
			}
			if errors.Is(err, delta.ErrClosed) {
				return
			}
		}
	})
	producing.Wait()
	f.Close()
	consuming.Wait()
	all := map[object.Key]*thing{}
	for _, m := range expected {
		for k, o := range m {
			all[k] = o
		}
	}
	want(t, "held", stateOf(held.m), stateOf(all))
}

func TestLimitBlocksProducers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFIFO(t, delta.Options[*thing]{Limit: 2})
		must(t, f.Add(at("a", 1)), f.Add(at("b", 2)))
		var done atomic.Int32
		for _, produce := range []func() error{
			func() error { return f.Add(at("c", 3)) },
			func() error { return f.Replace(list(9, at("a", 1), at("d", 4), at("e", 5), at("f", 6))) },
		} {
			go func() { must(t, produce()); done.Add(1) }()
		}
		synctest.Wait()
		want(t, "went through", done.Load(), int32(0))
		want(t, "blocked", f.Stats().Blocked, 2)
		must(t, f.Bookmark(object.Mark{Version: "2"}))

		// A requeue does not wait for the limit and admits no further producers.
		_ = f.Pop(t.Context(), func(delta.Deltas[*thing], bool) error {
			synctest.Wait()
			want(t, "room for one", done.Load(), int32(1))
			return delta.ErrRequeue
		})
		synctest.Wait()
		want(t, "went through", done.Load(), int32(1))
		batch(t, f)
		synctest.Wait()
		want(t, "went through", done.Load(), int32(2))
		want(t, "blocked", f.Stats().Blocked, 0)

		// A Replace is admitted as a whole, whatever its size.
		must(t, f.Replace(list(9, at("d", 4), at("e", 5), at("f", 6))))
		f.Close()
	})
}

func TestLimitCloseFreesProducers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFIFO(t, delta.Options[*thing]{Limit: 1, Known: newCache(at("a", 1))})
		must(t, f.Add(at("b", 1)))
		errs := make(chan error)
		for _, produce := range []func() error{
			func() error { return f.Add(at("a", 1)) },
			func() error { return f.Delete(at("a", 1)) },
			func() error { return f.DeleteUnknown(object.Tombstone[*thing]{Key: at("a", 1).key}) },
			func() error { return f.Replace(list(1)) },
			f.Resync,
		} {
			go func() { errs <- produce() }()
		}
		synctest.Wait()
		want(t, "blocked", f.Stats().Blocked, 5)
		f.Close()
		for range 5 {
			if err := <-errs; !errors.Is(err, delta.ErrClosed) {
				t.Errorf("got %v, want ErrClosed", err)
			}
		}
		want(t, "popped", popAll(t, f, nil), [][]string{{"Added b@1"}})
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
			if err := f.PopBatch(ctx, nil); !errors.Is(err, context.DeadlineExceeded) {
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

func TestOldest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFIFO(t, delta.Options[*thing]{})
		wait := func(d time.Duration) { <-time.After(d) }
		wait(time.Minute)
		want(t, "empty", f.Stats().Oldest, time.Duration(0))
		must(t, f.Add(at("a", 1)))
		wait(time.Second)
		must(t, f.Add(at("b", 2)))
		wait(time.Second)
		want(t, "of two", f.Stats().Oldest, 2*time.Second)
		_ = f.PopBatch(t.Context(), func(*object.Batch[*thing], bool) error {
			want(t, "in flight", f.Stats().Oldest, time.Duration(0))
			return delta.ErrRequeue
		})
		want(t, "put back", f.Stats().Oldest, 2*time.Second)
		pop(t, f)
		want(t, "of the rest", f.Stats().Oldest, time.Second)
		pop(t, f)
		want(t, "of none", f.Stats().Oldest, time.Duration(0))

		// A list that is split into keys keeps its age, and changes that arrive while
		// only a bookmark is in flight and requeued do not get its age.
		must(t, f.Replace(list(3, at("a", 1), at("b", 2))))
		wait(time.Second)
		pop(t, f)
		want(t, "of a list", f.Stats().Oldest, time.Second)
		batch(t, f)
		must(t, f.Bookmark(object.Mark{Version: "4"}))
		_ = f.PopBatch(t.Context(), func(*object.Batch[*thing], bool) error {
			must(t, f.Add(at("a", 5)))
			return delta.ErrRequeue
		})
		wait(time.Second)
		want(t, "after a bookmark", f.Stats().Oldest, time.Second)
		batch(t, f)

		// The queue is never empty and each key waits 10 s: the reported age is
		// between 10 and 20 s.
		for i := range 10 {
			must(t, f.Add(at(fmt.Sprint("k", i), i+1)))
			wait(time.Second)
		}
		for i := range 100 {
			if got := f.Stats().Oldest; got < 10*time.Second || got > 20*time.Second {
				t.Errorf("after %d: %v", i, got)
			}
			pop(t, f)
			must(t, f.Add(at(fmt.Sprint("k", i+10), i+11)))
			wait(time.Second)
		}
	})
}
