package delta_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarnproject/tarn/delta"
	"github.com/tarnproject/tarn/object"
)

func TestQ08_PopWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFIFO(t, delta.Options[*thing]{})
		got := make(chan []string)
		go func() { got <- pop(t, f) }()
		synctest.Wait()
		must(t, f.Apply(bookmark("", 3))) // does not wake Pop
		synctest.Wait()
		select {
		case g := <-got:
			t.Fatalf("popped %v from an empty FIFO", g)
		default:
		}
		must(t, f.Add(at("a", 1)))
		want(t, "popped", <-got, []string{"Added a@1"})
	})
}

func TestQ08_CloseEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFIFO(t, delta.Options[*thing]{})
		errs := make(chan error)
		go func() {
			errs <- f.Pop(t.Context(), func(delta.Deltas[*thing], bool) error { return nil })
		}()
		go func() {
			errs <- f.Pop(t.Context(), func(delta.Deltas[*thing], bool) error { return nil })
		}()
		b := newBuffer(t, delta.BufferOptions{})
		for range 2 {
			go func() { errs <- b.PopBatch(t.Context(), nil) }()
		}
		synctest.Wait()
		f.Close()
		f.Close()
		b.Close()
		b.Close()
		for range 4 {
			if err := <-errs; !errors.Is(err, delta.ErrClosed) {
				t.Errorf("got %v, want ErrClosed", err)
			}
		}
		want(t, "Closed", f.Closed(), true)
	})
}

func TestQ08_PendingChangesCanBePoppedAfterClose(t *testing.T) {
	f := newFIFO(t, delta.Options[*thing]{})
	must(t, f.Add(at("a", 1)), f.Add(at("b", 2)))
	f.Close()
	for name, err := range map[string]error{
		"Add": f.Add(at("c", 3)), "Update": f.Update(at("a", 3)), "Delete": f.Delete(at("a", 3)),
		"DeleteUnknown": f.DeleteUnknown(object.Tombstone[*thing]{}), "Replace": f.Replace(list(3)),
		"Apply": f.Apply(bookmark("", 3)), "Resync": newClosed(t).Resync(),
	} {
		if !errors.Is(err, delta.ErrClosed) {
			t.Errorf("%s after Close returned %v", name, err)
		}
	}
	must(t, f.AddIfAbsent(delta.Deltas[*thing]{{Kind: object.Added, Key: object.RawKey("c"), Value: object.Decoded(at("c", 3))}}))
	if err := f.Pop(t.Context(), func(delta.Deltas[*thing], bool) error { return delta.ErrRequeue }); !errors.Is(err, delta.ErrRequeue) {
		t.Error(err)
	}
	want(t, "popped", [][]string{pop(t, f), pop(t, f), pop(t, f)}, [][]string{{"Added b@2"}, {"Added c@3"}, {"Added a@1"}})
	if err := f.Pop(t.Context(), nil); !errors.Is(err, delta.ErrClosed) {
		t.Errorf("got %v, want ErrClosed", err)
	}

	b := newBuffer(t, delta.BufferOptions{})
	apply(t, b, event(object.Added, at("a", 1)))
	b.Close()
	if err := b.Apply(bookmark("", 3)); !errors.Is(err, delta.ErrClosed) {
		t.Errorf("Apply after Close returned %v", err)
	}
	changes, _ := take(t, b)
	want(t, "changes", changes, []string{"Added a@1"})
	if err := b.PopBatch(t.Context(), nil); !errors.Is(err, delta.ErrClosed) {
		t.Errorf("got %v, want ErrClosed", err)
	}
}

func newClosed(t *testing.T) *delta.FIFO[*thing] {
	f := newFIFO(t, delta.Options[*thing]{Known: newCache(at("a", 1))})
	f.Close()
	return f
}

func TestQ08_ContextEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFIFO(t, delta.Options[*thing]{})
		why := errors.New("shift is over")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Hour, why)
		defer cancel()
		if err := f.Pop(ctx, nil); !errors.Is(err, why) {
			t.Errorf("got %v, want the context's cause", err)
		}
		// Even if something is pending, so that a loop ends.
		must(t, f.Add(at("a", 1)))
		if err := f.Pop(ctx, nil); !errors.Is(err, why) {
			t.Errorf("got %v, want the context's cause", err)
		}
		want(t, "pending", f.Len(), 1)
		b := newBuffer(t, delta.BufferOptions{})
		apply(t, b, bookmark("", 3))
		if err := b.PopBatch(ctx, nil); !errors.Is(err, why) {
			t.Errorf("got %v, want the context's cause", err)
		}
		want(t, "marks", len(second(take(t, b))), 1)
	})
}

func TestQ08_Requeue(t *testing.T) {
	cause := errors.New("store is full")
	for _, c := range []struct {
		name      string
		meanwhile func(f *delta.FIFO[*thing]) error
		want      [][]string
	}{
		{"nothing newer: back, at the end", func(f *delta.FIFO[*thing]) error { return nil },
			[][]string{{"Added b@3"}, {"Added a@1", "Updated a@2"}}},
		{"something newer: superseded", func(f *delta.FIFO[*thing]) error { return f.Update(at("a", 4)) },
			[][]string{{"Added b@3"}, {"Updated a@4"}}},
		{"a list with it: superseded", func(f *delta.FIFO[*thing]) error { return f.Replace(list(5, at("a", 4), at("b", 3))) },
			[][]string{{"Added b@3", "Replaced b@3"}, {"Replaced a@4"}}},
		{"a list without it: superseded by its deletion", func(f *delta.FIFO[*thing]) error { return f.Replace(list(5, at("b", 3))) },
			[][]string{{"Added b@3", "Replaced b@3"}, {"Deleted? a@2"}}},
		{"a list that has it broken: back", func(f *delta.FIFO[*thing]) error {
			l := list(5, at("b", 3), at("a", 4))
			l.Items[1].Object, l.Items[1].Err = nil, cause
			return f.Replace(l)
		}, [][]string{{"Added b@3", "Replaced b@3"}, {"Added a@1", "Updated a@2"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFIFO(t, delta.Options[*thing]{})
			must(t, f.Add(at("a", 1)), f.Update(at("a", 2)), f.Add(at("b", 3)))
			err := f.Pop(t.Context(), func(delta.Deltas[*thing], bool) error {
				must(t, c.meanwhile(f))
				return delta.Requeue(cause)
			})
			if !errors.Is(err, delta.ErrRequeue) || !errors.Is(err, cause) {
				t.Errorf("Pop returned %v, which does not wrap both", err)
			}
			want(t, "popped", popAll(t, f, nil), c.want)
		})
	}
}

func TestQ08_APanicRequeues(t *testing.T) {
	f := newFIFO(t, delta.Options[*thing]{})
	must(t, f.Add(at("a", 1)))
	boom := func(pop func() error) {
		defer func() { want(t, "recovered", fmt.Sprint(recover()), "boom") }()
		_ = pop()
	}
	boom(func() error {
		return f.Pop(t.Context(), func(delta.Deltas[*thing], bool) error { panic("boom") })
	})
	want(t, "popped", pop(t, f), []string{"Added a@1"})

	b := newBuffer(t, delta.BufferOptions{})
	apply(t, b, event(object.Added, at("a", 1)))
	boom(func() error {
		return b.PopBatch(t.Context(), func(*object.Batch[*thing]) error { panic("boom") })
	})
	changes, marks := take(t, b)
	want(t, "changes", changes, []string{"Added a@1"})
	want(t, "marks", marks, []object.Mark{{Version: "1"}})
}

func second[A, B any](_ A, b B) B { return b }

func TestQ08_AddIfAbsent(t *testing.T) {
	f := newFIFO(t, delta.Options[*thing]{Known: newCache(at("gone", 1))})
	back := func(name string) delta.Deltas[*thing] {
		return delta.Deltas[*thing]{{Kind: object.Added, Key: object.RawKey(name), Value: object.Decoded(at(name, 1))}}
	}
	must(t, f.Add(at("a", 2)), f.Replace(list(4, at("a", 2), at("b", 3))))
	must(t, f.AddIfAbsent(back("a")), f.AddIfAbsent(back("b")), f.AddIfAbsent(back("gone")),
		f.AddIfAbsent(back("c")), f.AddIfAbsent(nil))
	want(t, "popped", popAll(t, f, nil), [][]string{
		{"Added a@2", "Replaced a@2"}, {"Replaced b@3"}, {"Deleted? gone@1"}, {"Added c@1"},
	})
	for _, bad := range []delta.Deltas[*thing]{
		append(back("a"), back("b")...), {{Key: object.RawKey("a")}}, {{Kind: 9}},
		{{Kind: object.Replaced, List: &object.List[*thing]{}}},
	} {
		if f.AddIfAbsent(bad) == nil {
			t.Errorf("%v was accepted", bad)
		}
	}
	want(t, "pending", f.Len(), 0)
}
