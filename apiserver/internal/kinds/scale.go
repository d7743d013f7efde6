package kinds

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// ScalePaths holds the field paths behind the scale subresource.
type ScalePaths struct {
	Spec, Status, Selector []string
	// Versions has spec of each version of the resource, nil for one without scale, because managed fields may be
	// of any of them.
	Versions managedfields.ResourcePathMappings
}

// ReplicasPath converts the path of the replicas.
func ReplicasPath(fields []string) (path fieldpath.Path) {
	for i := range fields {
		path = append(path, fieldpath.PathElement{FieldName: &fields[i]})
	}
	return path
}

// FromTree converts an unstructured tree to an object.
func FromTree(tree map[string]any, into runtime.Object) error {
	if u, ok := into.(*unstructured.Unstructured); ok {
		u.Object = tree
		return nil
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(tree, into)
}
