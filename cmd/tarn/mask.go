package main

import (
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tarnproject/tarn/object"
)

const (
	// hidden stands for what is not shown. It says nothing of the length.
	hidden = "********"

	lastApplied = "kubectl.kubernetes.io/last-applied-configuration"
)

// isSecret reports whether an object of the resource, or one that says so itself, is a
// Secret.
func isSecret(res object.Resource, obj *unstructured.Unstructured) bool {
	return res.Group == "" && (res.Resource == "secrets" || res.Kind == "Secret") ||
		obj != nil && obj.GetKind() == "Secret" && obj.GetAPIVersion() == "v1"
}

// mask returns the object with the contents of a Secret hidden: the values of data and
// stringData, and the annotation in which kubectl keeps a copy of them. Everything else
// is returned as it is. The object is never written to, since a mirror shares it.
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

// hide replaces the values of a map, whose keys may be seen, and anything else whole.
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

// secretPath reports whether the value of a Secret at a path is one that mask hides.
func secretPath(path []string) bool {
	switch {
	case len(path) == 0:
		return false
	case path[0] == "data" || path[0] == "stringData":
		return true
	}
	return len(path) >= 3 && path[0] == "metadata" && path[1] == "annotations" && path[2] == lastApplied
}
