package delta_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarnproject/tarn/delta"
	"github.com/tarnproject/tarn/internal/soak"
	"github.com/tarnproject/tarn/object"
)

func newBuffer(t testing.TB, opts delta.BufferOptions) *delta.Buffer[*thing] {
	t.Helper()
	b, err := delta.NewBuffer[*thing](opts)
	must(t, err)
	return b
}

// event is a batch of one event, with the mark of its namespace.
func event(kind object.Kind, o *thing) *object.Batch[*thing] {
	return &object.Batch[*thing]{
		Changes: []object.Change[*thing]{changeOf(kind, o)},
		Marks:   []object.Mark{{Scope: object.Scope(o.key.Namespace), Version: o.version}},
	}
}

// whole is a batch of one list, with its mark.
func whole(l object.List[*thing]) *object.Batch[*thing] {
	return &object.Batch[*thing]{
		Changes: []object.Change[*thing]{{Kind: object.Replaced, List: &l}}, Marks: []object.Mark{l.Mark},
	}
}

func bookmark(scope object.Scope, version int) *object.Batch[*thing] {
	return &object.Batch[*thing]{Marks: []object.Mark{{Scope: scope, Version: object.Version(fmt.Sprint(version))}}}
}

func apply(t testing.TB, b *delta.Buffer[*thing], batches ...*object.Batch[*thing]) {
	t.Helper()
	for _, batch := range batches {
		must(t, b.Apply(batch))
	}
}

// take takes a batch, calls meanwhile while it is in flight, and returns it as text, with its marks.
func take(t testing.TB, b *delta.Buffer[*thing], meanwhile ...func()) (out []string, marks []object.Mark) {
	t.Helper()
	must(t, b.PopBatch(t.Context(), func(b *object.Batch[*thing]) error {
		out, marks = text(b.Changes), slices.Clone(b.Marks)
		for _, do := range meanwhile {
			do()
		}
		return nil
	}))
	return out, marks
}

func TestNewBufferRejectsInvalidOptions(t *testing.T) {
	if _, err := delta.NewBuffer[*thing](delta.BufferOptions{Limit: -1}); err == nil {
		t.Error("a negative limit was accepted")
	}
}

func TestQ09_ABatchIsEverythingUpToItsMark(t *testing.T) {
	b := newBuffer(t, delta.BufferOptions{})
	apply(t, b, event(object.Added, at("a", 2)), whole(list(5, at("a", 2), at("b", 4))), event(object.Updated, at("a", 6)),
		event(object.Deleted, at("b", 7)), bookmark("", 9))
	changes, marks := take(t, b)
	want(t, "changes", changes, []string{"Added a@2", "Replaced 2 at 5", "Updated a@6", "Deleted b@7"})
	want(t, "marks", marks, []object.Mark{{Version: "9"}})
	want(t, "left", b.Stats().Deltas, 0)
}

// Whether a change is news is not decided here (W14).
func TestQ09_NothingIsMergedOrDropped(t *testing.T) {
	b := newBuffer(t, delta.BufferOptions{})
	apply(t, b, event(object.Deleted, at("x", 1)), event(object.Added, at("a", 5)), event(object.Deleted, at("a", 4)),
		event(object.Deleted, at("a", 4)), event(object.Updated, at("a", 2)), event(object.Quarantined, at("q", 3)))
	changes, _ := take(t, b)
	want(t, "changes", changes, []string{"Deleted x@1", "Added a@5", "Deleted a@4", "Deleted a@4", "Updated a@2", "Quarantined q"})
}

func TestQ09_ABookmarkAloneIsABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBuffer(t, delta.BufferOptions{})
		got := make(chan []object.Mark)
		go func() {
			changes, marks := take(t, b)
			want(t, "changes", len(changes), 0)
			got <- marks
		}()
		synctest.Wait()
		apply(t, b, &object.Batch[*thing]{}) // nothing to take
		synctest.Wait()
		select {
		case marks := <-got:
			t.Fatalf("a batch %v without news", marks)
		default:
		}
		apply(t, b, bookmark("s", 3))
		want(t, "marks", <-got, []object.Mark{{Scope: "s", Version: "3"}})
	})
}

// Which of two marks is later, the consumer decides by the changes around them: the last one counts.
func TestQ09_ABatchHasTheLastMarkOfEachScope(t *testing.T) {
	b := newBuffer(t, delta.BufferOptions{})
	left := object.List[*thing]{Mark: object.Mark{Scope: "a", Epoch: 1}}
	restored := list(2)
	restored.Scope, restored.Epoch = "a", 1
	for _, c := range []struct {
		what string
		of   []*object.Batch[*thing]
		want []object.Mark
	}{
		{"in the order in which they first moved", []*object.Batch[*thing]{bookmark("b", 3), bookmark("a", 4), bookmark("", 4), bookmark("a", 5), bookmark("b", 6)},
			[]object.Mark{{Scope: "b", Version: "6"}, {Scope: "a", Version: "5"}, {Version: "4"}}},
		{"only of this batch", []*object.Batch[*thing]{bookmark("a", 7)}, []object.Mark{{Scope: "a", Version: "7"}}},
		{"a list may go back, in a new epoch (W19)", []*object.Batch[*thing]{bookmark("a", 8), whole(restored)},
			[]object.Mark{{Scope: "a", Epoch: 1, Version: "2"}}},
		{"of a namespace that is no longer watched", []*object.Batch[*thing]{bookmark("a", 9), whole(left)}, []object.Mark{left.Mark}},
		{"and is watched again", []*object.Batch[*thing]{whole(left), bookmark("a", 3)}, []object.Mark{{Scope: "a", Version: "3"}}},
	} {
		apply(t, b, c.of...)
		_, marks := take(t, b)
		want(t, c.what, marks, c.want)
	}
}

func TestQ11_ARequeuedBatchGoesBackFirst(t *testing.T) {
	b := newBuffer(t, delta.BufferOptions{})
	apply(t, b, event(object.Added, at("s/a", 1)), whole(list(2, at("s/a", 1))))
	meanwhile := func() {
		apply(t, b, event(object.Updated, at("r/b", 3)), event(object.Updated, at("s/a", 4)), whole(list(5)))
	}
	err := b.PopBatch(t.Context(), func(*object.Batch[*thing]) error { meanwhile(); return delta.ErrRequeue })
	if !errors.Is(err, delta.ErrRequeue) {
		t.Fatal(err)
	}
	changes, marks := take(t, b)
	want(t, "changes", changes, []string{"Added s/a@1", "Replaced 1 at 2", "Updated r/b@3", "Updated s/a@4", "Replaced 0 at 5"})
	want(t, "marks", marks, []object.Mark{{Scope: "s", Version: "4"}, {Version: "5"}, {Scope: "r", Version: "3"}})
}

// What is pending or in flight may end that an object is held.
func TestL15_ABufferKnowsWhatWillBeHeld(t *testing.T) {
	known := newCache(at("s/known", 1), at("s/other", 1), at("r/listed", 1), at("r/gone", 1))
	b := newBuffer(t, delta.BufferOptions{Held: known.Held})
	check := func(name string, version object.Version, is bool) {
		t.Helper()
		if got := b.Held(object.RawKey(name), "u", version); got != is {
			t.Errorf("Held(%s, %s) is %v", name, version, got)
		}
	}
	check("s/known", "1", true)
	check("s/known", "2", false)
	check("s/known", "", false)
	apply(t, b, event(object.Updated, at("s/known", 2)))
	check("s/known", "1", false)
	check("s/known", "2", true)
	check("s/other", "1", true)
	l := list(3, at("r/listed", 1))
	l.Scope = "r"
	take(t, b, func() {
		check("s/known", "1", false)
		apply(t, b, whole(l))
		check("r/listed", "1", true)
		check("r/gone", "1", false)
		check("s/other", "1", true)
	})
	take(t, b)
	check("r/listed", "1", true)
	if newBuffer(t, delta.BufferOptions{}).Held(object.RawKey("s/known"), "u", "1") {
		t.Error("without Held nothing is held")
	}
}

// TestABufferModel compares a buffer with a plain list of what was applied, whatever the consumer returns:
// a batch is always all that was applied and not yet processed, and Held is what the consumer will have.
func TestABufferModel(t *testing.T) {
	for seed := range uint64(soak.Rounds(200)) {
		rng := rand.New(rand.NewPCG(seed, 7))
		held := newCache()
		b := newBuffer(t, delta.BufferOptions{Held: held.Held})
		var changes []object.Change[*thing]
		var marks []object.Mark
		version := 0
		produce := func() {
			scope := []object.Scope{"a", "b", "c"}[rng.IntN(3)]
			version++
			o := at(fmt.Sprintf("%s/%d", scope, rng.IntN(4)), version)
			batch := bookmark(scope, version)
			switch rng.IntN(8) {
			case 0:
			case 1:
				l := list(version, o)
				l.Scope = scope
				batch = whole(l)
			case 2:
				for range rng.IntN(100) {
					batch.Changes = append(batch.Changes, changeOf(object.Updated, o))
				}
			case 3, 4:
				batch = event(object.Deleted, o)
			default:
				batch = event(object.Updated, o)
			}
			must(t, b.Apply(batch))
			changes = append(changes, batch.Changes...)
			for _, m := range batch.Marks {
				if i := slices.IndexFunc(marks, func(old object.Mark) bool { return old.Scope == m.Scope }); i >= 0 {
					marks[i] = m
				} else {
					marks = append(marks, m)
				}
			}
		}
		promises := func() {
			state := cache{m: maps.Clone(held.m)}
			state.apply(changes)
			for key, o := range held.m {
				if got := b.Held(key, o.uid, o.version); got != (state.m[key] == o) {
					t.Fatalf("seed %d: Held(%v) is %v, and the consumer will have %v", seed, o, got, state.m[key])
				}
			}
			for _, o := range state.m {
				if !b.Held(o.key, o.uid, o.version) {
					t.Fatalf("seed %d: %v is not to be held, but will be", seed, o)
				}
			}
		}
		for range 60 {
			for range rng.IntN(4) {
				produce()
				promises()
			}
			if len(marks) == 0 {
				continue
			}
			taken := len(changes)
			want, wantMarks := show(changes), fmt.Sprint(marks)
			end := []error{nil, nil, errPlain, delta.ErrRequeue}[rng.IntN(4)]
			err := b.PopBatch(t.Context(), func(got *object.Batch[*thing]) error {
				if !errors.Is(end, delta.ErrRequeue) {
					marks = nil
				}
				for range rng.IntN(3) {
					produce()
					promises()
				}
				if show(got.Changes) != want || fmt.Sprint(got.Marks) != wantMarks {
					t.Fatalf("seed %d: took\n%s%v, want\n%s%v", seed, show(got.Changes), got.Marks, want, wantMarks)
				}
				if !errors.Is(end, delta.ErrRequeue) {
					held.apply(got.Changes)
				}
				promises()
				return end
			})
			if !errors.Is(err, end) {
				t.Fatal(err)
			}
			if !errors.Is(end, delta.ErrRequeue) {
				changes = slices.Clone(changes[taken:])
			}
		}
	}
}

func TestBufferStatsAndAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBuffer(t, delta.BufferOptions{})
		wait := func(d time.Duration) { <-time.After(d) }
		want(t, "empty", b.Stats(), delta.Stats{})
		apply(t, b, bookmark("", 1))
		wait(time.Minute)
		apply(t, b, event(object.Added, at("a", 2)))
		wait(time.Second)
		apply(t, b, event(object.Added, at("b", 3)))
		wait(time.Second)
		want(t, "of two", b.Stats(), delta.Stats{Deltas: 2, Oldest: 2 * time.Second})
		_ = b.PopBatch(t.Context(), func(*object.Batch[*thing]) error {
			want(t, "in flight", b.Stats(), delta.Stats{InFlight: 2})
			wait(time.Second)
			apply(t, b, event(object.Added, at("c", 4)))
			return delta.ErrRequeue
		})
		want(t, "put back", b.Stats(), delta.Stats{Deltas: 3, Oldest: 3 * time.Second})
		take(t, b)

		// Changes that arrive while only a bookmark is in flight have their own age.
		apply(t, b, bookmark("", 5))
		wait(time.Minute)
		_ = b.PopBatch(t.Context(), func(*object.Batch[*thing]) error {
			apply(t, b, event(object.Added, at("a", 6)))
			return delta.ErrRequeue
		})
		wait(time.Second)
		want(t, "after a bookmark", b.Stats(), delta.Stats{Deltas: 1, Oldest: time.Second})
	})
}
