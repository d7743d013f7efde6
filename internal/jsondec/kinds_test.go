package jsondec

import (
	"bytes"
	"encoding/json"
	"math/rand"
	"reflect"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tarnproject/tarn/internal/decodertest"
	"github.com/tarnproject/tarn/internal/soak"
)

func TestEveryBuiltInKindDecodesAsApimachineryDoes(t *testing.T) {
	untyped := trialFor[*unstructured.Unstructured](t)
	fast, accepted := 0, 0
	fill := decodertest.Filler(1).NilChance(0.4).NumElements(0, 2).MaxDepth(14)
	r := rand.New(rand.NewSource(2))
	for _, kind := range soak.Part(decodertest.Kinds()) {
		tr := newTrial(t, reflect.PointerTo(kind))
		for range soak.Rounds(1) {
			obj := reflect.New(kind).Interface()
			fill.Fill(obj)
			raw, err := json.Marshal(obj)
			if err != nil {
				t.Fatalf("%v: %v", kind, err)
			}
			if kind, ok := bytes.CutPrefix(raw, []byte("{")); ok && len(kind) > 1 {
				raw = slices.Concat([]byte(`{"kind":"Any","apiVersion":"v1",`), kind)
			}
			tr.check(t, raw)
			untyped.check(t, raw)
			damaged := damage(r, raw)
			tr.check(t, damaged)
			untyped.check(t, damaged)
		}
		if tr.fast == 0 {
			t.Errorf("%v: no document went the fast way", kind)
		}
		fast, accepted = fast+tr.fast, accepted+tr.accepted
	}
	t.Logf("%d of %d typed and %d of %d untyped documents went the fast way", fast, accepted, untyped.fast, untyped.accepted)
	if fast < accepted*8/10 {
		t.Errorf("only %d of %d documents went the fast way", fast, accepted)
	}
}

// damage returns raw with one small change: mostly one that leaves it JSON.
func damage(r *rand.Rand, raw []byte) []byte {
	out := slices.Clone(raw)
	i := r.Intn(len(out))
	at := func(c byte) int { // the next c from i on, or i
		for j := i; j < len(out); j++ {
			if out[j] == c {
				return j
			}
		}
		return i
	}
	odd := []string{
		"null", "{}", "[]", `""`, "0", "-0", "1.0", "1e3", "1E400", "9223372036854775807", "9223372036854775808",
		"-2147483649", "true", `"\u0041\ud83d\ude00\ud800"`, "\"\xff\xc3\"", `"1"`, `"2020-01-01T00:00:00Z"`, `["a"]`, `{"a":1}`,
		`{"name":null}`, `[null]`, `"AAA="`, "1 ", "nul", "01", "+1", ".5", "1.", `"\x"`, "\"\x01\"", `'a'`, "NaN",
	}
	switch r.Intn(8) {
	case 0:
		out[i] ^= 1 << r.Intn(8)
	case 1:
		out = out[:i]
	case 2: // another value
		j := at(':') + 1
		if end := endOfValue(out, j); end > 0 {
			out = slices.Concat(out[:j], []byte(odd[r.Intn(len(odd))]), out[end:])
		}
	case 3: // another name for a field
		j := at(':')
		out = slices.Concat(out[:max(j-1, 0)], []byte("X"), out[max(j-1, 0):])
	case 4: // an unknown field, or one twice
		j := at('{') + 1
		name := []string{"metadata", "name", "spec", "unknown", "na\\u006de", "Name", "items", "kind"}[r.Intn(8)]
		comma := ","
		if j < len(out) && out[j] == '}' {
			comma = ""
		}
		out = slices.Concat(out[:j], []byte(`"`+name+`":`+odd[r.Intn(len(odd))]+comma), out[j:])
	case 5: // space
		j := at(',')
		out = slices.Concat(out[:j], []byte(" \n\t\r"), out[j:])
	case 6: // the same member twice
		j := at('"')
		if end, _ := endOfText(out, j); end > 0 && end < len(out) && out[end] == ':' {
			if stop := endOfValue(out, end+1); stop > 0 {
				out = slices.Concat(out[:stop], []byte(","), out[j:stop], out[stop:])
			}
		}
	default:
		out = append(out, []string{" ", "\n", "}", "x", "\x00", "{}"}[r.Intn(6)]...)
	}
	return out
}
