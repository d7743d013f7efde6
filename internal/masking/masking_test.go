package masking_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/tarnproject/tarn/internal/masking"
	"github.com/tarnproject/tarn/object"
)

func content(t *testing.T, text string) (m map[string]any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestSecretValuesAndConfiguredFieldsAreHidden(t *testing.T) {
	secrets := object.Resource{Version: "v1", Resource: "secrets", Kind: "Secret"}
	widgets := object.Resource{Group: "example.com", Version: "v1", Resource: "widgets", Kind: "Widget"}
	for name, tt := range map[string]struct {
		res    object.Resource
		text   string
		paths  []object.FieldPath
		want   string
		masked string
	}{
		"a Secret": {
			secrets, `{"type":"t","data":{"a":"x","b":"x"},"stringData":{"c":"x"},"metadata":{"name":"n","annotations":{"kubectl.kubernetes.io/last-applied-configuration":"x","n":"y"}}}`, nil,
			`{"type":"t","data":{"a":"********","b":"********"},"stringData":{"c":"********"},"metadata":{"name":"n","annotations":{"kubectl.kubernetes.io/last-applied-configuration":"********","n":"y"}}}`,
			"data.a data.b stringData.c metadata.annotations[kubectl.kubernetes.io/last-applied-configuration]",
		},
		"copies of a Secret": {
			secrets, `{"data":{"a":"c2VjcmV0"},"stringData":{"b":"pass\"word"},"metadata":{"annotations":{"a.example.com/plain":"the secret","b.example.com/encoded":"x c2VjcmV0 y",` +
				`"c.example.com/other":"cGFzcyJ3b3Jk","d.example.com/escaped":"{\"x\":[\"my pass\\\"word\"]}","kapp.k14s.io/original":"{\"kind\":\"Secret\",\"data\":{\"a\":\"b2xk\"}}",` +
				`"e.example.com/yaml":"stringData:\n  a: old\n","f.example.com/nested":"[{\"old\":{\"data\":{}}}]","g.example.com/json":"{\"size\": 3}","h.example.com/fine":"a: b: c","i.example.com/long":"H4sIAAAAAAAAAyvOTU0pzUlVKC1OLVIoz8gsSVUoyShKTU1RyEwBAFRZH3AfAAAAQ2"}}}`, nil,
			`{"data":{"a":"********"},"stringData":{"b":"********"},"metadata":{"annotations":{"a.example.com/plain":"********","b.example.com/encoded":"********",` +
				`"c.example.com/other":"********","d.example.com/escaped":"********","kapp.k14s.io/original":"********",` +
				`"e.example.com/yaml":"********","f.example.com/nested":"********","g.example.com/json":"********","h.example.com/fine":"a: b: c","i.example.com/long":"********"}}}`,
			"data.a stringData.b metadata.annotations[a.example.com/plain] metadata.annotations[b.example.com/encoded] metadata.annotations[c.example.com/other] metadata.annotations[d.example.com/escaped] " +
				"metadata.annotations[e.example.com/yaml] metadata.annotations[f.example.com/nested] metadata.annotations[g.example.com/json] metadata.annotations[i.example.com/long] metadata.annotations[kapp.k14s.io/original]",
		},
		"a Secret with invalid data": {secrets, `{"data":"x"}`, nil, `{"data":"********"}`, "data"},
		"a Secret of another resource": {
			widgets, `{"apiVersion":"v1","kind":"Secret","data":{"a":"x"}}`, nil, `{"apiVersion":"v1","kind":"Secret","data":{"a":"********"}}`, "data.a",
		},
		"another kind": {widgets, `{"data":{"a":"x"}}`, nil, `{"data":{"a":"x"}}`, ""},
		"configured fields": {
			widgets, `{"spec":{"token":"x","size":3,"hooks":[{"url":"x"},{"name":"b"},{"url":{"a":"x"}}]}}`,
			[]object.FieldPath{{"spec", "token"}, {"spec", "hooks", "url"}, {"spec", "absent", "url"}, {"spec", "size", "url"}},
			`{"spec":{"token":"********","size":3,"hooks":[{"url":"********"},{"name":"b"},{"url":"********"}]}}`, "spec.token spec.hooks.url",
		},
		"copies of a configured field": {
			widgets, `{"spec":{"token":"top secret\n"},"metadata":{"annotations":{"a":"a top secret value","b":"fine"}}}`, []object.FieldPath{{"spec", "token"}},
			`{"spec":{"token":"********"},"metadata":{"annotations":{"a":"********","b":"fine"}}}`, "spec.token metadata.annotations.a",
		},
		"the copy that kubectl keeps": {
			widgets, `{"metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"x"}}}`, []object.FieldPath{{"spec", "token"}},
			`{"metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"********"}}}`, "metadata.annotations[kubectl.kubernetes.io/last-applied-configuration]",
		},
	} {
		given := content(t, tt.text)
		got, masked := masking.Object(tt.res, given, tt.paths)
		if !reflect.DeepEqual(got, content(t, tt.want)) || strings.Join(masked, " ") != tt.masked {
			t.Errorf("%s: %v, masked %v", name, got, masked)
		}
		if !reflect.DeepEqual(given, content(t, tt.text)) {
			t.Errorf("%s: the object was modified: %v", name, given)
		}
	}
}
