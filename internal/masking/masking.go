// Package masking hides secret values in the contents of objects that are shown.
package masking

import (
	"maps"
	"slices"

	"github.com/tarnproject/tarn/object"
)

// Hidden replaces secret values. Its length is independent of theirs.
const Hidden = "********"

// secretPaths are the fields of a Secret that hold its values.
var secretPaths = []object.FieldPath{{"data"}, {"stringData"}}

// IsSecret reports whether the resource or the object's own kind is Secret. The content may be nil.
func IsSecret(res object.Resource, content map[string]any) bool {
	return res.Group == "" && (res.Resource == "secrets" || res.Kind == "Secret") ||
		content["kind"] == "Secret" && content["apiVersion"] == "v1"
}

// Object returns the content of an object without its secret values, and the paths of what it hid:
// the values of the data and stringData of a Secret, whose keys stay, and the fields at the given
// paths. Of Secrets, and with paths, it also hides what may have copies: kubectl's last-applied annotation,
// annotations that are longer than 64 bytes, have structure or contain a hidden value, and with paths the
// managed fields, which have some values. The given content is not modified; the result shares what is
// not hidden.
func Object(res object.Resource, content map[string]any, paths []object.FieldPath) (out map[string]any, masked []string) {
	secret := IsSecret(res, content)
	if !secret && len(paths) == 0 {
		return content, nil
	}
	h := hider{}
	var shown any = content
	if secret {
		for _, p := range secretPaths {
			h.keepKeys = true
			shown = h.hide(shown, p, nil)
		}
	}
	h.keepKeys = false
	for _, p := range paths {
		shown = h.hide(shown, p, nil)
	}
	for _, name := range h.copies(content) {
		shown = h.hide(shown, annotation(name), nil)
	}
	shown = h.hide(shown, object.LastApplied, nil)
	if len(paths) > 0 {
		shown = h.hide(shown, object.ManagedFields, nil) // keys of lists and elements of sets are in it
	}
	return shown.(map[string]any), h.masked
}

// Path reports whether [Object] hides the value at a path of a Secret with the given copies.
func Path(path []string, copies []string) bool {
	starts := func(p object.FieldPath) bool { return len(path) >= len(p) && slices.Equal(path[:len(p)], p) }
	return slices.ContainsFunc(secretPaths, starts) || starts(object.LastApplied) ||
		slices.ContainsFunc(copies, func(name string) bool { return starts(annotation(name)) })
}

type hider struct {
	keepKeys bool // of a map
	masked   []string
	values   []string // that were hidden
}

// hide returns v with the value at a path replaced.
func (h *hider) hide(v any, path, at object.FieldPath) any {
	if len(path) == 0 {
		return h.value(v, at)
	}
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		for i, elem := range v {
			out[i] = h.hide(elem, path, at)
		}
		return out
	case map[string]any:
		field, ok := v[path[0]]
		if !ok || field == nil {
			return v
		}
		out := maps.Clone(v)
		out[path[0]] = h.hide(field, path[1:], append(at, path[0]))
		return out
	}
	return v
}

func (h *hider) value(v any, at object.FieldPath) any {
	h.note(v)
	fields, ok := v.(map[string]any)
	if !h.keepKeys || !ok {
		if text := at.String(); !slices.Contains(h.masked, text) {
			h.masked = append(h.masked, text)
		}
		return Hidden
	}
	out := make(map[string]any, len(fields))
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		out[name] = Hidden
		h.masked = append(h.masked, append(slices.Clone(at), name).String())
	}
	return out
}
