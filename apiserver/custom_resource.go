package apiserver

import (
	"fmt"
	"strings"

	"github.com/tarnproject/tarn/apiserver/internal/kinds"
	"github.com/tarnproject/tarn/object"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
)

// Schemas and Schema enforce CustomResourceDefinitions for [Options.Schemas]. Package apiserver/crd
// implements them with the code of Kubernetes. They are interfaces, so that programs without
// custom resources do not link that code. Their methods may be called from any goroutine.
type (
	// Schemas compiles definitions.
	Schemas = kinds.Schemas
	// Schema is the schema of one version of a custom resource.
	Schema = kinds.Schema
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
	return s.define(kinds)
}

// define serves the versions of a custom resource.
func (s *Server) define(kinds []*kinds.Kind) error {
	gr := kinds[0].GVR().GroupResource()
	old := s.catalog.Versions(gr)
	if len(old) > 0 {
		if old[0].Typed {
			return fmt.Errorf("apiserver: %v is a built-in resource", gr)
		}
		// Existing objects are stored under the kind that was defined first.
		storage := old[0].Storage
		for _, k := range kinds {
			k.Storage = storage
		}
	}
	s.ownership.Forget(s.catalog.Drop(gr))
	s.catalog.Put(kinds...)
	return nil
}

// Undefine deletes all objects of a custom resource and stops serving it. Its watches
// receive the deletions and end; later requests get 404. It has no effect on built-in resources.
func (s *Server) Undefine(group, resource string) { s.processGC(s.undefine(group, resource)...) }

// undefine is Undefine without garbage collection. It returns the deletions to process.
// It does nothing for a built-in resource, of which a definition may exist but has no effect.
func (s *Server) undefine(group, resource string) (more []gcItem) {
	gr := schema.GroupResource{Group: group, Resource: resource}
	if versions := s.catalog.Versions(gr); len(versions) > 0 && versions[0].Typed {
		return nil
	}
	dropped := s.catalog.Drop(gr)
	s.ownership.Forget(dropped)
	for _, k := range kinds.OncePerStorage(dropped) {
		for _, r := range s.storage.Remove(k) {
			more = append(more, gcItem{kind: k, old: r, rec: r, deleted: true})
		}
	}
	return more
}
