package object_test

import (
	"math/big"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	_ "github.com/tarnproject/tarn/internal/soak" // -soak scales rapid's checks
	"github.com/tarnproject/tarn/object"
)

// decimalForm is the form of L14, written independently of the code under test.
var decimalForm = regexp.MustCompile(`\A[1-9][0-9]*\z`)

// ordered generates comparable versions: short ones, so that equal ones are
// common, some around the limits of machine words, and long ones.
var ordered = rapid.Map(rapid.OneOf(
	rapid.StringMatching(`[1-9][0-9]{0,2}`),
	rapid.StringMatching(`[1-9][0-9]{0,80}`),
	rapid.SampledFrom([]string{
		"9223372036854775807", "9223372036854775808",
		"18446744073709551615", "18446744073709551616",
		"99999999999999999999", "100000000000000000000",
	}),
), func(s string) object.Version { return object.Version(s) })

// unordered generates texts that are almost, but not quite, comparable versions.
var unordered = rapid.Map(rapid.OneOf(
	rapid.SampledFrom([]string{
		"", "0", "00", "01", "007", "+1", "-1", " 1", "1 ", "1\n", "1.0", "1e3", "0x1f", "1_000",
		"1,2", "１", "٣", "abc", "1a", "a1", "\x00", "\xff", "5\x00",
		"1/", "1:", "/1", ":1",
	}),
	rapid.String().Filter(func(s string) bool { return !decimalForm.MatchString(s) }),
	rapid.StringMatching(`0[0-9]{0,30}`),
), func(s string) object.Version { return object.Version(s) })

var anyVersion = rapid.OneOf(ordered, unordered)

func TestL14_VersionsCompareAsDecimals(t *testing.T) {
	nines := object.Version(strings.Repeat("9", 400))
	tenToThe400 := object.Version("1" + strings.Repeat("0", 400))
	for _, c := range []struct {
		a, b object.Version
		want int
	}{
		{"1", "1", 0},
		{"1", "2", -1},
		{"9", "10", -1},
		{"10", "9", +1},
		{"99", "100", -1},
		{"123456", "123456", 0},
		{"18446744073709551615", "18446744073709551616", -1},
		{nines, tenToThe400, -1},
		{tenToThe400, nines, +1},
		{nines, nines, 0},
	} {
		if got, ok := c.a.Compare(c.b); !ok || got != c.want {
			t.Errorf("%.30q.Compare(%.30q) = %d, %v; want %d, true", c.a, c.b, got, ok, c.want)
		}
	}
}

func TestL14_ComparisonIsRefusedNotGuessed(t *testing.T) {
	for _, c := range []struct{ a, b object.Version }{
		{"", ""}, {"", "1"}, {"1", ""},
		{"0", "0"}, {"0", "1"}, {"1", "0"},
		{"01", "1"}, {"01", "01"}, {"7", "007"},
		{"-1", "1"}, {"+1", "1"}, {"1.0", "1"}, {"1e3", "1000"}, {"0x10", "16"},
		{" 5", "5"}, {"5", "5\n"}, {"１", "1"}, {"1/", "2"}, {"1:", "2"}, {"/1", "2"}, {":1", "2"},
		{"abc", "abc"}, {"abc", "abd"}, {"W/\"5\"", "6"},
	} {
		if got, ok := c.a.Compare(c.b); ok || got != 0 {
			t.Errorf("%q.Compare(%q) = %d, %v; want it refused", c.a, c.b, got, ok)
		}
		if c.a.After(c.b) {
			t.Errorf("%q.After(%q) guesses", c.a, c.b)
		}
	}
}

func checkCompare(t interface{ Fatalf(string, ...any) }, a, b object.Version) {
	got, ok := a.Compare(b)
	if !decimalForm.MatchString(string(a)) || !decimalForm.MatchString(string(b)) {
		if ok || got != 0 {
			t.Fatalf("%q.Compare(%q) = %d, %v; want it refused", a, b, got, ok)
		}
		return
	}
	x, _ := new(big.Int).SetString(string(a), 10)
	y, _ := new(big.Int).SetString(string(b), 10)
	if !ok || got != x.Cmp(y) {
		t.Fatalf("%q.Compare(%q) = %d, %v; as numbers %d", a, b, got, ok, x.Cmp(y))
	}
}

func TestL14_CompareAgreesWithBigNumbersOrRefuses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		checkCompare(t, anyVersion.Draw(t, "a"), anyVersion.Draw(t, "b"))
	})
}

func FuzzVersion(f *testing.F) {
	f.Add("1", "2")
	f.Add("99", "100")
	f.Add("", "0")
	f.Add("01", "1")
	f.Add("18446744073709551615", "18446744073709551616")
	f.Add("abc", "abc")
	f.Fuzz(func(t *testing.T, a, b string) { checkCompare(t, object.Version(a), object.Version(b)) })
}

func TestL14_CompareIsAntisymmetric(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := anyVersion.Draw(t, "a"), anyVersion.Draw(t, "b")
		ab, ok := a.Compare(b)
		ba, ko := b.Compare(a)
		if ok != ko || ab != -ba {
			t.Fatalf("%q and %q compare as %d, %v and %d, %v", a, b, ab, ok, ba, ko)
		}
	})
}

func TestL14_CompareIsTransitive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := ordered.Draw(t, "a"), ordered.Draw(t, "b"), ordered.Draw(t, "c")
		ab, _ := a.Compare(b)
		bc, _ := b.Compare(c)
		ac, _ := a.Compare(c)
		if ab <= 0 && bc <= 0 && ac > 0 {
			t.Fatalf("%q ≤ %q ≤ %q, but the first is after the last", a, b, c)
		}
		if (ab == 0) != (a == b) {
			t.Fatalf("%q.Compare(%q) = %d, but the texts differ: %v", a, b, ab, a != b)
		}
	})
}

func TestL14_OrderedIsTheDecimalFormWithoutALeadingZero(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := anyVersion.Draw(t, "v")
		if got, want := v.Ordered(), decimalForm.MatchString(string(v)); got != want {
			t.Fatalf("%q.Ordered() = %v, want %v", v, got, want)
		}
		if v.Ordered() && !v.Known() {
			t.Fatalf("%q has an order and is not a version", v)
		}
	})
}

func TestL14_AfterAndNotAfter(t *testing.T) {
	for _, c := range []struct {
		a, b            object.Version
		after, notAfter bool
	}{
		{"10", "9", true, false},
		{"9", "10", false, true},
		{"9", "9", false, true},
		{"abc", "abc", false, true}, // the same version, comparable or not
		{"abc", "abd", false, false},
		{"abc", "9", false, false},
		{"9", "abc", false, false},
		// Neither is a version, so they are never equal: without versions every
		// write is a change.
		{"", "", false, false},
		{"0", "0", false, false},
		{"", "9", false, false},
		{"9", "0", false, false},
	} {
		if got := c.a.After(c.b); got != c.after {
			t.Errorf("%q.After(%q) = %v", c.a, c.b, got)
		}
		if got := c.a.NotAfter(c.b); got != c.notAfter {
			t.Errorf("%q.NotAfter(%q) = %v", c.a, c.b, got)
		}
	}
}

func TestL14_AfterAndNotAfterAreCertain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := anyVersion.Draw(t, "a"), anyVersion.Draw(t, "b")
		order, ok := a.Compare(b)
		if a.After(b) != (ok && order > 0) {
			t.Fatalf("%q.After(%q) = %v", a, b, a.After(b))
		}
		if ok && a.NotAfter(b) != !a.After(b) {
			t.Fatalf("%q and %q compare, but After is %v and NotAfter %v", a, b, a.After(b), a.NotAfter(b))
		}
		if !ok && a != b && a.NotAfter(b) {
			t.Fatalf("%q.NotAfter(%q) guesses", a, b)
		}
		if a.Known() && !a.NotAfter(a) {
			t.Fatalf("%q is after itself", a)
		}
	})
}

func TestKnownIsNeitherEmptyNorZero(t *testing.T) {
	for v, want := range map[object.Version]bool{"": false, "0": false, "1": true, "00": true, "abc": true} {
		if v.Known() != want {
			t.Errorf("%q.Known() = %v", v, !want)
		}
	}
}

func TestScopeCovers(t *testing.T) {
	inA, inB, cluster := object.Key{Namespace: "a", Name: "x"}, object.Key{Namespace: "b", Name: "x"}, object.Key{Name: "a"}
	for _, c := range []struct {
		scope object.Scope
		key   object.Key
		want  bool
	}{
		{object.Everything, inA, true},
		{object.Everything, cluster, true},
		{"a", inA, true},
		{"a", inB, false},
		{"a", cluster, false},
		{"", inB, true},
	} {
		if got := c.scope.Covers(c.key); got != c.want {
			t.Errorf("Scope(%q).Covers(%v) = %v", c.scope, c.key, got)
		}
	}
}

func TestMarkReached(t *testing.T) {
	for _, c := range []struct {
		name      string
		m, target object.Mark
		want      bool
	}{
		{"the same point", object.Mark{Version: "7"}, object.Mark{Version: "7"}, true},
		{"a later version", object.Mark{Version: "10"}, object.Mark{Version: "9"}, true},
		{"an earlier version", object.Mark{Version: "9"}, object.Mark{Version: "10"}, false},
		{"a later epoch, though its version is lower", object.Mark{Epoch: 2, Version: "5"}, object.Mark{Epoch: 1, Version: "900"}, true},
		{"an earlier epoch, though its version is higher", object.Mark{Epoch: 1, Version: "900"}, object.Mark{Epoch: 2, Version: "5"}, false},
		{"another scope", object.Mark{Scope: "a", Version: "9"}, object.Mark{Scope: "b", Version: "1"}, false},
		{"another scope and a later epoch", object.Mark{Scope: "a", Epoch: 9, Version: "9"}, object.Mark{Version: "1"}, false},
		{"everything is not a namespace", object.Mark{Version: "9"}, object.Mark{Scope: "a", Version: "1"}, false},
		{"opaque, the same text", object.Mark{Version: "abc"}, object.Mark{Version: "abc"}, true},
		{"opaque, another text", object.Mark{Version: "abd"}, object.Mark{Version: "abc"}, false},
		{"nothing seen yet", object.Mark{}, object.Mark{Version: "1"}, false},
		{"nothing asked for", object.Mark{}, object.Mark{}, true},
		{"no version asked for, but a later epoch", object.Mark{Version: "7"}, object.Mark{Epoch: 1}, false},
		{"opaque against a decimal", object.Mark{Version: "abc"}, object.Mark{Version: "1"}, false},
	} {
		if got := c.m.Reached(c.target); got != c.want {
			t.Errorf("%s: %+v.Reached(%+v) = %v", c.name, c.m, c.target, got)
		}
	}
}

func TestMarkReachedNeverMovesBackwards(t *testing.T) {
	mark := rapid.Custom(func(t *rapid.T) object.Mark {
		return object.Mark{
			Scope:   object.Scope(rapid.SampledFrom([]string{"", "a"}).Draw(t, "scope")),
			Epoch:   object.Epoch(rapid.Uint64Range(0, 2).Draw(t, "epoch")),
			Version: ordered.Draw(t, "version"),
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := mark.Draw(t, "a"), mark.Draw(t, "b"), mark.Draw(t, "c")
		if !a.Reached(a) {
			t.Fatalf("%+v has not reached itself", a)
		}
		if c.Reached(b) && b.Reached(a) && !c.Reached(a) {
			t.Fatalf("%+v reached %+v reached %+v, but the first has not reached the last", c, b, a)
		}
		if a.Scope != b.Scope {
			if a.Reached(b) || b.Reached(a) {
				t.Fatalf("marks of two scopes compare: %+v, %+v", a, b)
			}
			return
		}
		if !a.Reached(b) && !b.Reached(a) {
			t.Fatalf("within one scope neither has reached the other: %+v, %+v", a, b)
		}
		if a.Reached(b) && b.Reached(a) && a != b {
			t.Fatalf("two points reach each other: %+v, %+v", a, b)
		}
	})
}
