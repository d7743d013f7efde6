package object_test

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tarnproject/tarn/object"
)

func TestParseReadsTheStrictForm(t *testing.T) {
	for _, c := range []struct {
		in   string
		want object.Key
	}{
		{"kube-system/coredns", object.Key{Namespace: "kube-system", Name: "coredns"}},
		{"node-1", object.Key{Name: "node-1"}},
		{"a/b", object.Key{Namespace: "a", Name: "b"}},
		{"system:node:x", object.Key{Name: "system:node:x"}},
		{"größe/名", object.Key{Namespace: "größe", Name: "名"}},
	} {
		got, err := object.Parse(c.in)
		if err != nil || got != c.want {
			t.Errorf("Parse(%q) = %#v, %v; want %#v", c.in, got, err, c.want)
		}
		if got.String() != c.in {
			t.Errorf("Parse(%q).String() = %q", c.in, got)
		}
	}
}

func TestParseErrorsNameTheExpectedForm(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"", `object: not a key: empty string; want "namespace/name" or "name"`},
		{"/", `object: not a key: "/" has an empty namespace; write just the name for a cluster-scoped object`},
		{"/x", `object: not a key: "/x" has an empty namespace; write just the name for a cluster-scoped object`},
		{"//", `object: not a key: "//" has an empty namespace; write just the name for a cluster-scoped object`},
		{"ns/", `object: not a key: "ns/" has an empty name after the slash`},
		{"a/b/c", `object: not a key: "a/b/c" has more than one slash; want "namespace/name"`},
		{"a//c", `object: not a key: "a//c" has more than one slash; want "namespace/name"`},
		{"a/b/", `object: not a key: "a/b/" has more than one slash; want "namespace/name"`},
		{"a/b/\n", `object: not a key: "a/b/\n" has more than one slash; want "namespace/name"`},
	} {
		got, err := object.Parse(c.in)
		if err == nil {
			t.Errorf("Parse(%q) = %#v; want an error", c.in, got)
			continue
		}
		if err.Error() != c.want {
			t.Errorf("Parse(%q):\n got %s\nwant %s", c.in, err, c.want)
		}
		if !errors.Is(err, object.ErrKey) {
			t.Errorf("Parse(%q): %v does not wrap ErrKey", c.in, err)
		}
		if !got.IsZero() {
			t.Errorf("Parse(%q) returned %#v with the error", c.in, got)
		}
	}
}

func TestRawKeyHoldsAnyString(t *testing.T) {
	for _, c := range []struct {
		in   string
		want object.Key
	}{
		{"", object.Key{}},
		{"name", object.Key{Name: "name"}},
		{"ns/name", object.Key{Namespace: "ns", Name: "name"}},
		{"ns/", object.Key{Namespace: "ns"}},
		{"/", object.Key{Name: "/"}},
		{"/name", object.Key{Name: "/name"}},
		{"//name", object.Key{Name: "//name"}},
		{"ns/a/b", object.Key{Namespace: "ns", Name: "a/b"}},
		{"ns//", object.Key{Namespace: "ns", Name: "/"}},
		{"\xff/\x00", object.Key{Namespace: "\xff", Name: "\x00"}},
	} {
		if got := object.RawKey(c.in); got != c.want {
			t.Errorf("RawKey(%q) = %#v; want %#v", c.in, got, c.want)
		}
	}
}

// keyText generates strings with many slashes and empty parts, and sometimes
// arbitrary bytes.
var keyText = rapid.OneOf(
	rapid.StringMatching(`[/ab]{0,6}`),
	rapid.StringMatching(`[a-z]{1,5}/[a-z]{1,5}`),
	rapid.String(),
	rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }),
)

// checkRawKey checks every guarantee of RawKey and Parse for s.
func checkRawKey(t interface{ Fatalf(string, ...any) }, s string) {
	raw := object.RawKey(s)
	if got := raw.String(); got != s {
		t.Fatalf("RawKey(%q).String() = %q", s, got)
	}
	if again := object.RawKey(raw.String()); again != raw {
		t.Fatalf("RawKey(%q) = %#v, after a round trip %#v", s, raw, again)
	}
	if raw.IsZero() != (s == "") {
		t.Fatalf("RawKey(%q).IsZero() = %v", s, raw.IsZero())
	}
	strict := s != "" && !strings.HasPrefix(s, "/") && !strings.HasSuffix(s, "/") && strings.Count(s, "/") <= 1
	parsed, err := object.Parse(s)
	switch {
	case strict != (err == nil):
		t.Fatalf("Parse(%q): error %v, but strict form is %v", s, err, strict)
	case err != nil && !errors.Is(err, object.ErrKey):
		t.Fatalf("Parse(%q): %v does not wrap ErrKey", s, err)
	case err == nil && parsed != raw:
		t.Fatalf("Parse(%q) = %#v, RawKey gives %#v", s, parsed, raw)
	}
}

func TestRawKeyRoundTripsAndAgreesWithParse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { checkRawKey(t, keyText.Draw(t, "s")) })
}

func TestRawKeyIsOneToOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := keyText.Draw(t, "a"), keyText.Draw(t, "b")
		if (object.RawKey(a) == object.RawKey(b)) != (a == b) {
			t.Fatalf("RawKey(%q) = %#v, RawKey(%q) = %#v", a, object.RawKey(a), b, object.RawKey(b))
		}
	})
}

func FuzzKey(f *testing.F) {
	for _, s := range []string{"", "/", "a", "a/b", "/b", "a/", "a/b/c", "//", "a\x00/b", "\xff", "ns/名"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) { checkRawKey(t, s) })
}

var anyKey = rapid.Custom(func(t *rapid.T) object.Key {
	// Few short parts, so that equal and adjacent keys are common. The
	// characters sort before, at and after the slash.
	part := rapid.StringMatching(`[-./0a]{0,3}`)
	return object.Key{Namespace: part.Draw(t, "namespace"), Name: part.Draw(t, "name")}
})

func TestKeyCompareIsATotalOrderByNamespaceThenName(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := anyKey.Draw(t, "a"), anyKey.Draw(t, "b"), anyKey.Draw(t, "c")
		want := cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
		if got := a.Compare(b); got != want {
			t.Fatalf("%#v.Compare(%#v) = %d, want %d", a, b, got, want)
		}
		if a.Compare(b) != -b.Compare(a) {
			t.Fatalf("%#v and %#v compare as %d and %d", a, b, a.Compare(b), b.Compare(a))
		}
		if (a.Compare(b) == 0) != (a == b) {
			t.Fatalf("%#v.Compare(%#v) = %d, but == says %v", a, b, a.Compare(b), a == b)
		}
		if a.Compare(b) <= 0 && b.Compare(c) <= 0 && a.Compare(c) > 0 {
			t.Fatalf("not transitive: %#v, %#v, %#v", a, b, c)
		}
	})
}

func TestNamespaceIsARangeOfKeys(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		keys := rapid.SliceOfN(anyKey, 1, 40).Draw(t, "keys")
		namespace := rapid.SampledFrom(keys).Draw(t, "of").Namespace
		from, to := object.Key{Namespace: namespace}, object.Key{Namespace: namespace + "\x00"}
		for _, k := range keys {
			in := from.Compare(k) <= 0 && k.Compare(to) < 0
			if in != (k.Namespace == namespace) {
				t.Fatalf("%#v in the range of namespace %q: %v", k, namespace, in)
			}
		}
		slices.SortFunc(keys, object.Key.Compare)
		seen := map[string]bool{}
		for i, k := range keys {
			if i > 0 && keys[i-1].Namespace == k.Namespace {
				continue
			}
			if seen[k.Namespace] {
				t.Fatalf("namespace %q is not in one piece: %v", k.Namespace, keys)
			}
			seen[k.Namespace] = true
		}
	})
}

func TestOnlyTheZeroKeyIsZero(t *testing.T) {
	for k, want := range map[object.Key]bool{
		{}: true, {Name: "a"}: false, {Namespace: "a"}: false, {Namespace: "a", Name: "b"}: false,
	} {
		if k.IsZero() != want {
			t.Errorf("%#v.IsZero() = %v", k, !want)
		}
	}
}
