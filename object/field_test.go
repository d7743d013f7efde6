package object_test

import (
	"slices"
	"testing"

	"github.com/tarnproject/tarn/object"
)

func TestFieldPathTextForm(t *testing.T) {
	for text, want := range map[string]object.FieldPath{
		"spec":                                {"spec"},
		"metadata.managedFields":              {"metadata", "managedFields"},
		"metadata.annotations[example.com/a]": {"metadata", "annotations", "example.com/a"},
		"spec.containers[*].env":              {"spec", "containers", "env"},
		"[a.b]c":                              nil,
		"[a.b].c":                             {"a.b", "c"},
		"a[b][c].d":                           {"a", "b", "c", "d"},
		"":                                    nil,
		".a":                                  nil,
		"a.":                                  nil,
		"a..b":                                nil,
		"a[":                                  nil,
		"a[]":                                 nil,
		"[*]":                                 nil,
	} {
		got, err := object.ParseFieldPath(text)
		if (err != nil) != (want == nil) || !slices.Equal(got, want) {
			t.Errorf("ParseFieldPath(%q) = %q, %v, want %q", text, got, err, want)
		}
		if err != nil {
			continue
		}
		if again, err := object.ParseFieldPath(got.String()); err != nil || !slices.Equal(again, got) {
			t.Errorf("ParseFieldPath(%q) = %q, %v, want %q", got.String(), again, err, got)
		}
	}
}
