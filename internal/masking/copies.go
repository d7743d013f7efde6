package masking

import (
	"encoding/base64"
	"maps"
	"slices"
	"strings"

	"github.com/tarnproject/tarn/object"
)

// longest is the length in bytes up to which an annotation is shown.
const longest = 64

// Copies returns the names of the annotations of a Secret that may have copies of its present or
// earlier values; see [Object].
func Copies(content map[string]any) []string {
	h := hider{}
	for _, p := range secretPaths {
		h.hide(content, p, nil)
	}
	return h.copies(content)
}

// copies returns the names of the annotations that may have copies of hidden values. Tools keep what
// they applied in annotations, as JSON, YAML, or compressed. So only short texts without structure
// are shown, and only if they do not contain a hidden value.
func (h *hider) copies(content map[string]any) (names []string) {
	meta, _ := content["metadata"].(map[string]any)
	annotations, _ := meta["annotations"].(map[string]any)
	var forms []string
	for _, v := range h.values {
		plain, _ := base64.StdEncoding.DecodeString(v) // what is not base64 has no other form
		for _, form := range []string{v, strings.TrimSpace(v), base64.StdEncoding.EncodeToString([]byte(v)), string(plain), strings.TrimSpace(string(plain))} {
			if form != "" {
				forms = append(forms, form)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(annotations)) {
		text, _ := annotations[name].(string)
		has := func(form string) bool { return strings.Contains(text, form) }
		if len(text) > longest || strings.ContainsAny(text, "{\n") || slices.ContainsFunc(forms, has) {
			names = append(names, name)
		}
	}
	return names
}

// note keeps all strings in a hidden value.
func (h *hider) note(v any) {
	switch v := v.(type) {
	case string:
		h.values = append(h.values, v)
	case []any:
		for _, elem := range v {
			h.note(elem)
		}
	case map[string]any:
		for _, field := range v {
			h.note(field)
		}
	}
}

func annotation(name string) object.FieldPath {
	return object.FieldPath{"metadata", "annotations", name}
}
