package cli

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"

	"github.com/tarnproject/tarn/internal/objectdiff"
	"github.com/tarnproject/tarn/object"
)

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{}
	if err := obj.UnmarshalJSON([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return obj
}

func TestDiffNamesEachFieldThatDiffers(t *testing.T) {
	for name, c := range map[string]struct {
		old, new string
		want     []string
	}{
		"nothing":            {`{"a":1}`, `{"a":1}`, nil},
		"a value":            {`{"a":1}`, `{"a":2}`, []string{"a: 1 → 2"}},
		"a type":             {`{"a":"1"}`, `{"a":1}`, []string{`a: "1" → 1`}},
		"null is a value":    {`{}`, `{"a":null}`, []string{"+ a: null"}},
		"leaf by leaf":       {`{}`, `{"a":{"b":1,"c":{"d":"x"}}}`, []string{"+ a.b: 1", "+ a.c.d: x"}},
		"an empty container": {`{}`, `{"a":{},"b":[]}`, []string{"+ a: {}", "+ b: []"}},
		"odd names":          {`{"app.io/x":"a"}`, `{}`, []string{`- ["app.io/x"]: a`}},
		"by name": {
			`{"c":[{"name":"a","v":1},{"name":"b","v":1}]}`, `{"c":[{"name":"b","v":2}]}`,
			[]string{"- c[name=a].name: a", "- c[name=a].v: 1", "c[name=b].v: 1 → 2"},
		},
		"by type":     {`{"c":[{"type":"Ready","s":"F"}]}`, `{"c":[{"type":"Ready","s":"T"}]}`, []string{"c[type=Ready].s: F → T"}},
		"by place":    {`{"c":[{"v":1},{"v":2}]}`, `{"c":[{"v":1},{"v":3}]}`, []string{"c[1].v: 2 → 3"}},
		"scalars":     {`{"c":["a","b"]}`, `{"c":["b","d"]}`, []string{"- c[0]: a", "+ c[1]: d"}},
		"their order": {`{"c":["a","b"]}`, `{"c":["b","a"]}`, []string{`c: ["a","b"] → ["b","a"]`}},
		"elements' order": {
			`{"c":[{"name":"a"},{"name":"b"}]}`, `{"c":[{"name":"b"},{"name":"a"}]}`,
			[]string{`c: "in the order a, b" → "in the order b, a"`},
		},
		"two of a name":   {`{"c":[{"name":"a","v":1},{"name":"a","v":1}]}`, `{"c":[{"name":"a","v":1},{"name":"a","v":2}]}`, []string{"c[1].v: 1 → 2"}},
		"looks like JSON": {`{"a":"x"}`, `{"a":"true"}`, []string{`a: x → "true"`}},
		"no escapes":      {`{"a":"x"}`, `{"a":"\u001b[31m"}`, []string{`a: x → "\u001b[31m"`}},
	} {
		t.Run(name, func(t *testing.T) {
			var old, new map[string]any
			if json.Unmarshal([]byte(c.old), &old) != nil || json.Unmarshal([]byte(c.new), &new) != nil {
				t.Fatal("bad JSON")
			}
			var text page
			for _, e := range objectdiff.Diff(old, new) {
				fieldEdits{}.edit(&text, e, false)
			}
			var got []string
			for line := range strings.Lines(text.String()) {
				got = append(got, strings.TrimSpace(line))
			}
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// values generates small JSON values, so that equal ones are common.
func values() *rapid.Generator[any] {
	leaf := rapid.OneOf(
		rapid.Map(rapid.SampledFrom([]string{"", "a", "b"}), func(s string) any { return s }),
		rapid.Map(rapid.Int64Range(0, 2), func(n int64) any { return n }),
		rapid.Just[any](nil), rapid.Just[any](true),
	)
	value := leaf
	for range 3 {
		inner := value
		value = rapid.OneOf(leaf,
			rapid.Map(rapid.SliceOfN(inner, 0, 3), func(l []any) any { return l }),
			rapid.Map(rapid.MapOfN(rapid.SampledFrom([]string{"name", "x", "y"}), inner, 0, 3), func(m map[string]any) any { return m }),
		)
	}
	return value
}

func TestDiffIsEmptyForEqualValuesOnly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		old, new := values().Draw(t, "old"), values().Draw(t, "new")
		if edits := objectdiff.Diff(old, old); len(edits) != 0 {
			t.Fatalf("a value differs from itself: %v", edits)
		}
		same := reflect.DeepEqual(old, new)
		if edits := objectdiff.Diff(old, new); (len(edits) == 0) != same {
			t.Fatalf("equal %v, edits %v", same, edits)
		}
		for _, e := range objectdiff.Diff(old, new) {
			if reflect.DeepEqual(e.Old, e.New) {
				t.Fatalf("nothing changes at %s", e.Path.String())
			}
		}
	})
}

func TestLineEditsTransformOneTextIntoTheOther(t *testing.T) {
	line := rapid.SampledFrom([]string{"a", "b", "c"})
	rapid.Check(t, func(t *rapid.T) {
		old, new := rapid.SliceOfN(line, 0, 8).Draw(t, "old"), rapid.SliceOfN(line, 0, 8).Draw(t, "new")
		edits := lineEdits(old, new)
		gone, came := map[string]int{}, map[string]int{}
		for _, e := range edits {
			if e.sign == '-' {
				gone[e.text]++
			} else {
				came[e.text]++
			}
		}
		for _, text := range []string{"a", "b", "c"} {
			n := func(list []string) (n int) {
				for _, l := range list {
					if l == text {
						n++
					}
				}
				return n
			}
			if n(old)-gone[text]+came[text] != n(new) {
				t.Fatalf("%q: %v do not lead from %v to %v", text, edits, old, new)
			}
		}
		if reflect.DeepEqual(old, new) != (len(edits) == 0) && len(old)+len(new) > 0 {
			t.Fatalf("%v and %v: %v", old, new, edits)
		}
	})
}

var (
	configMaps = object.Resource{Version: "v1", Resource: "configmaps", Kind: "ConfigMap", Namespaced: true}
	secrets    = object.Resource{Version: "v1", Resource: "secrets", Kind: "Secret", Namespaced: true}
)

func TestDifferencesAreShownFieldByField(t *testing.T) {
	key := object.Key{Namespace: "shop", Name: "web"}
	old := parse(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"shop","name":"web","resourceVersion":"1",
		"labels":{"app.io/part":"web"},"managedFields":[{"manager":"a","time":"1"}]},
		"data":{"mode":"fast","file":"one\ntwo\nthree\n","old":"x"}}`)
	new := parse(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"shop","name":"web","resourceVersion":"2",
		"labels":{"app.io/part":"api"},"managedFields":[{"manager":"a","time":"2"}]},
		"data":{"mode":"very slow","file":"one\n2\nthree\nfour\n","new":"y"}}`)
	touched := parse(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"shop","name":"web","resourceVersion":"3",
		"labels":{"app.io/part":"web"},"managedFields":[{"manager":"a","time":"3"}]},
		"data":{"mode":"fast","file":"one\ntwo\nthree\n","old":"x"}}`)
	all := []objectChange{
		{res: configMaps, key: key, kind: object.Added, initial: true, obj: old},
		{res: configMaps, key: key, kind: object.Added, obj: old},
		{res: configMaps, key: key, kind: object.Updated, old: old, obj: new},
		{res: configMaps, key: key, kind: object.Updated, old: old, obj: touched},
		{res: configMaps, key: key, kind: object.Deleted, obj: new},
		{res: configMaps, key: key, kind: object.Deleted, unseen: true, obj: new},
	}
	var text strings.Builder
	for _, c := range []struct{ noise, paint bool }{{}, {noise: true}, {paint: true}} {
		b := &page{paint: paint(c.paint)}
		made, err := rendering{output: "diff", noise: c.noise}.renderer()
		if err != nil {
			t.Fatal(err)
		}
		if err := made.render(b, all); err != nil {
			t.Fatal(err)
		}
		text.WriteString(strings.ReplaceAll(b.String(), "\x1b", "<ESC>") + "====\n")
	}
	golden(t, "differences", text.String())
}
