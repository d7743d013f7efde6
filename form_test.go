package tarn

import (
	"math"
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/tarnproject/tarn/internal/testkit"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/store"
	"github.com/tarnproject/tarn/wire"
	"github.com/tarnproject/tarn/wire/stream"
)

// What a transform sets in an unstructured object is held as JSON: a whole number is an int64 after that, as in what the
// server sends. Values that JSON cannot hold are refused, without a panic.
func TestTheCompactFormEncodesOrRejectsTransformedValues(t *testing.T) {
	loop := map[string]any{}
	loop["self"] = loop
	res := wire.Unstructured(object.Resource{Version: "v1", Resource: "widgets", Kind: "Widget"})
	client := testkit.Must(wire.New(&rest.Config{Host: "https://127.0.0.1:1"}, wire.Options{}))
	source := testkit.Must(stream.NewSource(wire.For(client, res), object.Selection{}, stream.Options{DisableSharing: true}))
	s := testkit.Must(store.New(object.Meta[*unstructured.Unstructured](), store.Options[*unstructured.Unstructured]{Form: store.Packed(encodingOf(source, res))}))
	for what, c := range map[string]struct{ value, want any }{
		"int64":            {int64(math.MaxInt64), int64(math.MaxInt64)},
		"a fraction":       {0.1, 0.1},
		"a whole float64":  {1.0, int64(1)},
		"a large float64":  {1e30, 1e30},
		"text":             {"<\u2028>", "<\u2028>"},
		"nothing":          {nil, nil},
		"an empty list":    {[]any{}, []any{}},
		"a map":            {map[string]any{"a": true}, map[string]any{"a": true}},
		"int":              {7, int64(7)},
		"strings":          {[]string{"a", "b"}, []any{"a", "b"}},
		"map of strings":   {map[string]string{"a": "b"}, map[string]any{"a": "b"}},
		"itself":           {loop, errNotObject},
		"a function":       {func() {}, errNotObject},
		"an infinite size": {math.Inf(1), errNotObject},
	} {
		obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Widget", "metadata": map[string]any{"name": "a"}, "value": c.value}}
		// An object that is not live is not remembered decoded.
		encoded, err := s.Encoder(func() bool { return false }).Encode(obj, nil)
		if refused := c.want == errNotObject; refused || err != nil {
			if !refused || err == nil {
				t.Errorf("%s: the error is %v", what, err)
			}
			continue
		}
		if got := encoded.Get().Object["value"]; !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %#v, want %#v", what, got, c.want)
		}
	}
}
