package delta_test

import (
	"errors"
	"testing"

	"github.com/tarnproject/tarn/delta"
)

func TestQ06_HasSynced(t *testing.T) {
	ok := func(delta.Deltas[*thing], bool) error { return nil }
	for _, c := range []struct {
		name string
		do   func(t *testing.T, f *delta.FIFO[*thing]) error
		want bool
	}{
		{"nothing", func(*testing.T, *delta.FIFO[*thing]) error { return nil }, false},
		{"resync", func(_ *testing.T, f *delta.FIFO[*thing]) error { return f.Resync() }, false},
		{"add", func(_ *testing.T, f *delta.FIFO[*thing]) error { return f.Add(at("a", 1)) }, true},
		{"update", func(_ *testing.T, f *delta.FIFO[*thing]) error { return f.Update(at("a", 1)) }, true},
		{"delete", func(_ *testing.T, f *delta.FIFO[*thing]) error { return f.Delete(at("a", 1)) }, true},
		{"empty replace", func(_ *testing.T, f *delta.FIFO[*thing]) error { return f.Replace(list(1)) }, true},
		{"replace", func(_ *testing.T, f *delta.FIFO[*thing]) error { return f.Replace(list(1, at("a", 1))) }, false},
		{"replace, one of two popped", func(t *testing.T, f *delta.FIFO[*thing]) error {
			return errors.Join(f.Replace(list(1, at("a", 1), at("b", 1))), f.Pop(t.Context(), ok))
		}, false},
		{"replace, popped, add between", func(t *testing.T, f *delta.FIFO[*thing]) error {
			return errors.Join(f.Replace(list(1, at("a", 1))), f.Add(at("b", 1)), f.Pop(t.Context(), ok))
		}, true},
		{"replace, being processed", func(t *testing.T, f *delta.FIFO[*thing]) error {
			must(t, f.Replace(list(1, at("a", 1))))
			return f.Pop(t.Context(), func(_ delta.Deltas[*thing], initial bool) error {
				want(t, "initial", initial, true)
				want(t, "synced in flight", f.HasSynced(), false)
				return nil
			})
		}, true},
		{"replace, put back", func(t *testing.T, f *delta.FIFO[*thing]) error {
			must(t, f.Replace(list(1, at("a", 1))))
			_ = f.Pop(t.Context(), func(delta.Deltas[*thing], bool) error { return delta.ErrRequeue })
			return nil
		}, false},
		{"replace, put back and superseded", func(t *testing.T, f *delta.FIFO[*thing]) error {
			must(t, f.Replace(list(1, at("a", 1))))
			_ = f.Pop(t.Context(), func(delta.Deltas[*thing], bool) error {
				must(t, f.Update(at("a", 2)))
				return delta.ErrRequeue
			})
			return nil
		}, false},
		{"replace, put back and superseded by a list", func(t *testing.T, f *delta.FIFO[*thing]) error {
			must(t, f.Replace(list(1, at("a", 1))))
			_ = f.Pop(t.Context(), func(delta.Deltas[*thing], bool) error {
				must(t, f.Replace(list(2)))
				return delta.ErrRequeue
			})
			return nil
		}, false},
		{"replace, superseded one popped", func(t *testing.T, f *delta.FIFO[*thing]) error {
			must(t, f.Replace(list(1, at("a", 1))))
			_ = f.Pop(t.Context(), func(delta.Deltas[*thing], bool) error {
				must(t, f.Update(at("a", 2)))
				return delta.ErrRequeue
			})
			return f.Pop(t.Context(), ok)
		}, true},
		{"a failed process function is through with it", func(t *testing.T, f *delta.FIFO[*thing]) error {
			must(t, f.Replace(list(1, at("a", 1))))
			_ = f.Pop(t.Context(), func(delta.Deltas[*thing], bool) error { return errors.New("no") })
			return nil
		}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFIFO(t, delta.Options[*thing]{})
			must(t, c.do(t, f))
			want(t, "HasSynced", f.HasSynced(), c.want)
			select {
			case <-f.Synced():
				want(t, "Synced closed", true, c.want)
			default:
				want(t, "Synced closed", false, c.want)
			}
		})
	}
}

// The first list may arrive while deltas are in flight that are then requeued.
func TestQ06_ReplaceDuringAFlightThatIsRequeued(t *testing.T) {
	f := newFIFO(t, delta.Options[*thing]{Known: newCache(at("a", 1))})
	must(t, f.Resync())
	_ = f.Pop(t.Context(), func(delta.Deltas[*thing], bool) error {
		must(t, f.Replace(list(3, at("a", 1), at("b", 2))))
		return delta.ErrRequeue
	})
	want(t, "synced", f.HasSynced(), false)
	pop(t, f)
	want(t, "synced after one", f.HasSynced(), false)
	pop(t, f)
	want(t, "synced after both", f.HasSynced(), true)
}

// An empty first list that deletes objects is not synced until the deletions are popped.
func TestQ06_EmptyReplaceWithTombstones(t *testing.T) {
	f := newFIFO(t, delta.Options[*thing]{Known: newCache(at("a", 1))})
	must(t, f.Replace(list(2)))
	want(t, "synced before", f.HasSynced(), false)
	want(t, "popped", pop(t, f), []string{"Deleted? a@1"})
	want(t, "synced after", f.HasSynced(), true)
}

func TestQ07_ResyncOfKeysWithNothingPending(t *testing.T) {
	f := newFIFO(t, delta.Options[*thing]{Known: newCache(at("idle", 1), at("busy", 2), at("flying", 3), at("dying", 4))})
	must(t, f.Update(at("flying", 5)), f.Delete(at("dying", 6)), f.Update(at("busy", 7)), f.Add(at("new", 8)))
	pop(t, f, func() { must(t, f.Resync()) })
	want(t, "popped", popAll(t, f, nil), [][]string{
		{"Deleted dying@6"}, {"Updated busy@7"}, {"Added new@8"},
		{"Synced flying@5"}, // not the older one that Known still has
		{"Synced idle@1"},
	})

	f = newFIFO(t, delta.Options[*thing]{})
	must(t, f.Add(at("a", 1)), f.Resync())
	want(t, "pending without Known", f.Len(), 1)
}

func TestQ07_ResyncAfterAPendingListThatLacksTheKey(t *testing.T) {
	f := newFIFO(t, delta.Options[*thing]{Known: newCache(at("a", 1))})
	must(t, f.Replace(list(2)), f.Resync())
	want(t, "popped", popAll(t, f, nil), [][]string{{"Deleted? a@1"}})
}
