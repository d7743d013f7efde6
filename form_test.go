package tarn

import (
	"bytes"
	"encoding/json"
	"maps"
	"math"
	"reflect"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"

	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/store"
	"github.com/tarnproject/tarn/wire"
)

// tree draws a value of an unstructured object.
func tree(depth int) *rapid.Generator[any] {
	kinds := []*rapid.Generator[any]{
		rapid.SampledFrom([]any{
			nil, true, false, "", "text", "\x00\xff\u2028", int64(0), int64(1), int64(-1), int64(math.MaxInt64), int64(math.MinInt64),
			0.0, math.Copysign(0, -1), 1.0, 1e3, -7.0, 0.5, 1e18, 1e21, 1.7976931348623157e308, 5e-324, float64(1 << 53), math.Inf(1),
			json.Number("1.0"), json.Number("12345678901234567890"), []any(nil), []any{}, map[string]any(nil), map[string]any{},
		}),
		rapid.Map(rapid.Int64(), func(v int64) any { return v }),
		rapid.Map(rapid.Float64(), func(v float64) any { return v }),
		rapid.Map(rapid.Int32(), func(v int32) any { return float64(v) }),
		rapid.Map(rapid.String(), func(v string) any { return v }),
	}
	if depth > 0 {
		kinds = append(kinds,
			rapid.Map(rapid.SliceOfN(tree(depth-1), 0, 4), func(v []any) any { return v }),
			rapid.Map(rapid.MapOfN(rapid.String(), tree(depth-1), 0, 4), func(v map[string]any) any { return v }),
		)
	}
	return rapid.OneOf(kinds...)
}

// exact reports whether two trees are equal in types, in nil and empty, and in the bits of
// their numbers.
func exact(a, b any) bool {
	if reflect.TypeOf(a) != reflect.TypeOf(b) {
		return false
	}
	switch a := a.(type) {
	case float64:
		return math.Float64bits(a) == math.Float64bits(b.(float64))
	case []any:
		b := b.([]any)
		return (a == nil) == (b == nil) && slices.EqualFunc(a, b, exact)
	case map[string]any:
		b := b.(map[string]any)
		return (a == nil) == (b == nil) && maps.EqualFunc(a, b, exact)
	}
	return a == b
}

var trees = map[string]*store.Form[*unstructured.Unstructured]{
	"packed": compactForm(nil, wire.Unstructured(object.Resource{})),
	"alone":  store.Packed(encodeTree, decodeTree),
}

// roundTrip encodes an object with a form and decodes it.
func roundTrip(form *store.Form[*unstructured.Unstructured], content map[string]any) (*unstructured.Unstructured, bool) {
	s, err := store.New(object.Meta[*unstructured.Unstructured](), store.Options[*unstructured.Unstructured]{Form: form})
	if err != nil {
		panic(err)
	}
	// An object that is not live is not remembered decoded.
	encoded, err := s.Encoder(func() bool { return false }).Encode(&unstructured.Unstructured{Object: content}, nil)
	if err != nil {
		return nil, false
	}
	return encoded.Get(), true
}

// The compact form preserves values exactly, including the type of each number.
func TestTheCompactFormOfUnstructuredObjectsIsExact(t *testing.T) {
	for name, form := range trees {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				want := rapid.MapOfN(rapid.String(), tree(4), 0, 6).Draw(t, "content")
				got, ok := roundTrip(form, want)
				if !ok || !exact(got.Object, want) {
					t.Fatalf("got  %#v\nwant %#v", got, want)
				}
			})
		})
	}
}

// Equal trees have equal encodings; otherwise the mutation detector would report a difference.
func TestEqualTreesHaveEqualEncodings(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := &unstructured.Unstructured{Object: rapid.MapOfN(rapid.String(), tree(3), 0, 6).Draw(t, "content")}
		first, err := encodeTree(want)
		if err != nil {
			t.Fatal(err)
		}
		again, err := decodeTree(first)
		if err != nil {
			t.Fatal(err)
		}
		if second, err := encodeTree(again); err != nil || !bytes.Equal(first, second) {
			t.Fatalf("%q and %q, %v", first, second, err)
		}
		for n := range first {
			if _, err := decodeTree(first[:n]); err == nil {
				t.Fatalf("%d of %d bytes are a tree", n, len(first))
			}
		}
	})
}

// Values that apimachinery does not allow in unstructured objects are stored as JSON or rejected,
// without a panic.
func TestTheCompactFormEncodesOrRejectsTransformedValues(t *testing.T) {
	loop := map[string]any{}
	loop["self"] = loop
	for what, c := range map[string]struct{ value, want any }{
		"int":            {7, int64(7)},
		"strings":        {[]string{"a", "b"}, []any{"a", "b"}},
		"map of strings": {map[string]string{"a": "b"}, map[string]any{"a": "b"}},
		"itself":         {loop, nil},
		"a function":     {func() {}, nil},
	} {
		for name, form := range trees {
			got, ok := roundTrip(form, map[string]any{"value": c.value})
			if ok != (c.want != nil) || ok && !exact(got.Object["value"], c.want) {
				t.Errorf("%s, %s: %#v, %v", what, name, got, ok)
			}
		}
	}
}
