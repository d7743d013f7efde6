package apiserver

import (
	"fmt"
	"strings"

	"github.com/tarnproject/tarn/object"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Definition describes a custom resource. Only Resource is required.
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

	columns []column
}

func (d Definition) kinds() ([]*kind, error) {
	switch {
	case d.Resource.Resource == "" || d.Kind == "" || d.Version == "" || d.Group == "":
		return nil, fmt.Errorf("apiserver: definition %+v: group, version, resource and kind are required", d.Resource)
	case d.Resource.Resource != strings.ToLower(d.Resource.Resource):
		return nil, fmt.Errorf("apiserver: resource name %q must be lower case", d.Resource.Resource)
	}
	var kinds []*kind
	for _, v := range append([]string{d.Version}, d.Versions...) {
		k := &kind{
			Resource: d.Resource, singular: d.Singular, shortNames: d.ShortNames, categories: d.Categories,
			status: d.Status, columns: d.columns, selectableFields: d.SelectableFields,
		}
		k.Version = v
		if k.singular == "" {
			k.singular = strings.ToLower(d.Kind)
		}
		if d.Scale {
			k.scale = &scalePaths{spec: []string{"spec", "replicas"}, status: []string{"status", "replicas"}}
		}
		kinds = append(kinds, k)
		k.storage = kinds[0]
	}
	return kinds, nil
}

// Define starts serving a custom resource, or replaces its definition and keeps its
// objects.
func (s *Server) Define(d Definition) error {
	kinds, err := d.kinds()
	if err != nil {
		return err
	}
	gr := schema.GroupResource{Group: d.Group, Resource: d.Resource.Resource}
	old := s.catalog.versions(gr)
	if len(old) > 0 {
		if old[0].typed {
			return fmt.Errorf("apiserver: %v is a built-in resource", gr)
		}
		// Existing objects are stored under the kind that was defined first.
		storage := old[0].storage
		for _, k := range kinds {
			k.storage = storage
		}
	}
	s.catalog.drop(gr)
	s.catalog.put(kinds...)
	return nil
}

// Undefine deletes all objects of a custom resource and stops serving it. Its watches
// receive the deletions and end; later requests get 404.
func (s *Server) Undefine(group, resource string) { s.processGC(s.undefine(group, resource)...) }

// undefine is Undefine without garbage collection. It returns the deletions to process.
func (s *Server) undefine(group, resource string) (more []gcItem) {
	for _, k := range s.catalog.drop(schema.GroupResource{Group: group, Resource: resource}) {
		if !k.isStorage() {
			continue
		}
		for _, r := range s.storage.remove(k) {
			more = append(more, gcItem{kind: k, old: r, rec: r, deleted: true})
		}
	}
	return more
}

// definitions returns the kind CustomResourceDefinition.
func definitions() *kind {
	k := &kind{
		Resource: object.Resource{
			Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions", Kind: "CustomResourceDefinition",
		},
		singular: "customresourcedefinition", shortNames: []string{"crd", "crds"}, categories: []string{"api-extensions"}, status: true,
	}
	k.storage = k
	return k
}

// parseDefinition converts a CustomResourceDefinition.
func parseDefinition(obj runtime.Object) (Definition, error) {
	u := obj.(*unstructured.Unstructured) // like all kinds without a Go type
	text := func(fields ...string) string {
		s, _, _ := unstructured.NestedString(u.Object, fields...)
		return s
	}
	d := Definition{Resource: object.Resource{
		Group: text("spec", "group"), Resource: text("spec", "names", "plural"), Kind: text("spec", "names", "kind"),
		Namespaced: text("spec", "scope") == "Namespaced",
	}, Singular: text("spec", "names", "singular")}
	d.ShortNames, _, _ = unstructured.NestedStringSlice(u.Object, "spec", "names", "shortNames")
	d.Categories, _, _ = unstructured.NestedStringSlice(u.Object, "spec", "names", "categories")
	if want := d.Resource.Resource + "." + d.Group; u.GetName() != want {
		return d, apierrors.NewInvalid(schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}, u.GetName(), field.ErrorList{
			field.Invalid(field.NewPath("metadata", "name"), u.GetName(), "must be spec.names.plural+\".\"+spec.group")})
	}
	versions, _, _ := unstructured.NestedSlice(u.Object, "spec", "versions")
	for _, v := range versions {
		m, _ := v.(map[string]any)
		name, _, _ := unstructured.NestedString(m, "name")
		if served, _, _ := unstructured.NestedBool(m, "served"); !served || name == "" {
			continue
		}
		if stored, _, _ := unstructured.NestedBool(m, "storage"); stored {
			if d.Version != "" {
				d.Versions = append(d.Versions, d.Version)
			}
			d.Version = name
			d.subresources(m)
		} else {
			d.Versions = append(d.Versions, name)
		}
	}
	if d.Version == "" && len(d.Versions) > 0 {
		d.Version, d.Versions = d.Versions[0], d.Versions[1:]
	}
	if _, err := d.kinds(); err != nil {
		return d, invalidDefinition(u, err.Error())
	}
	return d, nil
}

// subresources reads subresources, printer columns and selectable fields of the storage
// version.
func (d *Definition) subresources(version map[string]any) {
	_, d.Status, _ = unstructured.NestedFieldNoCopy(version, "subresources", "status")
	_, d.Scale, _ = unstructured.NestedFieldNoCopy(version, "subresources", "scale")
	fields, _, _ := unstructured.NestedSlice(version, "selectableFields")
	for _, f := range fields {
		m, _ := f.(map[string]any)
		if path, _, _ := unstructured.NestedString(m, "jsonPath"); path != "" {
			d.SelectableFields = append(d.SelectableFields, strings.TrimPrefix(path, "."))
		}
	}
	columns, _, _ := unstructured.NestedSlice(version, "additionalPrinterColumns")
	for _, c := range columns {
		m, _ := c.(map[string]any)
		var col column
		col.Name, _, _ = unstructured.NestedString(m, "name")
		col.Type, _, _ = unstructured.NestedString(m, "type")
		col.Format, _, _ = unstructured.NestedString(m, "format")
		col.Description, _, _ = unstructured.NestedString(m, "description")
		p, _, _ := unstructured.NestedInt64(m, "priority")
		col.Priority = int32(p)
		col.path, _, _ = unstructured.NestedString(m, "jsonPath")
		d.columns = append(d.columns, col)
	}
}

func invalidDefinition(u *unstructured.Unstructured, why string) error {
	err := apierrors.NewInvalid(schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}, u.GetName(), nil)
	err.ErrStatus.Message += ": " + why
	return err
}

// establish sets the status and conditions that clients of a CustomResourceDefinition wait
// for.
func establish(obj runtime.Object, now string) {
	u := obj.(*unstructured.Unstructured)
	condition := func(kind, reason, message string) any {
		return map[string]any{"type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": now}
	}
	if _, found, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", "conversion"); !found {
		_ = unstructured.SetNestedMap(u.Object, map[string]any{"strategy": "None"}, "spec", "conversion") // spec exists
	}
	names, _, _ := unstructured.NestedMap(u.Object, "spec", "names")
	var stored []any
	versions, _, _ := unstructured.NestedSlice(u.Object, "spec", "versions")
	for _, v := range versions {
		m, _ := v.(map[string]any)
		if is, _, _ := unstructured.NestedBool(m, "storage"); is {
			stored = append(stored, m["name"])
		}
	}
	u.Object["status"] = map[string]any{
		"acceptedNames": names, "storedVersions": stored,
		"conditions": []any{condition("NamesAccepted", "NoConflicts", "no conflicts found"),
			condition("Established", "InitialNamesAccepted", "the initial names have been accepted"),
		},
	}
}
