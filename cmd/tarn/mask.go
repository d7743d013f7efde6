package main

import (
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tarnproject/tarn/object"
)

const (
	// hidden replaces secret values. Its length is independent of theirs.
	hidden = "********"

	lastApplied = "kubectl.kubernetes.io/last-applied-configuration"
)

// isSecret reports whether the resource or the object's own kind is Secret.
func isSecret(res object.Resource, obj *unstructured.Unstructured) bool {
	return res.Group == "" && (res.Resource == "secrets" || res.Kind == "Secret") ||
		obj != nil && obj.GetKind() == "Secret" && obj.GetAPIVersion() == "v1"
}

// mask returns a copy of a Secret without its contents: the values of data and stringData,
// and kubectl's last-applied annotation. Other objects are returned unchanged. obj itself
// is not modified, since the mirror shares it.
func mask(res object.Resource, obj *unstructured.Unstructured) *unstructured.Unstructured {
	if obj == nil || !isSecret(res, obj) {
		return obj
	}
	out := maps.Clone(obj.Object)
	for _, field := range []string{"data", "stringData"} {
		if value, ok := out[field]; ok {
			out[field] = hide(value)
		}
	}
	if meta, ok := out["metadata"].(map[string]any); ok {
		if notes, ok := meta["annotations"].(map[string]any); ok {
			if _, ok := notes[lastApplied]; ok {
				meta, notes = maps.Clone(meta), maps.Clone(notes)
				notes[lastApplied] = hidden
				meta["annotations"] = notes
				out["metadata"] = meta
			}
		}
	}
	return &unstructured.Unstructured{Object: out}
}

// hide replaces the values of a map but keeps its keys. Any other value is replaced as a
// whole.
func hide(value any) any {
	fields, ok := value.(map[string]any)
	if !ok {
		return hidden
	}
	out := make(map[string]any, len(fields))
	for name := range fields {
		out[name] = hidden
	}
	return out
}

// secretPath reports whether mask hides the value at a path.
func secretPath(path []string) bool {
	switch {
	case len(path) == 0:
		return false
	case path[0] == "data" || path[0] == "stringData":
		return true
	}
	return len(path) >= 3 && path[0] == "metadata" && path[1] == "annotations" && path[2] == lastApplied
}
