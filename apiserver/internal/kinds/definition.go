package kinds

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/tarnproject/tarn/object"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/version"
)

// Definition is a CustomResourceDefinition.
type Definition = apiextensionsv1.CustomResourceDefinition

// Definitions is the resource of definitions.
var Definitions = apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")

// kindsOf returns the served versions of a definition, the storage version first.
func kindsOf(d *Definition, schemas map[string]Schema) (kinds []*Kind) {
	accepted := d.Status.AcceptedNames
	var names []string
	var stored Schema
	replicas := managedfields.ResourcePathMappings{}
	for _, v := range d.Spec.Versions {
		names = append(names, v.Name)
		gv := schema.GroupVersion{Group: d.Spec.Group, Version: v.Name}.String()
		if replicas[gv] = nil; v.Subresources != nil && v.Subresources.Scale != nil {
			replicas[gv] = ReplicasPath(fieldsOfPath(v.Subresources.Scale.SpecReplicasPath))
		}
		if v.Storage {
			stored = schemas[v.Name]
		}
	}
	for _, v := range d.Spec.Versions {
		if !v.Served || v.Name == "" {
			continue
		}
		k := &Kind{
			Resource: object.Resource{
				Group: d.Spec.Group, Version: v.Name, Resource: accepted.Plural, Kind: accepted.Kind, Namespaced: d.Spec.Scope == apiextensionsv1.NamespaceScoped,
			},
			Singular: cmp.Or(accepted.Singular, strings.ToLower(accepted.Kind)), listName: accepted.ListKind, ShortNames: accepted.ShortNames, Categories: accepted.Categories,
			Columns: columnsOf(v.AdditionalPrinterColumns), Schema: schemas[v.Name], StorageSchema: stored, Versions: names, Deprecated: versionWarning(d, v),
		}
		if sub := v.Subresources; sub != nil {
			k.Status = sub.Status != nil
			if at := sub.Scale; at != nil {
				k.Scale = &ScalePaths{Spec: fieldsOfPath(at.SpecReplicasPath), Status: fieldsOfPath(at.StatusReplicasPath), Versions: replicas}
				if at.LabelSelectorPath != nil {
					k.Scale.Selector = fieldsOfPath(*at.LabelSelectorPath)
				}
			}
		}
		for _, f := range v.SelectableFields {
			k.SelectableFields = append(k.SelectableFields, strings.TrimPrefix(f.JSONPath, "."))
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

// versionWarning returns the warning for requests of a deprecated version, or "".
func versionWarning(d *Definition, v apiextensionsv1.CustomResourceDefinitionVersion) string {
	switch {
	case !v.Deprecated:
		return ""
	case v.DeprecationWarning != nil:
		return *v.DeprecationWarning
	}
	text := fmt.Sprintf("%s/%s %s is deprecated", d.Spec.Group, v.Name, d.Status.AcceptedNames.Kind)
	better := ""
	for _, other := range d.Spec.Versions {
		if other.Served && !other.Deprecated && version.CompareKubeAwareVersionStrings(v.Name, other.Name) < 0 &&
			(better == "" || version.CompareKubeAwareVersionStrings(better, other.Name) < 0) {
			better = other.Name
		}
	}
	if better != "" {
		text += fmt.Sprintf("; use %s/%s %s", d.Spec.Group, better, d.Status.AcceptedNames.Kind)
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

// Serving returns the kinds that an established definition serves, the storage version first, or an API
// error. schemas may be nil.
func Serving(d *Definition, schemas Schemas) ([]*Kind, error) {
	invalid := func(errs ...*field.Error) error {
		return apierrors.NewInvalid(schema.GroupKind{Group: Definitions.Group, Kind: "CustomResourceDefinition"}, d.Name, errs)
	}
	names := d.Spec.Names
	if d.Name != names.Plural+"."+d.Spec.Group {
		return nil, invalid(field.Invalid(field.NewPath("metadata", "name"), d.Name, "must be spec.names.plural+\".\"+spec.group"))
	}
	if names.Plural == "" || d.Spec.Group == "" || names.Kind == "" || names.Plural != strings.ToLower(names.Plural) {
		return nil, invalid(field.Invalid(field.NewPath("spec", "names"), names.Plural, "a group, a kind and a plural in lower case are required"))
	}
	if !slices.ContainsFunc(d.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Served && v.Name != "" }) {
		return nil, invalid(field.Required(field.NewPath("spec", "versions"), "must have a served version"))
	}
	if !Established(d) {
		return nil, nil
	}
	var compiled map[string]Schema
	if schemas != nil {
		var err error
		if compiled, err = schemas.Compile(d); err != nil {
			return nil, apierrors.NewInternalError(err)
		}
	}
	return kindsOf(d, compiled), nil
}

// Established reports whether a definition is served.
func Established(d *Definition) bool {
	return slices.ContainsFunc(d.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
		return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
	})
}

// StoredVersions returns the versions that objects were ever stored in, including the current one.
func StoredVersions(d *Definition) []string {
	stored := slices.Clone(d.Status.StoredVersions)
	for _, v := range d.Spec.Versions {
		if v.Storage && !slices.Contains(stored, v.Name) {
			stored = append(stored, v.Name)
		}
	}
	return stored
}

// SetCondition replaces a condition of a definition, which becomes the last one.
func SetCondition(d *Definition, kind apiextensionsv1.CustomResourceDefinitionConditionType, is bool, reason, message string, at metav1.Time) {
	status := apiextensionsv1.ConditionFalse
	if is {
		status = apiextensionsv1.ConditionTrue
	}
	others := slices.DeleteFunc(slices.Clone(d.Status.Conditions), func(c apiextensionsv1.CustomResourceDefinitionCondition) bool { return c.Type == kind })
	d.Status.Conditions = append(others, apiextensionsv1.CustomResourceDefinitionCondition{Type: kind, Status: status, Reason: reason, Message: message, LastTransitionTime: at})
}
