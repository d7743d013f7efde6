package wire

import (
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tarnproject/tarn/object"
)

func TestApplyAddsKindAndName(t *testing.T) {
	for name, config := range map[string]any{
		"a map":        map[string]any{"spec": map[string]any{"watts": 40}},
		"with a kind":  map[string]any{"apiVersion": "home.example/v1", "kind": "Lamp", "spec": map[string]any{"watts": 40}, "metadata": map[string]any{"name": "desk", "managedFields": []any{1}}},
		"a Go type":    &Lamp{Spec: LampSpec{Watts: 40}},
		"raw JSON":     json.RawMessage(`{"spec":{"watts":40},"metadata":null}`),
		"unstructured": &unstructured.Unstructured{Object: map[string]any{"apiVersion": "home.example/v1", "kind": "Lamp", "spec": map[string]any{"watts": int64(40)}}},
	} {
		data, err := applyBody(config, object.Key{Namespace: "home", Name: "desk"}, lampResource.GVK())
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var u unstructured.Unstructured
		if err := json.Unmarshal(data, &u.Object); err != nil {
			t.Fatal(err)
		}
		if u.GetKind() != "Lamp" || u.GetAPIVersion() != "home.example/v1" || u.GetName() != "desk" || u.GetNamespace() != "home" || u.GetManagedFields() != nil {
			t.Errorf("%s becomes %s", name, data)
		}
	}
	for want, config := range map[string]any{
		"not an object":          "text",
		"encode the apply":       func() {},
		`kind of the apply`:      map[string]any{"kind": "Chair"},
		`name of the apply`:      map[string]any{"metadata": map[string]any{"name": "other"}},
		"is not a string":        map[string]any{"kind": 1},
		"metadata is not an obj": map[string]any{"metadata": 1},
		"configuration <nil> is": nil,
	} {
		if _, err := applyBody(config, object.Key{Name: "desk"}, lampResource.GVK()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v; want %q in it", config, err, want)
		}
	}
}
