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

func TestQ09_ABatchIsEverythingUpToItsMark(t *testing.T) {
	f := newFIFO(t, delta.Options[*thing]{Known: newCache(at("old", 1))})
	must(t, f.Add(at("a", 2)), f.Replace(list(5, at("a", 2), at("b", 4))), f.Update(at("a", 6)),
		f.Delete(at("b", 7)), f.Bookmark(object.Mark{Version: "9"}))
	deltas, marks := batch(t, f)
	want(t, "deltas", deltas, []string{"Added a@2", "Replaced 2 at 5", "Updated a@6", "Deleted b@7"})
	want(t, "marks", marks, []object.Mark{{Version: "9"}})
	want(t, "left", f.Stats().Deltas, 0)
}

func TestQ09_ReadingDoesNotSplitAReplace(t *testing.T) {
	f := newFIFO(t, delta.Options[*thing]{Known: newCache(at("old", 1))})
	must(t, f.Replace(list(5, at("a", 2))))
	want(t, "keys", fmt.Sprint(f.Keys()), "[a old]")
	want(t, "len", f.Len(), 2)
	got, _ := f.Get(object.RawKey("old"))
	want(t, "old", text(got), []string{"Deleted? old@1"})
	want(t, "objects", len(f.List()), 2)
	f.Held(object.RawKey("a"), "u", "2")
	deltas, _ := batch(t, f)
	want(t, "deltas", deltas, []string{"Replaced 1 at 5"})
}

// encoded is a thing in an encoded form.
type encoded struct{ o *thing }

func (e encoded) Get() *thing { return e.o }

// scoped is a batch of one event, with the mark of its namespace.
func scoped(kind object.Kind, o *thing) *object.Batch[*thing] {
	return &object.Batch[*thing]{
		Changes: []object.Change[*thing]{changeOf(kind, o)},
		Marks:   []object.Mark{{Scope: object.Scope(o.key.Namespace), Version: o.version}},
	}
}

func TestQ09_EncodedItemsStayEncodedKeyByKey(t *testing.T) {
	f := newFIFO(t, delta.Options[*thing]{})
	l := list(5, at("a", 2), at("b", 3))
	l.Items[0].Value = object.Value[*thing]{Encoded: encoded{l.Items[0].Object}}
	must(t, f.Replace(l), f.Resync())
	got, _ := f.Get(object.RawKey("a"))
	want(t, "a", text(got), []string{"Replaced a@2"})
	must(t, f.Pop(t.Context(), func(deltas delta.Deltas[*thing], _ bool) error {
		want(t, "popped", text(deltas), []string{"Replaced a@2"})
		return nil
	}))
	must(t, f.Replace(list(6)))
	must(t, f.Pop(t.Context(), func(deltas delta.Deltas[*thing], _ bool) error {
		want(t, "popped", text(deltas), []string{"Replaced b@3", "Deleted? b@3"})
		return nil
	}))
}

func TestQ09_ABookmarkAloneIsABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFIFO(t, delta.Options[*thing]{})
		type result struct {
			deltas []string
			marks  []object.Mark
		}
		got := make(chan result)
		go func() {
			for range 2 {
				deltas, marks := batch(t, f)
				got <- result{deltas, marks}
			}
		}()
		synctest.Wait()
		must(t, f.Bookmark(object.Mark{Scope: "s", Version: "3"}))
		r := <-got
		want(t, "deltas", len(r.deltas), 0)
		want(t, "marks", r.marks, []object.Mark{{Scope: "s", Version: "3"}})
		synctest.Wait()
		must(t, f.Bookmark(object.Mark{Scope: "s", Version: "3"}), f.Bookmark(object.Mark{Scope: "s", Version: "2"}),
			f.Bookmark(object.Mark{Scope: "s"})) // none of these moves the mark
		synctest.Wait()
		select {
		case r := <-got:
			t.Errorf("a batch %v without news", r)
		default:
		}
		must(t, f.Bookmark(object.Mark{Scope: "s", Version: "4"}))
		want(t, "marks", (<-got).marks, []object.Mark{{Scope: "s", Version: "4"}})
	})
}

func TestQ09_Marks(t *testing.T) {
	f := newFIFO(t, delta.Options[*thing]{})
	step := func(what string, marks []object.Mark, errs ...error) {
		t.Helper()
		must(t, errs...)
		_, got := batch(t, f)
		want(t, what, got, marks)
	}
	none := func() *thing {
		o := at("a/x", 0)
		o.version = ""
		return o
	}
	add := func(name string, version int) error { return f.Apply(scoped(object.Added, at(name, version))) }
	step("in the order in which they moved", []object.Mark{{Scope: "b", Version: "5"}, {Scope: "a", Version: "4"}},
		add("b/x", 3), add("a/x", 4), add("b/x", 5))
	step("only what moved; never back", []object.Mark{{Scope: "a", Version: "6"}},
		add("b/x", 2), add("a/x", 6), add("a/y", 5))
	l := list(2, at("a/x", 1))
	l.Scope, l.Epoch = "a", 1
	next := scoped(object.Added, at("a/x", 3))
	next.Marks[0].Epoch = 1
	step("a list says where; events go on in its epoch (W19)", []object.Mark{{Scope: "a", Epoch: 1, Version: "3"}},
		f.Replace(l), f.Apply(next))
	step("a bookmark of an older epoch is none", []object.Mark{{Scope: "b", Version: "7"}},
		f.Bookmark(object.Mark{Scope: "a", Epoch: 0, Version: "99"}), f.Bookmark(object.Mark{Scope: "b", Version: "7"}))
	step("an added or updated object moves the mark of everything", []object.Mark{{Version: "9"}},
		f.Add(at("a/x", 8)), f.Update(at("a/x", 9)))
	step("a deletion does not: others may share its version", []object.Mark{}, f.Add(none()), f.Delete(at("a/x", 10)))
	odd := at("a/x", 0)
	odd.version = "opaque"
	step("without an order the latest wins (L14)", []object.Mark{{Version: "opaque"}},
		f.Add(at("a/x", 11)), f.Add(odd))
	step("no version, no mark", []object.Mark{}, f.Add(none()))
	step("a list is always a mark, if only of an unknown version", []object.Mark{{Scope: "a", Epoch: 1}},
		f.Replace(object.List[*thing]{Mark: object.Mark{Scope: "a", Epoch: 1}}))
	tomb := at("a/z", 50)
	step("a tombstone's version is not the deletion's", []object.Mark{{Version: "49"}},
		f.Add(at("a/z", 49)), f.DeleteUnknown(object.Tombstone[*thing]{Key: tomb.key, Object: tomb}))
}

func TestQ09_PopReturnsNoVersionAndKeepsMarksForABatch(t *testing.T) {
	f := newFIFO(t, delta.Options[*thing]{})
	must(t, f.Add(at("a", 1)), f.Add(at("b", 2)))
	pop(t, f)
	deltas, marks := batch(t, f)
	want(t, "deltas", deltas, []string{"Added b@2"})
	want(t, "marks", marks, []object.Mark{{Version: "2"}})
}

func TestQ10_EqualKeysInAReplace(t *testing.T) {
	f := newFIFO(t, delta.Options[*thing]{})
	must(t, f.Replace(list(3, at("a", 1), at("b", 1), at("a", 2))))
	want(t, "first", pop(t, f), []string{"Replaced a@1", "Replaced a@2"})
	want(t, "synced", f.HasSynced(), false)
	want(t, "second", pop(t, f), []string{"Replaced b@1"})
	want(t, "synced", f.HasSynced(), true)
}

// Known may yield a key twice.
func TestQ10_EqualKeysKnown(t *testing.T) {
	f := newFIFO(t, delta.Options[*thing]{Known: twice{newCache(at("a", 1))}})
	must(t, f.Replace(list(3, at("b", 2))))
	want(t, "popped", popAll(t, f, nil), [][]string{{"Replaced b@2"}, {"Deleted? a@1"}})
	want(t, "synced", f.HasSynced(), true)
}

func TestQ11_InFlightCountsAsKnown(t *testing.T) {
	type fifo = *delta.FIFO[*thing]
	for _, c := range []struct {
		name      string
		meanwhile func(f fifo) error
		want      [][]string
	}{
		{"list without it", func(f fifo) error { return f.Replace(list(5)) },
			[][]string{{"Deleted? new@2"}}},
		{"deletion of one that is there", func(f fifo) error { return f.Delete(at("new", 5)) },
			[][]string{{"Deleted new@5"}}},
		{"deletion of one that is going", func(f fifo) error { return f.Delete(at("old", 3)) }, nil},
		{"another deletion of one that is going", func(f fifo) error { return f.Delete(at("old", 5)) },
			[][]string{{"Deleted old@5"}}}, // that in flight may be stale
		{"list with one that is going", func(f fifo) error { return f.Replace(list(6, at("old", 5), at("new", 2))) },
			[][]string{{"Replaced old@5"}, {"Replaced new@2"}}},
		{"resync", func(f fifo) error { return f.Resync() }, [][]string{{"Synced new@2"}}},
	} {
		for _, applied := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, applied %v", c.name, applied), func(t *testing.T) {
				known := newCache(at("old", 1))
				f := newFIFO(t, delta.Options[*thing]{Known: known})
				must(t, f.Add(at("new", 2)), f.Delete(at("old", 3)))
				must(t, f.PopBatch(t.Context(), func(b *object.Batch[*thing], _ bool) error {
					if applied {
						known.apply(b.Changes)
					}
					must(t, c.meanwhile(f))
					known.apply(b.Changes)
					return nil
				}))
				want(t, "popped", popAll(t, f, nil), c.want)
			})
		}
	}
}

// The result is the same whether a batch in flight ends before or after the list is split, however
// it ends, and with or without Known.
func TestQ11_TheEndOfAFlightDoesNotChangeTheEffectOfAList(t *testing.T) {
	for _, end := range []error{nil, errors.New("no"), delta.ErrRequeue} {
		t.Run(fmt.Sprint(end), func(t *testing.T) {
			f := newFIFO(t, delta.Options[*thing]{})
			must(t, f.Add(at("a", 1)))
			during := [][]string{}
			_ = f.PopBatch(t.Context(), func(*object.Batch[*thing], bool) error {
				must(t, f.Replace(list(2)))
				d, _ := f.Get(object.RawKey("a"))
				during = append(during, text(d))
				return end
			})
			want(t, "in flight", during, [][]string{{"Deleted? a@1"}})
			after := [][]string{{"Deleted? a@1"}}
			if end == delta.ErrRequeue {
				after = [][]string{{"Added a@1", "Deleted? a@1"}}
			}
			want(t, "after", popAll(t, f, nil), after)
		})
	}
}

func TestQ11_SyncedNotBeforeTheFlightEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFIFO(t, delta.Options[*thing]{})
		must(t, f.Replace(list(1, at("a", 1))))
		go pop(t, f, func() { <-time.After(time.Hour) })
		synctest.Wait()
		must(t, f.Add(at("b", 2)), f.Replace(list(3)))
		want(t, "synced in flight", f.HasSynced(), false)
		start := time.Now()
		<-f.Synced()
		want(t, "synced after", time.Since(start), time.Hour)
		synctest.Wait()
	})
}

func TestQ11_ARequeuedBatchGoesBackFirst(t *testing.T) {
	f := newFIFO(t, delta.Options[*thing]{})
	must(t, f.Apply(scoped(object.Added, at("s/a", 1))), f.Replace(list(2, at("s/a", 1))))
	err := f.PopBatch(t.Context(), func(*object.Batch[*thing], bool) error {
		must(t, f.Apply(scoped(object.Updated, at("r/b", 3))), f.Apply(scoped(object.Updated, at("s/a", 4))), f.Replace(list(5)))
		return delta.ErrRequeue
	})
	if !errors.Is(err, delta.ErrRequeue) {
		t.Fatal(err)
	}
	deltas, marks := batch(t, f)
	want(t, "deltas", deltas, []string{"Added s/a@1", "Replaced 1 at 2", "Updated r/b@3", "Updated s/a@4", "Replaced 0 at 5"})
	want(t, "marks", marks, []object.Mark{{Scope: "s", Version: "4"}, {Version: "5"}, {Scope: "r", Version: "3"}})
}

func TestL11_AnUndecodableItemCountsAsPresent(t *testing.T) {
	broken := errors.New("broken")
	f := newFIFO(t, delta.Options[*thing]{Known: newCache(at("a", 1), at("b", 1))})
	l := list(5, at("a", 4), at("c", 4))
	for i := range l.Items {
		l.Items[i].Object, l.Items[i].Err = nil, broken
	}
	must(t, f.Replace(l))
	want(t, "held", f.Held(object.RawKey("a"), "u", "4"), false)
	want(t, "popped", popAll(t, f, nil), [][]string{{"Deleted? b@1"}})

	// An undecodable item without a key may have any key.
	l.Items[1].Key = object.Key{}
	must(t, f.Replace(l))
	want(t, "pending", f.Len(), 0)
	want(t, "batch", first(batch(t, f)), []string{"Replaced 2 at 5"})
}

func TestL11_AListOfNothingButUndecodableItemsSyncs(t *testing.T) {
	f := newFIFO(t, delta.Options[*thing]{})
	l := list(5, at("a", 4))
	l.Items[0].Object, l.Items[0].Err = nil, errors.New("broken")
	must(t, f.Replace(l))
	want(t, "synced", f.HasSynced(), false)
	want(t, "batch", first(batch(t, f)), []string{"Replaced 1 at 5"})
	want(t, "synced", f.HasSynced(), true)

	synctest.Test(t, func(t *testing.T) {
		f := newFIFO(t, delta.Options[*thing]{})
		must(t, f.Replace(l))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // of the bubble
		defer cancel()
		if err := f.Pop(ctx, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("there is something to pop: %v", err)
		}
		want(t, "synced", f.HasSynced(), true)
	})
}

func first[A, B any](a A, _ B) A { return a }

func TestL15_Held(t *testing.T) {
	known := newCache(at("known", 1), at("gone", 1), at("updated", 1))
	f := newFIFO(t, delta.Options[*thing]{Known: known})
	must(t, f.Add(at("flying", 2)))
	check := func(name string, version object.Version, is bool) {
		t.Helper()
		if got := f.Held(object.RawKey(name), "u", version); got != is {
			t.Errorf("Held(%s, %s) is %v", name, version, got)
		}
	}
	pop(t, f, func() {
		check("flying", "2", true)
		check("flying", "1", false)
		check("known", "1", true)
		must(t, f.Replace(list(5, at("listed", 4), at("known", 1))))
		check("listed", "4", true)
		check("listed", "3", false)
		check("flying", "2", false)
		check("gone", "1", false)
		must(t, f.Update(at("known", 6)), f.Delete(at("listed", 7)))
		check("known", "1", false)
		check("known", "6", true)
		check("listed", "7", false)
	})
	want(t, "other UID", f.Held(object.RawKey("known"), "v", "6"), false)

	bare, err := delta.New(object.Keyed(func(s string) object.Key { return object.RawKey(s) }), delta.Options[string]{})
	must(t, err, bare.Add("a"))
	want(t, "without UID and version", bare.Held(object.RawKey("a"), "", ""), false)
}

func TestL15_AHeldItemIsDeliveredWithTheObjectHeld(t *testing.T) {
	held := func(name string, version int) object.Item[*thing] {
		return object.Item[*thing]{Key: object.RawKey(name), UID: "u", Version: object.Version(fmt.Sprint(version)), Held: true}
	}
	f := newFIFO(t, delta.Options[*thing]{Known: newCache(at("known", 1), at("revived", 1))})
	must(t, f.Add(at("flying", 2)), f.Add(at("pending", 3)), f.Delete(at("revived", 3)))
	l := object.List[*thing]{Mark: object.Mark{Version: "5"}, Items: []object.Item[*thing]{
		held("known", 1), held("flying", 2), held("pending", 3), held("revived", 1), held("nobody's", 4)}}
	pop(t, f, func() { must(t, f.Replace(l)) })
	// Nothing is known of the last one, so nothing is pending for it.
	must(t, f.AddIfAbsent(delta.Deltas[*thing]{{Kind: object.Added, Key: object.RawKey("nobody's"), Value: object.Decoded(at("nobody's", 4))}}))
	want(t, "popped", popAll(t, f, nil), [][]string{
		{"Added pending@3", "Replaced pending@3"}, {"Deleted revived@3", "Replaced revived@1"},
		{"Replaced known@1"}, {"Replaced flying@2"}, {"Added nobody's@4"},
	})
}

// Without Known, an item listed as held is known while the list is in flight.
func TestL15_HeldWithoutKnown(t *testing.T) {
	f := newFIFO(t, delta.Options[*thing]{})
	l := object.List[*thing]{Items: []object.Item[*thing]{{Key: object.RawKey("a"), UID: "u", Version: "1", Held: true}}}
	must(t, f.Replace(l))
	batch(t, f, func() { must(t, f.Delete(at("a", 2)), f.Delete(at("b", 2))) })
	want(t, "left", first(batch(t, f)), []string{"Deleted a@2"})
}

func TestW18_ATombstoneHoldsTheLastObjectKnown(t *testing.T) {
	f := newFIFO(t, delta.Options[*thing]{Known: newCache(at("known", 1), at("pending", 1), at("flying", 1))})
	must(t, f.Update(at("flying", 2)), f.Update(at("pending", 3)))
	pop(t, f, func() { must(t, f.Replace(list(9))) })
	want(t, "popped", popAll(t, f, nil), [][]string{
		{"Updated pending@3", "Deleted? pending@3"}, {"Deleted? flying@2"}, {"Deleted? known@1"}})
}

func TestH03_PopReturnsEveryDelta(t *testing.T) {
	f := newFIFO(t, delta.Options[*thing]{})
	must(t, f.Add(at("a", 1)), f.Update(at("a", 2)), f.Delete(at("a", 3)), f.Add(at("a", 4)), f.Update(at("a", 4)))
	want(t, "popped", pop(t, f), []string{"Added a@1", "Updated a@2", "Deleted a@3", "Added a@4", "Updated a@4"})
}

// Deletions may share a version: it is complete once a later event has arrived.
func TestQ09_AVersionIsMarkedWhenItIsComplete(t *testing.T) {
	for name, c := range map[string]struct {
		then func(f *delta.FIFO[*thing]) error
		want object.Version
	}{
		"nothing":            {func(f *delta.FIFO[*thing]) error { return nil }, "6"},
		"another of it":      {func(f *delta.FIFO[*thing]) error { return f.Delete(at("b", 7)) }, "6"},
		"a later deletion":   {func(f *delta.FIFO[*thing]) error { return f.Delete(at("b", 8)) }, "6"},
		"an update":          {func(f *delta.FIFO[*thing]) error { return f.Update(at("b", 8)) }, "8"},
		"a bookmark of it":   {func(f *delta.FIFO[*thing]) error { return f.Bookmark(object.Mark{Version: "7"}) }, "7"},
		"a later bookmark":   {func(f *delta.FIFO[*thing]) error { return f.Bookmark(object.Mark{Version: "9"}) }, "9"},
		"an earlier one":     {func(f *delta.FIFO[*thing]) error { return f.Bookmark(object.Mark{Version: "6"}) }, "6"},
		"a list":             {func(f *delta.FIFO[*thing]) error { return f.Replace(list(7, at("b", 6))) }, "7"},
		"a bookmark's epoch": {func(f *delta.FIFO[*thing]) error { return f.Bookmark(object.Mark{Epoch: 1, Version: "2"}) }, "2"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFIFO(t, delta.Options[*thing]{})
			must(t, f.Add(at("a", 5)), f.Add(at("b", 6)), f.Delete(at("a", 7)), c.then(f))
			_, marks := batch(t, f)
			want(t, "marks", len(marks), 1)
			want(t, "complete", marks[0].Version, c.want)
		})
	}
}

// Marks of a namespace that is no longer watched are dropped.
func TestQ09_TheMarkOfARemovedScopeIsDropped(t *testing.T) {
	f := newFIFO(t, delta.Options[*thing]{})
	leave := func() error { return f.Replace(object.List[*thing]{Mark: object.Mark{Scope: "a"}}) }
	must(t, f.Apply(scoped(object.Added, at("a/x", 5))))
	batch(t, f)
	must(t, leave())
	_, marks := batch(t, f)
	want(t, "marks", marks, []object.Mark{{Scope: "a"}})
	must(t, f.Apply(scoped(object.Added, at("a/x", 3)))) // covered again: 3 is not stale
	_, marks = batch(t, f)
	want(t, "marks", marks, []object.Mark{{Scope: "a", Version: "3"}})

	// Unless it is covered again before the consumer has popped it, or the batch is requeued.
	must(t, leave())
	_, marks = batch(t, f, func() { must(t, f.Apply(scoped(object.Added, at("a/x", 4)))) })
	want(t, "marks", marks, []object.Mark{{Scope: "a"}})
	_, marks = batch(t, f)
	want(t, "marks", marks, []object.Mark{{Scope: "a", Version: "4"}})
	must(t, leave())
	err := f.PopBatch(t.Context(), func(*object.Batch[*thing], bool) error { return delta.Requeue(nil) })
	want(t, "put back", errors.Is(err, delta.ErrRequeue), true)
	_, marks = batch(t, f)
	want(t, "marks", marks, []object.Mark{{Scope: "a"}})
}
