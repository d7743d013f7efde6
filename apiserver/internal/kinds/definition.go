package kinds

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/tarnproject/tarn/object"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/version"
)

// definition is the part of a CustomResourceDefinition's spec that the server itself reads.
type definition struct {
	Group string `json:"group"`
	Scope string `json:"scope"`
	Names struct {
		Plural     string   `json:"plural"`
		Singular   string   `json:"singular"`
		Kind       string   `json:"kind"`
		ListKind   string   `json:"listKind"`
		ShortNames []string `json:"shortNames"`
		Categories []string `json:"categories"`
	} `json:"names"`
	Versions []definedVersion `json:"versions"`
}

type definedVersion struct {
	Name         string  `json:"name"`
	Served       bool    `json:"served"`
	Storage      bool    `json:"storage"`
	Deprecated   bool    `json:"deprecated"`
	Warning      *string `json:"deprecationWarning"`
	Subresources struct {
		Status *struct{} `json:"status"`
		Scale  *struct {
			Spec     string `json:"specReplicasPath"`
			Status   string `json:"statusReplicasPath"`
			Selector string `json:"labelSelectorPath"`
		} `json:"scale"`
	} `json:"subresources"`
	SelectableFields []struct {
		Path string `json:"jsonPath"`
	} `json:"selectableFields"`
	Columns []definedColumn `json:"additionalPrinterColumns"`
}

type definedColumn struct {
	Name        string `json:"name"`
	Type        string `json:"type"`
	Format      string `json:"format"`
	Description string `json:"description"`
	Priority    int32  `json:"priority"`
	Path        string `json:"jsonPath"`
}

// kinds returns the served versions, the storage version first.
func (d *definition) kinds(schemas map[string]Schema) (kinds []*Kind) {
	var names []string
	var stored Schema
	replicas := managedfields.ResourcePathMappings{}
	for _, v := range d.Versions {
		names = append(names, v.Name)
		gv := schema.GroupVersion{Group: d.Group, Version: v.Name}.String()
		if replicas[gv] = nil; v.Subresources.Scale != nil {
			replicas[gv] = ReplicasPath(fieldsOfPath(v.Subresources.Scale.Spec))
		}
		if v.Storage {
			stored = schemas[v.Name]
		}
	}
	for _, v := range d.Versions {
		if !v.Served || v.Name == "" {
			continue
		}
		k := &Kind{
			Resource: object.Resource{
				Group: d.Group, Version: v.Name, Resource: d.Names.Plural, Kind: d.Names.Kind, Namespaced: d.Scope == "Namespaced",
			},
			Singular: cmp.Or(d.Names.Singular, strings.ToLower(d.Names.Kind)), listName: d.Names.ListKind, ShortNames: d.Names.ShortNames, Categories: d.Names.Categories,
			Status: v.Subresources.Status != nil, Columns: columnsOf(v.Columns), Schema: schemas[v.Name], StorageSchema: stored, Versions: names,
			Deprecated: d.deprecation(v),
		}
		if at := v.Subresources.Scale; at != nil {
			k.Scale = &ScalePaths{Spec: fieldsOfPath(at.Spec), Status: fieldsOfPath(at.Status), Selector: fieldsOfPath(at.Selector), Versions: replicas}
		}
		for _, f := range v.SelectableFields {
			k.SelectableFields = append(k.SelectableFields, strings.TrimPrefix(f.Path, "."))
		}
		if v.Storage {
			kinds = slices.Insert(kinds, 0, k)
		} else {
			kinds = append(kinds, k)
		}
	}
	for _, k := range kinds {
		k.Storage = kinds[0]
	}
	return kinds
}

// deprecation returns the warning for requests of a deprecated version, or "".
func (d *definition) deprecation(v definedVersion) string {
	switch {
	case !v.Deprecated:
		return ""
	case v.Warning != nil:
		return *v.Warning
	}
	text := fmt.Sprintf("%s/%s %s is deprecated", d.Group, v.Name, d.Names.Kind)
	better := ""
	for _, other := range d.Versions {
		if other.Served && !other.Deprecated && version.CompareKubeAwareVersionStrings(v.Name, other.Name) < 0 &&
			(better == "" || version.CompareKubeAwareVersionStrings(better, other.Name) < 0) {
			better = other.Name
		}
	}
	if better != "" {
		text += fmt.Sprintf("; use %s/%s %s", d.Group, better, d.Names.Kind)
	}
	return text
}

// fieldsOfPath splits a simple JSONPath such as ".spec.replicas".
func fieldsOfPath(path string) []string {
	if path == "" {
		return nil
	}
	return strings.Split(strings.TrimPrefix(path, "."), ".")
}

// Definitions returns the kind CustomResourceDefinition. schemas may be nil.
func Definitions(schemas Schemas) *Kind {
	k := &Kind{
		Resource: object.Resource{
			Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions", Kind: "CustomResourceDefinition",
		},
		Singular: "customresourcedefinition", ShortNames: []string{"crd", "crds"}, Categories: []string{"api-extensions"}, Status: true,
		Versions: []string{"v1"},
	}
	if schemas != nil {
		k.Schema = schemas.Definition()
		k.StorageSchema = k.Schema
	}
	k.Storage = k
	return k
}

// Serving returns the kinds that an established CustomResourceDefinition serves, the storage
// version first, or an API error. definitions is the kind of u; schemas may be nil.
func Serving(u *unstructured.Unstructured, definitions *Kind, schemas Schemas) ([]*Kind, error) {
	invalid := func(errs ...*field.Error) error {
		return apierrors.NewInvalid(definitions.GVK().GroupKind(), u.GetName(), errs)
	}
	d := new(definition)
	spec, _ := u.Object["spec"].(map[string]any)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(spec, d); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if u.GetName() != d.Names.Plural+"."+d.Group {
		return nil, invalid(field.Invalid(field.NewPath("metadata", "name"), u.GetName(), "must be spec.names.plural+\".\"+spec.group"))
	}
	if d.Names.Plural == "" || d.Group == "" || d.Names.Kind == "" || d.Names.Plural != strings.ToLower(d.Names.Plural) {
		return nil, invalid(field.Invalid(field.NewPath("spec", "names"), d.Names.Plural, "a group, a kind and a plural in lower case are required"))
	}
	if !slices.ContainsFunc(d.Versions, func(v definedVersion) bool { return v.Served && v.Name != "" }) {
		return nil, invalid(field.Required(field.NewPath("spec", "versions"), "must have a served version"))
	}
	if !Established(u) {
		return nil, nil
	}
	if names, _, _ := unstructured.NestedMap(u.Object, "status", "acceptedNames"); names != nil {
		_ = runtime.DefaultUnstructuredConverter.FromUnstructured(names, &d.Names) // as in the spec
	}
	var compiled map[string]Schema
	if schemas != nil {
		var err error
		if compiled, err = schemas.Compile(u); err != nil {
			return nil, apierrors.NewInternalError(err)
		}
	}
	return d.kinds(compiled), nil
}
