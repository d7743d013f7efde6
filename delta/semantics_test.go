package delta_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/tarnproject/tarn/delta"
	"github.com/tarnproject/tarn/object"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// at makes an object; its UID is "u".
func at(name string, version int) *thing {
	return &thing{key: object.RawKey(name), uid: "u", version: object.Version(fmt.Sprint(version))}
}

func newFIFO(t testing.TB, opts delta.Options[*thing]) *delta.FIFO[*thing] {
	t.Helper()
	f, err := delta.New(things, opts)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// list makes a list of decoded objects.
func list(version int, objs ...*thing) object.List[*thing] {
	l, err := object.ListOf(things, object.Version(fmt.Sprint(version)), objs...)
	if err != nil {
		panic(err)
	}
	return l
}

// text writes deltas as "Added a@1", tombstones with a question mark.
func text(deltas []object.Change[*thing]) (out []string) {
	for _, d := range deltas {
		s := d.Kind.String()
		if d.Unknown {
			s += "?"
		}
		switch {
		case d.List != nil:
			s += fmt.Sprintf(" %d at %s", len(d.List.Items), d.List.Version)
		case d.New() == nil:
			s += " " + d.Key.String()
		default:
			s += fmt.Sprintf(" %s@%s", d.Key, d.New().version)
		}
		out = append(out, s)
	}
	return out
}

// pop pops one key, calls meanwhile while it is in flight, and returns it as text.
func pop(t testing.TB, f *delta.FIFO[*thing], meanwhile ...func()) (out []string) {
	t.Helper()
	must(t, f.Pop(t.Context(), func(d delta.Deltas[*thing], _ bool) error {
		out = text(d)
		for _, do := range meanwhile {
			do()
		}
		return nil
	}))
	return out
}

// popAll pops until nothing is pending and returns a line per key.
func popAll(t testing.TB, f *delta.FIFO[*thing], c *cache) (out [][]string) {
	t.Helper()
	for f.Len() > 0 {
		must(t, f.Pop(t.Context(), func(d delta.Deltas[*thing], _ bool) error {
			out = append(out, text(d))
			if c != nil {
				c.apply(d)
			}
			return nil
		}))
	}
	return out
}

func want(t testing.TB, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestQ01_KeysLeaveInTheOrderTheyBecamePending(t *testing.T) {
	f := newFIFO(t, delta.Options[*thing]{Known: newCache(at("z", 1))})
	must(t, f.Resync(), f.Add(at("b", 2)), f.Add(at("a", 3)), f.Update(at("b", 4)),
		f.Replace(list(6, at("b", 4), at("c", 5))), f.Delete(at("c", 7)))
	want(t, "keys", fmt.Sprint(f.Keys()), "[z b a c]")
	want(t, "popped", popAll(t, f, nil), [][]string{
		{"Synced z@1", "Deleted? z@1"},
		{"Added b@2", "Updated b@4", "Replaced b@4"},
		{"Added a@3", "Deleted? a@3"},
		{"Replaced c@5", "Deleted c@7"},
	})
}

func TestQ01_AKeyPoppedGoesToTheEnd(t *testing.T) {
	f := newFIFO(t, delta.Options[*thing]{})
	must(t, f.Add(at("a", 1)), f.Add(at("b", 2)))
	want(t, "first", pop(t, f, func() { must(t, f.Update(at("a", 3))) }), []string{"Added a@1"})
	want(t, "rest", popAll(t, f, nil), [][]string{{"Added b@2"}, {"Updated a@3"}})
}

func TestQ02_TwoDeletedInARowBecomeOne(t *testing.T) {
	gone := func(version int) object.Tombstone[*thing] {
		o := at("a", version)
		return object.Tombstone[*thing]{Key: o.key, Object: o}
	}
	for _, c := range []struct {
		name string
		do   func(f *delta.FIFO[*thing]) error
		want []string
	}{
		{"the same, twice: one", func(f *delta.FIFO[*thing]) error {
			return errors.Join(f.Delete(at("a", 2)), f.Delete(at("a", 2)))
		}, []string{"Added a@1", "Deleted a@2"}},
		{"at two versions: both, because either may be stale", func(f *delta.FIFO[*thing]) error {
			return errors.Join(f.Delete(at("a", 3)), f.Delete(at("a", 2)))
		}, []string{"Added a@1", "Deleted a@3", "Deleted a@2"}},
		{"real, tombstone: the real one", func(f *delta.FIFO[*thing]) error {
			return errors.Join(f.Delete(at("a", 2)), f.DeleteUnknown(gone(1)))
		}, []string{"Added a@1", "Deleted a@2"}},
		{"tombstone, real: the real one", func(f *delta.FIFO[*thing]) error {
			return errors.Join(f.DeleteUnknown(gone(1)), f.Delete(at("a", 2)))
		}, []string{"Added a@1", "Deleted a@2"}},
		{"tombstone of a list, real: the real one", func(f *delta.FIFO[*thing]) error {
			return errors.Join(f.Replace(list(2)), f.Delete(at("a", 3)))
		}, []string{"Added a@1", "Deleted a@3"}},
		{"real, list, tombstone: the real one", func(f *delta.FIFO[*thing]) error {
			return errors.Join(f.Delete(at("a", 2)), f.Replace(list(3)), f.DeleteUnknown(gone(1)))
		}, []string{"Added a@1", "Deleted a@2"}},
		{"not in a row: both", func(f *delta.FIFO[*thing]) error {
			return errors.Join(f.Delete(at("a", 2)), f.Add(at("a", 3)), f.Delete(at("a", 4)))
		}, []string{"Added a@1", "Deleted a@2", "Added a@3", "Deleted a@4"}},
		{"nothing else is dropped", func(f *delta.FIFO[*thing]) error {
			return errors.Join(f.Add(at("a", 1)), f.Update(at("a", 2)), f.Update(at("a", 2)))
		}, []string{"Added a@1", "Added a@1", "Updated a@2", "Updated a@2"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFIFO(t, delta.Options[*thing]{})
			must(t, f.Add(at("a", 1)), c.do(f))
			want(t, "popped", pop(t, f), c.want)
		})
	}
}

func TestQ03_ReplaceTellsWhatIsListedAndWhatVanished(t *testing.T) {
	for _, asSync := range []bool{false, true} {
		replaced := "Replaced"
		if asSync {
			replaced = "Synced"
		}
		known := newCache(at("gone", 1), at("kept", 2), at("newer", 3))
		f := newFIFO(t, delta.Options[*thing]{Known: known, ReplacedAsSync: asSync})
		must(t, f.Update(at("newer", 4)), f.Add(at("deleted", 5)), f.Delete(at("deleted", 6)),
			f.Replace(list(9, at("kept", 2), at("new", 8))))
		want(t, "popped", popAll(t, f, nil), [][]string{
			{"Updated newer@4", "Deleted? newer@4"}, // the newest object known
			{"Added deleted@5", "Deleted deleted@6"},
			{replaced + " kept@2"},
			{replaced + " new@8"},
			{"Deleted? gone@1"},
		})
	}
}

func TestQ03_ReplaceOfOneScopeLeavesOthersAlone(t *testing.T) {
	f := newFIFO(t, delta.Options[*thing]{Known: newCache(at("one/a", 1), at("two/a", 2))})
	l := list(5, at("one/b", 4))
	l.Scope = "one"
	must(t, f.Add(at("two/b", 3)), f.Replace(l))
	want(t, "popped", popAll(t, f, nil), [][]string{{"Added two/b@3"}, {"Replaced one/b@4"}, {"Deleted? one/a@1"}})
}

func TestQ04_PendingAndARelist(t *testing.T) {
	f := newFIFO(t, delta.Options[*thing]{Known: newCache(at("b", 1))})
	must(t, f.Add(at("a", 2)), f.Delete(at("b", 3)), f.Replace(list(5, at("b", 4))))
	want(t, "popped", popAll(t, f, nil), [][]string{
		{"Added a@2", "Deleted? a@2"},
		{"Deleted b@3", "Replaced b@4"},
	})
}

func TestQ05_DeleteOfSomethingUnknownIsDropped(t *testing.T) {
	f := newFIFO(t, delta.Options[*thing]{Known: newCache(at("known", 1))})
	must(t, f.Delete(at("stranger", 7)), f.DeleteUnknown(object.Tombstone[*thing]{Key: object.RawKey("stranger")}))
	want(t, "pending", f.Len(), 0)
	must(t, f.Delete(at("known", 8)))
	want(t, "pending", fmt.Sprint(f.Keys()), "[known]")
}
