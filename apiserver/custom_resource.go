package apiserver

import (
	"fmt"
	"strings"

	"github.com/tarnproject/tarn/apiserver/internal/kinds"
	"github.com/tarnproject/tarn/object"
	"k8s.io/apimachinery/pkg/util/managedfields"
)

// Definition describes a custom resource without a schema. Only Resource is required.
type Definition struct {
	object.Resource
	// Versions are served in addition to Resource.Version; all serve the same objects.
	// Defaults to none.
	Versions []string
	// Singular defaults to the kind in lower case.
	Singular string
	// ShortNames and Categories are for kubectl. Default to none.
	ShortNames, Categories []string
	// Status enables the status subresource: status and everything else are then written
	// separately. Defaults to false.
	Status bool
	// Scale enables the scale subresource on spec.replicas and status.replicas. Defaults to
	// false.
	Scale bool
	// SelectableFields may be used in field selectors in addition to metadata.name and
	// metadata.namespace, for example "spec.colour". Defaults to none.
	SelectableFields []string
}

func (d Definition) kinds() ([]*kinds.Kind, error) {
	switch {
	case d.Resource.Resource == "" || d.Kind == "" || d.Version == "" || d.Group == "":
		return nil, fmt.Errorf("apiserver: definition %+v: group, version, resource and kind are required", d.Resource)
	case d.Resource.Resource != strings.ToLower(d.Resource.Resource):
		return nil, fmt.Errorf("apiserver: resource name %q must be lower case", d.Resource.Resource)
	}
	var all []*kinds.Kind
	replicas := managedfields.ResourcePathMappings{}
	for _, v := range append([]string{d.Version}, d.Versions...) {
		k := &kinds.Kind{
			Resource: d.Resource, Singular: d.Singular, ShortNames: d.ShortNames, Categories: d.Categories,
			Status: d.Status, SelectableFields: d.SelectableFields, Versions: append([]string{d.Version}, d.Versions...),
		}
		k.Version = v
		if k.Singular == "" {
			k.Singular = strings.ToLower(d.Kind)
		}
		if d.Scale {
			k.Scale = &kinds.ScalePaths{Spec: []string{"spec", "replicas"}, Status: []string{"status", "replicas"}, Versions: replicas}
			replicas[k.GVK().GroupVersion().String()] = kinds.ReplicasPath(k.Scale.Spec)
		}
		all = append(all, k)
		k.Storage = all[0]
	}
	return all, nil
}

// Define starts serving a custom resource, or replaces its definition and keeps its
// objects.
func (s *Server) Define(d Definition) error {
	kinds, err := d.kinds()
	if err != nil {
		return err
	}
	return s.registry.Define(kinds)
}

// Undefine deletes all objects of a custom resource and stops serving it. Its watches
// receive the deletions and end; later requests get 404. It has no effect on built-in resources.
func (s *Server) Undefine(group, resource string) { s.registry.Drop(group, resource) }
