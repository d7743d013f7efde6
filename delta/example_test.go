package delta_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/tarnproject/tarn/delta"
	"github.com/tarnproject/tarn/object"
)

// pod is an object with a name and a version, independent of Kubernetes.
type pod struct {
	Name, Version string
}

var pods = object.Accessor[pod]{
	Key:     func(p pod) (object.Key, error) { return object.Key{Name: p.Name}, nil },
	Version: func(p pod) object.Version { return object.Version(p.Version) },
}

// podStore is a consumer's cache, which the FIFO reads.
type podStore map[object.Key]pod

func (s podStore) Keys() iter.Seq[object.Key] {
	return slices.Values(slices.SortedFunc(maps.Keys(s), object.Key.Compare))
}

func (s podStore) Get(key object.Key) (pod, bool) {
	p, ok := s[key]
	return p, ok
}

func (s podStore) Held(key object.Key, _ object.UID, version object.Version) bool {
	return string(version) == s[key].Version
}

func newPods(opts delta.Options[pod]) *delta.FIFO[pod] {
	f, err := delta.New(pods, opts)
	if err != nil {
		panic(err)
	}
	return f
}

func podList(version object.Version, listed ...pod) object.List[pod] {
	l, err := object.ListOf(pods, version, listed...)
	if err != nil {
		panic(err)
	}
	return l
}

func printDeltas(deltas delta.Deltas[pod], _ bool) error {
	for _, d := range deltas {
		fmt.Println(d.Kind, d.New().Name, d.New().Version)
	}
	return nil
}

func ExampleFIFO_Pop() {
	f := newPods(delta.Options[pod]{})
	_ = f.Add(pod{"web", "1"})
	_ = f.Add(pod{"db", "2"})
	_ = f.Update(pod{"web", "3"})

	// Pop returns all changes of one key, in the order in which keys became pending.
	for f.Len() > 0 {
		_ = f.Pop(context.Background(), func(deltas delta.Deltas[pod], _ bool) error {
			newest, _ := deltas.Newest()
			fmt.Println(newest.Key, "at", newest.New().Version)
			return printDeltas(deltas, false)
		})
	}
	// Output:
	// web at 3
	// Added web 1
	// Updated web 3
	// db at 2
	// Added db 2
}

func ExampleFIFO_PopBatch() {
	f := newPods(delta.Options[pod]{})
	_ = f.Add(pod{"web", "1"})
	_ = f.Add(pod{"db", "2"})
	_ = f.Update(pod{"web", "3"})

	// PopBatch returns everything in order, and the version it reaches.
	_ = f.PopBatch(context.Background(), func(batch *object.Batch[pod], initial bool) error {
		fmt.Println("the state at version", batch.Marks[0].Version)
		return printDeltas(batch.Changes, initial)
	})
	// Output:
	// the state at version 3
	// Added web 1
	// Added db 2
	// Updated web 3
}

func ExampleFIFO_Replace() {
	known := podStore{{Name: "web"}: {"web", "1"}, {Name: "db"}: {"db", "2"}}
	f := newPods(delta.Options[pod]{Known: known})

	// The list has web and mail; db was deleted while the watch was disconnected.
	_ = f.Replace(podList("9", pod{"web", "1"}, pod{"mail", "7"}))

	for f.Len() > 0 {
		_ = f.Pop(context.Background(), func(deltas delta.Deltas[pod], _ bool) error {
			fmt.Println(deltas[0].Kind, deltas[0].New(), "final state unknown:", deltas[0].Unknown)
			return nil
		})
	}
	// Output:
	// Replaced {web 1} final state unknown: false
	// Replaced {mail 7} final state unknown: false
	// Deleted {db 2} final state unknown: true
}

// In a batch a list stays whole, so that a store can compare it in one pass.
func ExampleFIFO_Replace_batch() {
	f := newPods(delta.Options[pod]{})
	_ = f.Replace(podList("9", pod{"web", "1"}, pod{"mail", "7"}))
	_ = f.Delete(pod{"mail", "10"})

	_ = f.PopBatch(context.Background(), func(batch *object.Batch[pod], _ bool) error {
		for _, d := range batch.Changes {
			if d.List != nil {
				fmt.Println(d.Kind, "by", len(d.List.Items), "items at version", d.List.Version)
				continue
			}
			fmt.Println(d.Kind, d.New())
		}
		return nil
	})
	// Output:
	// Replaced by 2 items at version 9
	// Deleted {mail 10}
}

func ExampleRequeue() {
	f := newPods(delta.Options[pod]{})
	_ = f.Add(pod{"web", "1"})
	full := errors.New("disk full")

	for attempt := 1; f.Len() > 0; attempt++ {
		err := f.Pop(context.Background(), func(deltas delta.Deltas[pod], _ bool) error {
			if attempt < 3 {
				return delta.Requeue(full)
			}
			return printDeltas(deltas, false)
		})
		fmt.Println(err, errors.Is(err, delta.ErrRequeue), errors.Is(err, full))
	}
	// Output:
	// delta: put back: disk full true true
	// delta: put back: disk full true true
	// Added web 1
	// <nil> false false
}

func ExampleFIFO_Held() {
	f := newPods(delta.Options[pod]{Known: podStore{{Name: "db"}: {"db", "2"}}})
	_ = f.Add(pod{"web", "5"})

	// A list need not decode an object that is pending or stored at the same version.
	fmt.Println(f.Held(object.Key{Name: "db"}, "", "2"))
	fmt.Println(f.Held(object.Key{Name: "web"}, "", "5"))
	fmt.Println(f.Held(object.Key{Name: "web"}, "", "6"))
	// Output:
	// true
	// true
	// false
}

func ExampleFIFO_Bookmark() {
	f := newPods(delta.Options[pod]{})
	_ = f.Bookmark(object.Mark{Version: "100"})
	_ = f.PopBatch(context.Background(), func(batch *object.Batch[pod], _ bool) error {
		fmt.Println(len(batch.Changes), "deltas, and the state is that of version", batch.Marks[0].Version)
		return nil
	})
	// Output: 0 deltas, and the state is that of version 100
}

func ExampleFIFO_Synced() {
	f := newPods(delta.Options[pod]{})
	_ = f.Replace(podList("9", pod{"web", "1"}, pod{"mail", "7"}))
	for f.Len() > 0 {
		_ = f.Pop(context.Background(), func(deltas delta.Deltas[pod], initial bool) error {
			fmt.Println(deltas[0].New(), "initial:", initial, "synced:", f.HasSynced())
			return nil
		})
	}
	<-f.Synced()
	fmt.Println("synced:", f.HasSynced())
	// Output:
	// {web 1} initial: true synced: false
	// {mail 7} initial: true synced: false
	// synced: true
}

// A producer that is too fast waits for the consumer.
func ExampleOptions_limit() {
	f := newPods(delta.Options[pod]{Limit: 2})
	go func() {
		for i := range 6 {
			_ = f.Add(pod{"web", fmt.Sprint(i + 1)})
		}
		f.Close()
	}()
	most, total := 0, 0
	for {
		err := f.PopBatch(context.Background(), func(batch *object.Batch[pod], _ bool) error {
			most, total = max(most, len(batch.Changes)), total+len(batch.Changes)
			return nil
		})
		if errors.Is(err, delta.ErrClosed) {
			break
		}
	}
	fmt.Println("never more than two at a time:", most <= 2, "and all of them:", total)
	// Output: never more than two at a time: true and all of them: 6
}

func ExampleFIFO_Resync() {
	f := newPods(delta.Options[pod]{Known: podStore{{Name: "db"}: {"db", "2"}, {Name: "web"}: {"web", "1"}}})
	_ = f.Update(pod{"web", "3"})
	_ = f.Resync() // skips web, which has a pending change
	for f.Len() > 0 {
		_ = f.Pop(context.Background(), printDeltas)
	}
	// Output:
	// Updated web 3
	// Synced db 2
}

func ExampleFIFO_DeleteUnknown() {
	f := newPods(delta.Options[pod]{})
	_ = f.Add(pod{"web", "1"})
	_ = f.DeleteUnknown(object.Tombstone[pod]{Key: object.Key{Name: "web"}, Object: pod{"web", "1"}})
	_ = f.Delete(pod{"web", "2"}) // has the final state, so it replaces the tombstone
	_ = f.Pop(context.Background(), printDeltas)
	// Output:
	// Added web 1
	// Deleted web 2
}

func ExampleFIFO_AddIfAbsent() {
	f := newPods(delta.Options[pod]{})
	_ = f.Add(pod{"web", "1"})
	var kept delta.Deltas[pod]
	_ = f.Pop(context.Background(), func(deltas delta.Deltas[pod], _ bool) error {
		kept = slices.Clone(deltas) // the FIFO reuses the slice
		return nil
	})
	_ = f.Add(pod{"db", "2"})
	_ = f.AddIfAbsent(kept)
	fmt.Println(f.Keys())

	_ = f.Update(pod{"db", "3"})
	_ = f.AddIfAbsent(delta.Deltas[pod]{{Kind: object.Added, Key: object.Key{Name: "db"}, Value: object.Decoded(pod{"db", "2"})}})
	fmt.Println(f.List())
	// Output:
	// [db web]
	// [{db 3} {web 1}]
}

func ExampleFIFO_Get() {
	f := newPods(delta.Options[pod]{})
	_ = f.Add(pod{"web", "1"})
	_ = f.Delete(pod{"web", "2"})
	deltas, ok := f.Get(object.Key{Name: "web"})
	oldest, _ := deltas.Oldest()
	newest, _ := deltas.Newest()
	fmt.Println(ok, oldest.Kind, newest.Kind)
	fmt.Println(f.Len(), "key and", f.Stats().Deltas, "deltas")
	// Output:
	// true Added Deleted
	// 1 key and 2 deltas
}

func ExampleFIFO_Close() {
	f := newPods(delta.Options[pod]{})
	_ = f.Add(pod{"web", "1"})
	f.Close()
	if f.Closed() {
		fmt.Println(f.Len(), "key is still to be popped")
	}
	fmt.Println(f.Add(pod{"db", "2"}))
	fmt.Println(f.Pop(context.Background(), printDeltas))
	fmt.Println(f.Pop(context.Background(), printDeltas))
	// Output:
	// 1 key is still to be popped
	// delta: the FIFO is closed
	// Added web 1
	// <nil>
	// delta: the FIFO is closed
}
