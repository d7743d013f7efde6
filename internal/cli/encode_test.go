package cli

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"
)

// texts generates strings that are hard to encode: control characters, noncharacters,
// bidirectional controls, surrogates, invalid UTF-8 and YAML syntax.
func texts() *rapid.Generator[string] {
	part := rapid.OneOf(
		rapid.SampledFrom([]string{
			"\x7f", "\ufffe", "\uffff", "\U0001fffe", "\U0010ffff", "\ufdd0", "\ufeff", "\u0085", "\u2028", "\u2029", "\u202e", "\u2066", "\u200d",
			"\u009b", "\x1b", "\x00", "\xed\xa0\x80", "\xed\xbf\xbf", "\xff", "\xc2", "\xf0\x9f", "\U0001f600", "\ue000", "\U000e0001", "\u00a0", "\u3000",
			"\n", "\n\n", "\t", "\r", "\r\n", " ", "  ", "- ", ": ", ":", "#", " #", "'", `"`, `\`, "|", ">", "%", "@", "`", "&a", "*a", "!!str", "? ", "---", "...",
			"yes", "null", "~", "0x1f", "1e3", "1_000", "12:30:45", "2001-01-01", "<<", "=", "{", "}", "[", "]", ",", "tarn-quoted", "-x",
		}),
		rapid.StringN(0, 5, -1),
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 4), func(b []byte) string { return string(b) }),
	)
	return rapid.Custom(func(t *rapid.T) string {
		s := strings.Join(rapid.SliceOfN(part, 0, 8).Draw(t, "parts"), "")
		if rapid.IntRange(0, 9).Draw(t, "long") == 0 {
			s = strings.Repeat(s, 300)
		}
		return s
	})
}

// keys generates such keys, of a length that Kubernetes allows.
func keys() *rapid.Generator[string] {
	return texts().Filter(func(s string) bool { return len(s) <= 100 })
}

// trees generates objects with such keys and values.
func trees() *rapid.Generator[map[string]any] {
	return rapid.Custom(func(t *rapid.T) map[string]any {
		return map[string]any{
			"text": texts().Draw(t, "text"),
			"list": []any{texts().Draw(t, "first"), int64(7), texts().Draw(t, "second"), map[string]any{keys().Draw(t, "key"): texts().Draw(t, "value")}},
			"map":  map[string]any{keys().Draw(t, "key"): texts().Draw(t, "value"), keys().Draw(t, "key"): map[string]any{"a": texts().Draw(t, "value")}},
		}
	})
}

// asJSON returns a value after a JSON round trip, which replaces invalid UTF-8 with U+FFFD.
func asJSON(t *rapid.T, v any) (out any) {
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// onlyShown fails if text contains characters that a terminal would interpret.
func onlyShown(t *rapid.T, text string) {
	if !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return !shown(r) && r != '\n' }) {
		t.Fatalf("raw in %q", text)
	}
}

func TestYAMLRoundTrips(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree := trees().Draw(t, "tree")
		text, err := yamlText(tree)
		if err != nil {
			t.Fatal(err)
		}
		onlyShown(t, text)
		var got any
		if err := yaml.Unmarshal([]byte(text), &got); err != nil {
			t.Fatalf("%v:\n%s", err, text)
		}
		if want := asJSON(t, tree); !reflect.DeepEqual(got, want) {
			t.Fatalf("%q came back as %q by\n%s", want, got, text)
		}
	})
}

func TestJSONRoundTrips(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree := trees().Draw(t, "tree")
		text, err := jsonText(tree)
		if err != nil {
			t.Fatal(err)
		}
		onlyShown(t, text)
		var got any
		if err := json.Unmarshal([]byte(text), &got); err != nil || strings.Contains(text, "\n") {
			t.Fatalf("%v:\n%s", err, text)
		}
		if want := asJSON(t, tree); !reflect.DeepEqual(got, want) {
			t.Fatalf("%q came back as %q by\n%s", want, got, text)
		}
	})
}

func TestPlainTextIsOnePrintableLine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := texts().Draw(t, "text")
		if got := plain(text); strings.ContainsFunc(got, func(r rune) bool { return !shown(r) }) || !utf8.ValidString(got) {
			t.Fatalf("%q", got)
		}
		var out strings.Builder
		if n, err := newPrinter(&out).Write([]byte(text)); n != len(text) || err != nil {
			t.Fatal(n, err)
		}
		onlyShown(t, strings.ReplaceAll(out.String(), "\t", ""))
	})
}
