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

func newPodBuffer() *delta.Buffer[pod] {
	b, err := delta.NewBuffer[pod](delta.BufferOptions{})
	if err != nil {
		panic(err)
	}
	return b
}

// podEvent is what a source sends for one event of a watch.
func podEvent(kind object.Kind, p pod) *object.Batch[pod] {
	item, _ := object.ItemOf(pods, p)
	return &object.Batch[pod]{
		Changes: []object.Change[pod]{object.ChangeOf(kind, &item)},
		Marks:   []object.Mark{{Version: item.Version}},
	}
}

func ExampleBuffer_PopBatch() {
	b := newPodBuffer()
	_ = b.Apply(podEvent(object.Added, pod{"web", "1"}))
	_ = b.Apply(podEvent(object.Added, pod{"db", "2"}))
	_ = b.Apply(podEvent(object.Updated, pod{"web", "3"}))

	// PopBatch returns everything in order, and the version it reaches.
	_ = b.PopBatch(context.Background(), func(batch *object.Batch[pod]) error {
		fmt.Println("the state at version", batch.Marks[0].Version)
		return printDeltas(batch.Changes, false)
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
func ExampleBuffer_Apply() {
	list := podList("9", pod{"web", "1"}, pod{"mail", "7"})
	b := newPodBuffer()
	_ = b.Apply(&object.Batch[pod]{
		Changes: []object.Change[pod]{{Kind: object.Replaced, List: &list}},
		Marks:   []object.Mark{list.Mark},
	})
	_ = b.Apply(podEvent(object.Deleted, pod{"mail", "10"}))

	_ = b.PopBatch(context.Background(), func(batch *object.Batch[pod]) error {
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

func ExampleBuffer_Held() {
	stored := podStore{{Name: "db"}: {"db", "2"}, {Name: "web"}: {"web", "5"}}
	b, _ := delta.NewBuffer[pod](delta.BufferOptions{Held: stored.Held})
	_ = b.Apply(podEvent(object.Updated, pod{"web", "6"}))

	// A list need not decode an object that is stored at the same version, unless a change is pending.
	fmt.Println(b.Held(object.Key{Name: "db"}, "", "2"))
	fmt.Println(b.Held(object.Key{Name: "web"}, "", "5"))
	// Output:
	// true
	// false
}

func ExampleBuffer_Stats() {
	b := newPodBuffer()
	_ = b.Apply(podEvent(object.Added, pod{"web", "1"}))
	_ = b.PopBatch(context.Background(), func(*object.Batch[pod]) error {
		_ = b.Apply(podEvent(object.Updated, pod{"web", "2"}))
		stats := b.Stats()
		fmt.Println(stats.InFlight, "in flight,", stats.Deltas, "pending")
		return nil
	})
	// Output: 1 in flight, 1 pending
}

// A producer that is too fast waits for the consumer.
func ExampleBufferOptions_limit() {
	b, _ := delta.NewBuffer[pod](delta.BufferOptions{Limit: 2})
	go func() {
		for i := range 6 {
			_ = b.Apply(podEvent(object.Updated, pod{"web", fmt.Sprint(i + 1)}))
		}
		b.Close()
	}()
	most, total := 0, 0
	for {
		err := b.PopBatch(context.Background(), func(batch *object.Batch[pod]) error {
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
	fmt.Println(f.Len(), "key and", len(deltas), "deltas")
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
	// delta: the queue is closed
	// Added web 1
	// <nil>
	// delta: the queue is closed
}
