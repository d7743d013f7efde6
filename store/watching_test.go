package store_test

import (
	"errors"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/store"
)

func TestW14_DuplicatesAndStaleEventsChangeNothing(t *testing.T) {
	s := newPodStore(t)
	apply(t, s, 10, listed(10, pod("shop/web", 5), pod("shop/db", 6)))
	held := get(t, s, "shop/web")
	for name, d := range map[string]podDelta{
		"the same again":             event(object.Added, pod("shop/web", 5)),
		"older than what is held":    event(object.Updated, pod("shop/web", 4)),
		"at the mark":                event(object.Updated, pod("shop/web", 10)),
		"between held and mark":      event(object.Updated, pod("shop/web", 7)),
		"unknown key before mark":    event(object.Added, pod("shop/gone", 8)),
		"deleted before held":        event(object.Deleted, pod("shop/web", 4)),
		"deleted, another life":      event(object.Deleted, pod("shop/web", 4, withUID("former"))),
		"deleted, not here":          event(object.Deleted, pod("shop/gone", 13)),
		"missed deletion, not here":  {Kind: object.Deleted, Unknown: true, Key: object.RawKey("shop/gone")},
		"new life from before mark":  event(object.Added, pod("shop/web", 9, withUID("former"))),
		"deletion of the same twice": event(object.Deleted, pod("shop/gone", 14)),
	} {
		want(t, name, changeTexts(applyBatch(t, s, &podBatch{Changes: []podDelta{d}})), nil)
	}
	same(t, "held object", get(t, s, "shop/web"), held)
	want(t, "content", content(s), []string{"shop/db@6", "shop/web@5"})
}

// The object that is deleted was never seen here, since it could not be read, say: the one that
// had its name before must have been deleted first.
func TestW18_DeletionOfALifeNeverSeenEndsTheOneBefore(t *testing.T) {
	s := newPodStore(t)
	apply(t, s, 10, listed(10, pod("shop/web", 5)))
	got := apply(t, s, 12, event(object.Deleted, pod("shop/web", 12, withUID("next"))))
	want(t, "changes", got, []string{"Deleted? shop/web@5>5"})
	want(t, "content", content(s), nil)
}

// A list of a new epoch with an item whose key cannot be read deletes nothing. What it leaves
// there is of the old epoch: its versions are not those of the new one.
func TestW19_AfterANamelessItemWhatIsLeftIsForeign(t *testing.T) {
	s := newPodStore(t)
	apply(t, s, 10, listed(10, pod("shop/web", 9), pod("shop/db", 6)))
	l := listed(5, pod("shop/db", 4))
	l.List.Epoch = 1
	l.List.Items = append(l.List.Items, object.Item[*corev1.Pod]{Err: errors.New("unreadable")})
	apply(t, s, 5, l)
	want(t, "content after the list", content(s), []string{"shop/db@4", "shop/web@9"})
	applyBatch(t, s, &podBatch{
		Changes: []podDelta{event(object.Updated, pod("shop/web", 7))},
		Marks:   []object.Mark{{Epoch: 1, Version: "7"}},
	})
	want(t, "content", content(s), []string{"shop/db@4", "shop/web@7"})
}

func TestW14_LateModifiedDoesNotRevive(t *testing.T) {
	s := newPodStore(t)
	apply(t, s, 10, listed(10, pod("shop/web", 5)))
	want(t, "deletion", apply(t, s, 12, event(object.Deleted, pod("shop/web", 12))), []string{"Deleted shop/web@5>12"})
	want(t, "late event", apply(t, s, 12, event(object.Updated, pod("shop/web", 11))), nil)
	want(t, "content", content(s), nil)
	want(t, "stale", s.Stats().Stale, 1)
	want(t, "deletions of nothing", apply(t, s, 13, event(object.Deleted, pod("shop/web", 13)),
		podDelta{Kind: object.Deleted, Unknown: true, Key: object.RawKey("shop/web")}), nil)
	want(t, "stale", s.Stats().Stale, 3)
}

func TestW14_LateModifiedDoesNotReviveInsideOneBatch(t *testing.T) {
	s := newPodStore(t)
	apply(t, s, 10, listed(10, pod("shop/web", 5)))
	got := apply(t, s, 13,
		event(object.Deleted, pod("shop/web", 12)),
		event(object.Updated, pod("shop/web", 11)),
		event(object.Added, pod("shop/db", 13)),
	)
	want(t, "changes", got, []string{"Deleted shop/web@5>12", "Added shop/db@13"})
	want(t, "content", content(s), []string{"shop/db@13"})
}

// Before anything was listed there is no mark, but the batch itself shows what is stale.
func TestW14_LateModifiedDoesNotReviveInTheFirstBatch(t *testing.T) {
	s := newPodStore(t)
	got := apply(t, s, 9,
		event(object.Added, pod("shop/web", 5)),
		event(object.Deleted, pod("shop/web", 7)),
		event(object.Updated, pod("shop/web", 6)),
	)
	want(t, "changes", got, []string{"Added shop/web@5", "Deleted shop/web@5>7"})
	want(t, "content", content(s), nil)
}

// The mark of one scope says nothing about another.
func TestW14_StaleIsDecidedPerScope(t *testing.T) {
	s := newPodStore(t)
	applyBatch(t, s, &podBatch{Changes: []podDelta{
		listedAt(object.Mark{Scope: "shop", Version: "100"}, pod("shop/web", 5)),
		listedAt(object.Mark{Scope: "bank", Version: "10"}, pod("bank/web", 6)),
	}})
	changes := applyBatch(t, s, &podBatch{Changes: []podDelta{
		event(object.Updated, pod("shop/web", 50)),
		event(object.Updated, pod("bank/web", 50)),
	}})
	want(t, "changes", changeTexts(changes), []string{"Updated bank/web@6>50"})
}

// A batch without marks says nothing about how far the server's state is known: the FIFO's
// Pop hands keys over one by one, and another key's older change comes after it.
func TestW14_BatchWithoutMarksMovesNoMark(t *testing.T) {
	s := newPodStore(t)
	apply(t, s, 10, listed(10, pod("shop/web", 5), pod("shop/db", 6)))
	popped := func(deltas ...podDelta) []string {
		return changeTexts(applyBatch(t, s, &podBatch{Changes: deltas}))
	}
	want(t, "the first key", popped(event(object.Updated, pod("shop/web", 11)), event(object.Updated, pod("shop/web", 20))),
		[]string{"Updated shop/web@5>11", "Updated shop/web@11>20"})
	want(t, "the second key", popped(event(object.Updated, pod("shop/db", 15))), []string{"Updated shop/db@6>15"})
	snap := s.Snapshot()
	defer snap.Release()
	want(t, "version", snap.Version(), "10")
}

func TestW15_DeletedCarriesTheFinalState(t *testing.T) {
	s := newPodStore(t)
	held := pod("shop/web", 5, onNode("a"))
	apply(t, s, 10, listed(10, held))
	final := pod("shop/web", 12, onNode("b"))
	changes := applyBatch(t, s, &podBatch{Changes: []podDelta{event(object.Deleted, final)}, Marks: upTo(12)})
	want(t, "changes", changeTexts(changes), []string{"Deleted shop/web@5>12"})
	same(t, "Old", changes[0].Old(), held)
	same(t, "New", changes[0].New(), final)
}

func TestW15_DeletedWithTheObjectsOwnVersion(t *testing.T) {
	s := newPodStore(t)
	apply(t, s, 10, listed(10, pod("shop/web", 5)))
	want(t, "old server", apply(t, s, 12, event(object.Deleted, pod("shop/web", 5))), []string{"Deleted shop/web@5>5"})
	want(t, "content", content(s), nil)
}

func TestW17_NewUIDIsDeleteThenAdd(t *testing.T) {
	node := nodeIndex()
	first := pod("shop/web", 5, withUID("one"), onNode("a"))
	second := pod("shop/web", 15, withUID("two"), onNode("b"))
	for name, d := range map[string]podDelta{
		"seen as MODIFIED": event(object.Updated, second),
		"seen as ADDED":    event(object.Added, second),
		"across a gap":     listed(20, second),
	} {
		t.Run(name, func(t *testing.T) {
			s := newPodStore(t, node)
			apply(t, s, 10, listed(10, first))
			before := s.Snapshot()
			defer before.Release()

			changes := applyBatch(t, s, &podBatch{Changes: []podDelta{d}, Marks: upTo(20)})
			want(t, "changes", changeTexts(changes), []string{"Deleted? shop/web@5>5", "Added shop/web@15"})
			same(t, "deleted", changes[0].Old(), first)
			same(t, "added", changes[1].New(), second)
			if changes[1].Old() != nil {
				t.Error("an addition has an old object")
			}
			want(t, "Len", s.Len(), 1)

			after := s.Snapshot()
			defer after.Release()
			want(t, "index", sorted(node.Get(after, "b")), []string{"shop/web@15"})
			want(t, "index of the former", sorted(node.Get(after, "a")), nil)
			want(t, "difference", changeTexts(slices.Collect(store.Diff(before, after))),
				[]string{"Deleted? shop/web@5>5", "Added shop/web@15"})
		})
	}
}

func TestW17_UnknownUIDIsNoNewLife(t *testing.T) {
	s := newPodStore(t)
	apply(t, s, 10, listed(10, pod("shop/web", 5)))
	want(t, "changes", apply(t, s, 15, event(object.Updated, pod("shop/web", 15, withUID("")))),
		[]string{"Updated shop/web@5>15"})
}

func TestW18_DeletedWhileTheWatchWasDown(t *testing.T) {
	s := newPodStore(t)
	web := pod("shop/web", 5)
	apply(t, s, 10, listed(10, web, pod("shop/db", 6)))
	changes := applyBatch(t, s, &podBatch{Changes: []podDelta{listed(20, pod("shop/db", 6))}})
	want(t, "changes", changeTexts(changes), []string{"Deleted? shop/web@5>5"})
	same(t, "last known state", changes[0].New(), web)
}

// A FIFO that knows the store sends tombstones itself.
func TestW18_TombstoneDeletesWhateverIsHeld(t *testing.T) {
	s := newPodStore(t)
	apply(t, s, 10, listed(10, pod("shop/web", 5)))
	got := apply(t, s, 11, podDelta{Kind: object.Deleted, Unknown: true, Key: object.RawKey("shop/web")})
	want(t, "changes", got, []string{"Deleted? shop/web@5>5"})
}

func newEpoch(version object.Version) object.Mark { return object.Mark{Epoch: 1, Version: version} }

func TestW19_NewEpochReplacesEverything(t *testing.T) {
	node := nodeIndex()
	s := newPodStore(t, node)
	old := []*corev1.Pod{pod("shop/db", 90, onNode("a")), pod("shop/gone", 91), pod("shop/web", 92, onNode("a"))}
	apply(t, s, 100, listed(100, old...))
	before := s.Snapshot()
	defer before.Release()

	// The same UID and version, but of another history: not the same object.
	db := pod("shop/db", 90, onNode("b"))
	changes := applyBatch(t, s, &podBatch{
		Changes: []podDelta{listedAt(newEpoch("50"), db, pod("shop/web", 40))},
		Marks:   []object.Mark{newEpoch("50")},
	})
	want(t, "changes", changeTexts(changes),
		[]string{"Updated shop/db@90>90", "Updated shop/web@92>40", "Deleted? shop/gone@91>91"})
	same(t, "replaced object", get(t, s, "shop/db"), db)
	want(t, "rewound", rewound(changes), []bool{true, true, false})

	after := s.Snapshot()
	defer after.Release()
	want(t, "mark", after.Mark(object.Everything), newEpoch("50"))
	want(t, "index", sorted(node.Get(after, "b")), []string{"shop/db@90"})
	want(t, "mark before", before.Mark(object.Everything), object.Mark{Version: "100"})
	if !after.Mark(object.Everything).Reached(before.Mark(object.Everything)) {
		t.Error("a later epoch has not reached the earlier one")
	}

	changes = applyBatch(t, s, &podBatch{Changes: []podDelta{
		event(object.Updated, pod("shop/web", 51)), event(object.Updated, pod("shop/db", 49)),
	}, Marks: []object.Mark{newEpoch("51")}})
	want(t, "events of the new epoch", changeTexts(changes), []string{"Updated shop/web@40>51"})
	want(t, "rewound", rewound(changes), []bool{false})

	last := s.Snapshot()
	defer last.Release()
	want(t, "rewound by the difference", rewound(slices.Collect(store.Diff(before, after))), []bool{true, false, true})
	want(t, "rewound after it", rewound(slices.Collect(store.Diff(after, last))), []bool{false})
}

// rewound reports for each change whether it is marked Rewound.
func rewound(changes []podChange) (marked []bool) {
	for _, c := range changes {
		marked = append(marked, c.Rewound)
	}
	return marked
}

// What could not be decoded at the rewind stays, with a version of the old history. That
// version must not outrank the new ones.
func TestW19_UndecodableObjectTakesAVersionOfTheNewEpoch(t *testing.T) {
	broken := func(t *testing.T) *podStore {
		s := newPodStore(t)
		apply(t, s, 100, listed(100, pod("shop/web", 92)))
		list := listedItems(50, brokenItem(pod("shop/web", 40)))
		list.List.Epoch = 1
		applyBatch(t, s, &podBatch{Changes: []podDelta{list}, Marks: []object.Mark{newEpoch("50")}})
		want(t, "the last good state", content(s), []string{"shop/web@92"})
		return s
	}
	t.Run("modified", func(t *testing.T) {
		s := broken(t)
		before := now(t, s)
		changes := applyBatch(t, s, &podBatch{
			Changes: []podDelta{event(object.Updated, pod("shop/web", 60))}, Marks: []object.Mark{newEpoch("60")},
		})
		want(t, "changes", changeTexts(changes), []string{"Updated shop/web@92>60"})
		want(t, "rewound", rewound(changes), []bool{true})
		want(t, "rewound by the difference", rewound(slices.Collect(store.Diff(before, now(t, s)))), []bool{true})
		changes = applyBatch(t, s, &podBatch{
			Changes: []podDelta{event(object.Updated, pod("shop/web", 61))}, Marks: []object.Mark{newEpoch("61")},
		})
		want(t, "rewound afterwards", rewound(changes), []bool{false})
	})
	t.Run("deleted", func(t *testing.T) {
		s := broken(t)
		changes := applyBatch(t, s, &podBatch{
			Changes: []podDelta{event(object.Deleted, pod("shop/web", 60))}, Marks: []object.Mark{newEpoch("60")},
		})
		want(t, "changes", changeTexts(changes), []string{"Deleted shop/web@92>60"})
	})
	t.Run("listed with the old version", func(t *testing.T) {
		s := broken(t)
		again := pod("shop/web", 92)
		applyBatch(t, s, &podBatch{Changes: []podDelta{listedAt(newEpoch("100"), again)}})
		same(t, "the object of the new epoch", get(t, s, "shop/web"), again)
	})
}

// L15 does not reach across epochs, so nothing is held for a list of a new one.
func TestW19_HeldItemOfANewEpochIsAnError(t *testing.T) {
	s := newPodStore(t)
	web := pod("shop/web", 92)
	apply(t, s, 100, listed(100, web))
	list := listedItems(95, heldItem(web))
	list.List.Epoch = 1
	if _, err := s.Apply(&podBatch{Changes: []podDelta{list}}, nil); !errors.Is(err, store.ErrNotHeld) {
		t.Errorf("error: %v", err)
	}
	same(t, "the last known state", get(t, s, "shop/web"), web)
}

func TestScopedListDeletesOnlyInItsScope(t *testing.T) {
	s := newPodStore(t)
	shop := func(v object.Version) object.Mark { return object.Mark{Scope: "shop", Version: v} }
	bank := object.Mark{Scope: "bank", Version: "7"}
	applyBatch(t, s, &podBatch{Changes: []podDelta{
		listedAt(shop("5"), pod("shop/db", 1), pod("shop/web", 2)),
		listedAt(bank, pod("bank/web", 3)),
	}})
	// Names that are near in order must not be taken for the scope.
	set(t, s, pod("sho/x", 1), pod("shop-test/x", 1), pod("node", 1))

	changes := applyBatch(t, s, &podBatch{Changes: []podDelta{listedAt(shop("9"), pod("shop/web", 8))}})
	want(t, "changes", changeTexts(changes), []string{"Updated shop/web@2>8", "Deleted? shop/db@1>1"})
	want(t, "content", content(s), []string{"node@1", "bank/web@3", "sho/x@1", "shop/web@8", "shop-test/x@1"})

	want(t, "an empty scope", changeTexts(applyBatch(t, s, &podBatch{Changes: []podDelta{listedAt(shop("10"))}})),
		[]string{"Deleted? shop/web@8>8"})
}

func TestMarksArePerScope(t *testing.T) {
	s := newPodStore(t)
	marks := func() (marks []object.Mark) {
		s.View(func(snap podSnapshot) { marks = slices.Collect(snap.Marks()) })
		return marks
	}
	want(t, "marks of a new store", marks(), nil)
	shop, bank := object.Mark{Scope: "shop", Version: "5"}, object.Mark{Scope: "bank", Epoch: 2, Version: "7"}
	applyBatch(t, s, &podBatch{Changes: []podDelta{listedAt(shop, pod("shop/web", 2)), listedAt(bank)}})
	before := s.Snapshot()
	defer before.Release()

	bookmark := object.Mark{Scope: "bank", Epoch: 2, Version: "9"}
	want(t, "changes of a bookmark", applyBatch(t, s, &podBatch{Marks: []object.Mark{bookmark}}), nil)
	want(t, "marks", marks(), []object.Mark{shop, bookmark})
	want(t, "marks before", slices.Collect(before.Marks()), []object.Mark{shop, bank})
	want(t, "a mark", before.Mark("bank"), bank)
	want(t, "an unknown mark", before.Mark("none"), object.Mark{Scope: "none"})
	want(t, "version of everything", before.Version(), "")
	want(t, "marks in Stats", s.Stats().Marks, []object.Mark{shop, bookmark})
}

func TestSyncIsReportedAndChangesNothing(t *testing.T) {
	s := newPodStore(t)
	web := pod("shop/web", 5)
	apply(t, s, 10, listed(10, web))
	changes := applyBatch(t, s, &podBatch{Changes: []podDelta{event(object.Synced, pod("shop/web", 5))}})
	want(t, "changes", changeTexts(changes), []string{"Synced shop/web@5>5"})
	same(t, "held object", get(t, s, "shop/web"), web)
}

func TestApplyAppendsToTheChangesItIsGiven(t *testing.T) {
	s := newPodStore(t)
	first := applyBatch(t, s, &podBatch{Changes: []podDelta{listed(10, pod("a/1", 1))}})
	both, err := s.Apply(&podBatch{Changes: []podDelta{event(object.Added, pod("a/2", 11))}}, first)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "changes", changeTexts(both), []string{"Added a/1@1", "Added a/2@11"})
}
