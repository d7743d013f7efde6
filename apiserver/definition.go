package apiserver

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/tarnproject/tarn/object"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// instancesFinalizer keeps a terminating CustomResourceDefinition until none of its objects
// exist.
const instancesFinalizer = "customresourcecleanup.apiextensions.k8s.io"

// instances returns the objects of the definition with a name. It returns none for a built-in
// resource, of which a definition may exist but has no effect.
func (s *Server) instances(definition string) (found []dependent) {
	for _, k := range oncePerStorage(s.catalog.versions(schema.ParseGroupResource(definition))) {
		if k.builtin() {
			return nil
		}
		for _, rec := range s.storage.all(k, "") {
			found = append(found, dependent{k, rec})
		}
	}
	return found
}

func (s *Server) hasInstances(definition string) bool { return len(s.instances(definition)) > 0 }

// deleteInstances deletes the objects of a terminating definition, and then the definition. If
// objects have finalizers, that happens when the last of them is removed.
func (s *Server) deleteInstances(definition *record) (more []gcItem) {
	for _, o := range s.instances(definition.key.Name) {
		// An error means that a concurrent request deleted it.
		_, _, then, _ := s.deleteOne(o.kind, o.rec, new(metav1.DeleteOptions))
		more = append(more, then...)
	}
	if !s.hasInstances(definition.key.Name) {
		return append(more, s.releaseDefinition(definition.key.Name)...)
	}
	next := definition.obj.DeepCopyObject().(*unstructured.Unstructured)
	terminateDefinition(next, *next.GetDeletionTimestamp(), "InstanceDeletionInProgress", "CustomResource deletion is in progress")
	s.storage.commit(s.definitions, definition.key, definition, next) // unless there is a newer state
	return more
}

// releaseDefinition deletes a terminating definition once it has no objects.
func (s *Server) releaseDefinition(name string) []gcItem {
	d := s.storage.get(s.definitions, object.Key{Name: name})
	if d != nil && d.meta.GetDeletionTimestamp() != nil && !s.hasInstances(name) {
		return s.removeFinalizer(s.definitions, d.key, instancesFinalizer)
	}
	return nil
}

// definitions returns the kind CustomResourceDefinition. schemas may be nil.
func definitions(schemas Schemas) *kind {
	k := &kind{
		Resource: object.Resource{
			Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions", Kind: "CustomResourceDefinition",
		},
		singular: "customresourcedefinition", shortNames: []string{"crd", "crds"}, categories: []string{"api-extensions"}, status: true,
		versions: []string{"v1"},
	}
	if schemas != nil {
		k.schema = schemas.Definition()
		k.storageSchema = k.schema
	}
	k.storage = k
	return k
}

// serving returns the kinds that an established CustomResourceDefinition serves, the storage
// version first, or an API error.
func (s *Server) serving(u *unstructured.Unstructured) ([]*kind, error) {
	invalid := func(errs ...*field.Error) error {
		return apierrors.NewInvalid(s.definitions.GVK().GroupKind(), u.GetName(), errs)
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
	if !established(u) {
		return nil, nil
	}
	if names, _, _ := unstructured.NestedMap(u.Object, "status", "acceptedNames"); names != nil {
		_ = runtime.DefaultUnstructuredConverter.FromUnstructured(names, &d.Names) // as in the spec
	}
	var schemas map[string]Schema
	if s.opts.Schemas != nil {
		var err error
		if schemas, err = s.opts.Schemas.Compile(u); err != nil {
			return nil, apierrors.NewInternalError(err)
		}
	}
	return d.kinds(schemas), nil
}

// kinds returns the served versions, the storage version first.
func (d *definition) kinds(schemas map[string]Schema) (kinds []*kind) {
	var names []string
	var stored Schema
	replicas := managedfields.ResourcePathMappings{}
	for _, v := range d.Versions {
		names = append(names, v.Name)
		gv := schema.GroupVersion{Group: d.Group, Version: v.Name}.String()
		if replicas[gv] = nil; v.Subresources.Scale != nil {
			replicas[gv] = replicasPath(fieldsOfPath(v.Subresources.Scale.Spec))
		}
		if v.Storage {
			stored = schemas[v.Name]
		}
	}
	for _, v := range d.Versions {
		if !v.Served || v.Name == "" {
			continue
		}
		k := &kind{
			Resource: object.Resource{
				Group: d.Group, Version: v.Name, Resource: d.Names.Plural, Kind: d.Names.Kind, Namespaced: d.Scope == "Namespaced",
			},
			singular: cmp.Or(d.Names.Singular, strings.ToLower(d.Names.Kind)), listName: d.Names.ListKind, shortNames: d.Names.ShortNames, categories: d.Names.Categories,
			status: v.Subresources.Status != nil, columns: columnsOf(v.Columns), schema: schemas[v.Name], storageSchema: stored, versions: names,
			deprecated: d.deprecation(v),
		}
		if at := v.Subresources.Scale; at != nil {
			k.scale = &scalePaths{spec: fieldsOfPath(at.Spec), status: fieldsOfPath(at.Status), selector: fieldsOfPath(at.Selector), versions: replicas}
		}
		for _, f := range v.SelectableFields {
			k.selectableFields = append(k.selectableFields, strings.TrimPrefix(f.Path, "."))
		}
		if v.Storage {
			kinds = slices.Insert(kinds, 0, k)
		} else {
			kinds = append(kinds, k)
		}
	}
	for _, k := range kinds {
		k.storage = kinds[0]
	}
	return kinds
}

// fieldsOfPath splits a simple JSONPath such as ".spec.replicas".
func fieldsOfPath(path string) []string {
	if path == "" {
		return nil
	}
	return strings.Split(strings.TrimPrefix(path, "."), ".")
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
