package jsondec

import (
	"encoding/json"
	"math/rand"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tarnproject/tarn/internal/intern"
	"github.com/tarnproject/tarn/internal/soak"
	"github.com/tarnproject/tarn/object"
)

var dropped = []object.FieldPath{
	object.ManagedFields,
	object.LastApplied,
	{"metadata", "labels", "app"},
	{"spec", "containers", "env"},
	{"spec", "containers", "resources", "limits", "cpu"},
	{"spec", "volumes", "projected"},
	{"spec", "dnsNames"},
	{"spec", "template", "spec"},
	{"status", "conditions", "lastTransitionTime"},
	{"nowhere"},
}

// remove takes a path out of a decoded document.
func remove(v any, path object.FieldPath) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			remove(e, path)
		}
	case map[string]any:
		if len(path) == 1 {
			delete(v, path[0])
		} else {
			remove(v[path[0]], path[1:])
		}
	}
}

// checkDrop compares with decoding first and removing afterwards.
func checkDrop(tb testing.TB, t reflect.Type, m *machine, raw []byte) {
	tb.Helper()
	var buf []byte
	short, trimmed := m.trim(raw, &buf)
	doc := &unstructured.Unstructured{}
	if err := doc.UnmarshalJSON(raw); err != nil {
		if trimmed && m.root == nil {
			some, err := newMachine(t, Options{Only: []object.FieldPath{}})
			if err != nil {
				tb.Fatal(err)
			}
			if _, err := some.decode(raw); err == nil {
				tb.Fatalf("a part of it is decoded and the rest trimmed, but it is invalid: %v\n%s", err, raw)
			}
		}
		return
	}
	for _, path := range dropped {
		remove(doc.Object, path)
	}
	var want any = doc
	var wantErr error
	if m.root != nil {
		smaller, err := json.Marshal(doc.Object)
		if err != nil {
			tb.Fatal(err)
		}
		want, wantErr = reference(t, smaller)
	}
	if trimmed && wantErr == nil {
		if got, err := reference(t, short); err != nil || !reflect.DeepEqual(got, want) {
			tb.Fatalf("trimmed to %s: error %v, got %v\nwant %v\n%s", short, err, got, want, raw)
		}
	}
	for range 3 {
		p, err := m.decode(raw)
		if (err == nil) != (wantErr == nil) {
			tb.Fatalf("got error %v, want %v\n%s", err, wantErr, raw)
		}
		if err == nil {
			if got := reflect.NewAt(t.Elem(), p).Interface(); !reflect.DeepEqual(got, want) {
				tb.Fatalf("got %v\nwant %v\n%s", got, want, raw)
			}
		}
	}
}

func TestDroppingIsDecodingAndRemoving(t *testing.T) {
	r := rand.New(rand.NewSource(7))
	for _, typ := range []reflect.Type{reflect.TypeFor[*corev1.Pod](), reflect.TypeFor[*metav1.PartialObjectMetadata](), reflect.TypeFor[*unstructured.Unstructured](), reflect.TypeFor[*oddities]()} {
		for _, opts := range []Options{{Drop: dropped}, {Drop: dropped, Share: intern.NewParts(1 << 20)}} {
			m, err := newMachine(typ, opts)
			if err != nil {
				t.Fatal(err)
			}
			docs := podDocs(t)
			for i := range soak.Rounds(10) {
				raw := docs.next()
				if i%2 == 0 {
					raw = newEndless(certificate).next()
				}
				checkDrop(t, typ, m, raw)
				if damaged := damage(r, raw); m.root == nil {
					// A document with a field twice has no one form without it, so
					// only the untyped decoder, where the last wins, is held to it.
					checkDrop(t, typ, m, damaged)
				}
			}
			for _, raw := range []string{
				`{"kind":"x","metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{}"},"labels":{"app":"a"}}}`,
				`{"kind":"x","metadata":{"managedFields":5,"labels":{"\u0061pp":"a","b":"c"}}}`,
				`{"kind":"x","metadata":null,"spec":{"containers":[null,{"env":[]}]},"nowhere":1}`,
				`{"kind":"x","spec":{"template":{"spec":1,"a":[{"spec":2}]}},"raw":{"a":1}}`,
			} {
				checkDrop(t, typ, m, []byte(raw))
			}
		}
	}
}

func TestDroppingReachesIntoOpaqueFields(t *testing.T) {
	d, err := For[*oddities](Options{Drop: []object.FieldPath{{"raw", "secret"}, {"inner", "flat"}, {"structs", "k"}, {"any", "a", "b"}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, raw := range []string{
		`{"raw":{"secret":1,"open":[1, 2]},"inner":{"flat":true,"quoted":"1"},"structs":{"k":{},"l":{}},"any":{"a":[{"b":1,"c":2}]}}`,
		// The same by the slow path, since a field comes twice.
		`{"i8":1,"i8":2,"raw":{"secret":1,"open":[1, 2]},"inner":{"flat":true,"quoted":"1"},"structs":{"k":{},"l":{}},"any":{"a":[{"b":1,"c":2}]}}`,
	} {
		o, err := d.Decode([]byte(raw))
		if err != nil {
			t.Fatal(err)
		}
		if string(o.Raw.Raw) != `{"open":[1, 2]}` || o.Inner.Flat || o.Inner.Quoted != 1 || len(o.Structs) != 1 || !reflect.DeepEqual(o.Any, map[string]any{"a": []any{map[string]any{"c": int64(2)}}}) {
			t.Errorf("%+v, %s", o, o.Raw.Raw)
		}
	}
}

func TestADroppedFieldMustBeValidJSONAndNoMore(t *testing.T) {
	d, err := For[*corev1.Pod](Options{Drop: []object.FieldPath{{"spec"}}})
	if err != nil {
		t.Fatal(err)
	}
	if p, err := d.Decode([]byte(`{"spec":5,"metadata":{"name":"a"}}`)); err != nil || p.Name != "a" {
		t.Error(p, err)
	}
	if _, err := d.Decode([]byte(`{"spec":01,"metadata":{"name":"a"}}`)); err == nil || !strings.Contains(err.Error(), "invalid character") {
		t.Error(err)
	}
	if _, err := For[*corev1.Pod](Options{Drop: []object.FieldPath{{}}}); err == nil {
		t.Error("an empty path was accepted")
	}
}

func TestTrimmedObjectsHaveOnlyWhatTheirTypeHas(t *testing.T) {
	type part struct {
		Name string `json:"name"`
	}
	type small struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		Spec              struct {
			One  *part             `json:"one"`
			List []*part           `json:"list"`
			Map  map[string]part   `json:"map"`
			Any  any               `json:"any"`
			Text map[string]string `json:"text"`
		} `json:"spec"`
	}
	d, err := For[*small](Options{Drop: []object.FieldPath{{"spec", "any", "b"}, {"spec", "map", "m", "name"}}})
	if err != nil {
		t.Fatal(err)
	}
	got, ok := d.Trim([]byte(`{"kind":"A","apiVersion":"v1","metadata":{"name":"a","other":1},"status":{"x":[1,2]},"spec":{"none":[{}],
		"one":{"name":"b","size":1},"list":[{"size":2},null,{"name":"c"}],"map":{"k":{"name":"d","size":3},"m":{"name":"e"}},"any":{"a":[{"b":1}],"b":2},"text":{"a":"b"}}}`), new([]byte))
	want := `{"kind":"A","apiVersion":"v1","metadata":{"name":"a"},"spec":{"one":{"name":"b"},"list":[{},null,{"name":"c"}],` +
		`"map":{"k":{"name":"d"},"m":{}},"any":{"a":[{"b":1}]},"text":{"a":"b"}}}`
	if !ok || string(got) != want {
		t.Errorf("trimmed %t\n got %s\nwant %s", ok, got, want)
	}
}

func TestOnlyTheNamedFieldsOfUnstructuredObjectsAreDecoded(t *testing.T) {
	d, err := For[*unstructured.Unstructured](Options{
		Only: []object.FieldPath{{"metadata", "labels"}, {"spec", "items", "name"}, {"spec", "gone"}, {"nowhere"}},
		Drop: []object.FieldPath{{"spec", "gone"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	got, err := d.Decode([]byte(`{"apiVersion":"v1","kind":"Widget","metadata":{"name":"a","labels":{"x":"y"}},
		"spec":{"gone":1,"items":[{"name":"b","size":2},{"size":3}]},"status":{"name":"c"}}`))
	want := map[string]any{"apiVersion": "v1", "kind": "Widget", "metadata": map[string]any{"labels": map[string]any{"x": "y"}},
		"spec": map[string]any{"items": []any{map[string]any{"name": "b"}, map[string]any{}}}}
	if err != nil || !reflect.DeepEqual(got.Object, want) {
		t.Errorf("got %v, %v\nwant %v", err, got, want)
	}
}
