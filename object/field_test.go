package object_test

import (
	"testing"

	"github.com/tarnproject/tarn/object"
)

func TestFieldPathTextForm(t *testing.T) {
	for want, path := range map[string]object.FieldPath{
		"spec":                                {"spec"},
		"metadata.managedFields":              object.ManagedFields,
		"metadata.annotations[example.com/a]": {"metadata", "annotations", "example.com/a"},
		"[a.b].c":                             {"a.b", "c"},
		"a[b[0]":                              {"a", "b[0"},
	} {
		if got := path.String(); got != want {
			t.Errorf("%q is %q, want %q", []string(path), got, want)
		}
	}
}
