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

// encoded is a thing in an encoded form.
type encoded struct{ o *thing }

func (e encoded) Get() *thing { return e.o }

func TestQ03_EncodedItemsStayEncoded(t *testing.T) {
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
	added, deleted := at("young", 2), at("old", 3)
	for _, c := range []struct {
		name      string
		in        *thing // flight
		meanwhile func(f fifo) error
		want      [][]string
	}{
		{"list without it", added, func(f fifo) error { return f.Replace(list(5, at("old", 1))) },
			[][]string{{"Replaced old@1"}, {"Deleted? young@2"}}},
		{"list without one that is going", deleted, func(f fifo) error { return f.Replace(list(5)) }, nil},
		{"deletion of one that is there", added, func(f fifo) error { return f.Delete(at("young", 5)) },
			[][]string{{"Deleted young@5"}}},
		{"deletion of one that is going", deleted, func(f fifo) error { return f.Delete(at("old", 3)) }, nil},
		{"another deletion of one that is going", deleted, func(f fifo) error { return f.Delete(at("old", 5)) },
			[][]string{{"Deleted old@5"}}}, // that in flight may be stale
		{"list with one that is going", deleted, func(f fifo) error { return f.Replace(list(6, at("old", 5))) },
			[][]string{{"Replaced old@5"}}},
		{"resync", added, func(f fifo) error { return f.Resync() }, [][]string{{"Synced old@1"}, {"Synced young@2"}}},
		{"resync of one that is going", deleted, func(f fifo) error { return f.Resync() }, nil},
	} {
		for _, applied := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, applied %v", c.name, applied), func(t *testing.T) {
				known := newCache(at("old", 1))
				f := newFIFO(t, delta.Options[*thing]{Known: known})
				event := f.Add
				if c.in.version == "3" {
					event = f.Delete
				}
				must(t, event(c.in))
				must(t, f.Pop(t.Context(), func(deltas delta.Deltas[*thing], _ bool) error {
					if applied {
						known.apply(deltas)
					}
					must(t, c.meanwhile(f))
					known.apply(deltas)
					return nil
				}))
				want(t, "popped", popAll(t, f, nil), c.want)
			})
		}
	}
}

// The list takes effect when it arrives, however the flight ends, and with or without Known.
func TestQ11_TheEndOfAFlightDoesNotChangeTheEffectOfAList(t *testing.T) {
	for _, end := range []error{nil, errors.New("no"), delta.ErrRequeue} {
		t.Run(fmt.Sprint(end), func(t *testing.T) {
			f := newFIFO(t, delta.Options[*thing]{})
			must(t, f.Add(at("a", 1)))
			_ = f.Pop(t.Context(), func(delta.Deltas[*thing], bool) error {
				must(t, f.Replace(list(2)))
				return end
			})
			want(t, "after", popAll(t, f, nil), [][]string{{"Deleted? a@1"}})
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
}

func TestL11_AListOfNothingButUndecodableItemsSyncs(t *testing.T) {
	f := newFIFO(t, delta.Options[*thing]{})
	l := list(5, at("a", 4))
	l.Items[0].Object, l.Items[0].Err = nil, errors.New("broken")
	must(t, f.Replace(l))
	want(t, "synced", f.HasSynced(), true)

	synctest.Test(t, func(t *testing.T) {
		f := newFIFO(t, delta.Options[*thing]{})
		must(t, f.Replace(l))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // of the bubble
		defer cancel()
		if err := f.Pop(ctx, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("there is something to pop: %v", err)
		}
	})
}

// An undecodable change is for the consumer of a Buffer.
func TestL11_AQuarantinedChangeIsNotPopped(t *testing.T) {
	f := newFIFO(t, delta.Options[*thing]{})
	must(t, f.Apply(&object.Batch[*thing]{Changes: []object.Change[*thing]{
		changeOf(object.Quarantined, at("a", 1)), changeOf(object.Added, at("b", 2))}}))
	want(t, "popped", popAll(t, f, nil), [][]string{{"Added b@2"}})
}

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
