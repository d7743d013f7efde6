package store

import (
	"testing"

	"github.com/tarnproject/tarn/object"
	"pgregory.net/rapid"
)

// TestCompactIdentitiesAreAsExactAsTheTexts compares compact identities, where there are any,
// and their texts.
func TestCompactIdentitiesAreAsExactAsTheTexts(t *testing.T) {
	uid := rapid.Custom(func(t *rapid.T) object.UID {
		s := []byte("0c6a1ee2-6a0f-4b43-9f07-57a0be1b1f4d")
		for range rapid.IntRange(0, 2).Draw(t, "changes") {
			s[rapid.IntRange(0, len(s)-1).Draw(t, "at")] = rapid.SampledFrom([]byte("0123456789abcdefAFg/:@`-\x00\xff")).Draw(t, "byte")
		}
		return object.UID(s[:rapid.SampledFrom([]int{36, 36, 36, 36, 36, 36, 35, 0}).Draw(t, "length")])
	})
	version := rapid.Custom(func(t *rapid.T) object.Version {
		return object.Version(rapid.SampledFrom([]string{
			"1", "2", "9", "10", "11", "12", "900", "", "0", "010", "12x", "9999999999999999999", "18446744073709551615",
			"18446744073709551616", "99999999999999999999", "+1",
		}).Draw(t, "version"))
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := identityFrom(uid.Draw(t, "a"), version.Draw(t, "va")), identityFrom(uid.Draw(t, "b"), version.Draw(t, "vb"))
		if a.both(&b) {
			if full := a.compact.texts(); full != a {
				t.Errorf("%q@%q comes back as %q@%q", a.uid, a.version, full.uid, full.version)
			}
		}
		textA, textB := identity{uid: a.uid, version: a.version}, identity{uid: b.uid, version: b.version}
		for name, compare := range map[string]func(a, b *identity) bool{
			"same": (*identity).same, "otherUID": (*identity).otherUID,
			"deletedBy": (*identity).deletedBy, "notBefore": (*identity).notBefore,
		} {
			if got, want := compare(&a, &b), compare(&textA, &textB); got != want {
				t.Errorf("%s of %q@%q and %q@%q in compact: %v, by text: %v", name, a.uid, a.version, b.uid, b.version, got, want)
			}
		}
	})
	a, b := identityFrom("0c6a1ee2-6a0f-4b43-9f07-57a0be1b1f4d", "1"), identityFrom("0c6a1ee2-6a0f-4b43-9f07-57a0be1b1f4e", "900")
	if !a.both(&b) {
		t.Error("ordinary identities have no compact form")
	}
	for _, digit := range []byte("0123456789abcdef") {
		s := []byte("00000000-0000-4000-8000-000000000000")
		for i := range s {
			if s[i] == '-' {
				continue
			}
			was := s[i]
			s[i] = digit
			b := compactIDFrom(object.UID(s), "1")
			if s[i] = was; b == (compactID{}) {
				t.Errorf("the digit %q has no compact form", digit)
			}
			if changed := b != compactIDFrom(object.UID(s), "1"); changed != (digit != was) {
				t.Errorf("the digit %q in place of %q at %d: changed %v", digit, was, i, changed)
			}
		}
	}
}
