package masking

import (
	"encoding/base64"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// Copies returns the names of the annotations of a Secret that may have copies of its values, as
// tools write them that remember what they applied: those that contain a value, encoded or not, and
// those that are an object, as JSON or YAML, with a field data or stringData at any depth.
func Copies(content map[string]any) (names []string) {
	meta, _ := content["metadata"].(map[string]any)
	annotations, _ := meta["annotations"].(map[string]any)
	if len(annotations) == 0 {
		return nil
	}
	values := secretValues(content)
	for _, name := range slices.Sorted(maps.Keys(annotations)) {
		if text, ok := annotations[name].(string); ok && values.in(text) {
			names = append(names, name)
		}
	}
	return names
}

// secrets are the values of a Secret, each as it is and as base64.
type secrets []string

func secretValues(content map[string]any) (all secrets) {
	each := func(field string, other func(string) string) {
		fields, _ := content[field].(map[string]any)
		for _, v := range fields {
			text, _ := v.(string)
			for _, value := range []string{text, other(text)} {
				if value != "" {
					all = append(all, value)
				}
			}
		}
	}
	each("data", func(text string) string {
		plain, _ := base64.StdEncoding.DecodeString(text) // what is not base64 has no other form
		return string(plain)
	})
	each("stringData", func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) })
	return all
}

// in reports whether a text has one of the values, or is an object that may.
func (s secrets) in(text string) bool {
	if s.within(text) {
		return true
	}
	var parsed any
	if !strings.ContainsAny(text, "{[:") || yaml.Unmarshal([]byte(text), &parsed) != nil {
		return false
	}
	return s.inValue(parsed)
}

func (s secrets) within(text string) bool {
	return slices.ContainsFunc(s, func(value string) bool { return strings.Contains(text, value) })
}

func (s secrets) inValue(v any) bool {
	switch v := v.(type) {
	case string:
		return s.within(v)
	case []any:
		return slices.ContainsFunc(v, s.inValue)
	case map[string]any:
		for name, field := range v {
			if name == "data" || name == "stringData" || s.within(name) || s.inValue(field) {
				return true
			}
		}
	}
	return false
}
