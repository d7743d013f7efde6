package apiserver

import (
	"context"

	"github.com/tarnproject/tarn/apiserver/internal/kinds"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Schemas enforces CustomResourceDefinitions for [Options.Schemas]. Package apiserver/crd
// implements it with the code of Kubernetes. It is an interface, so that programs without
// custom resources do not link that code. Its methods may be called from any goroutine.
type Schemas interface {
	// Definition returns the schema of CustomResourceDefinition itself. To validate a definition
	// again should be fast: [Server.Load] validates all of them at the same time first.
	Definition() Schema
	// Compile returns the schema of every version of a valid definition, by version.
	Compile(definition *unstructured.Unstructured) (map[string]Schema, error)
}

// Schema is the schema of one version of a custom resource. Its methods may be called from
// any goroutine. They modify only the objects of Prune and Default.
type Schema interface {
	// Prune removes unknown fields from an object and returns their paths. It returns an
	// error if the object cannot be decoded.
	Prune(obj *unstructured.Unstructured) (unknown []string, err error)
	// Default sets omitted fields to their defaults.
	Default(obj *unstructured.Unstructured)
	// Validate validates a new object or, if old is not nil, an update, including the
	// metadata. The subresource is "" or "status".
	Validate(ctx context.Context, obj, old *unstructured.Unstructured, subresource string) field.ErrorList
	// TypeConverter returns the types of all versions for server-side apply. If it returns
	// nil, types are deduced and lists are atomic.
	TypeConverter() (managedfields.TypeConverter, error)
	// OpenAPI returns an OpenAPI v3 document of this version in JSON, or nil.
	OpenAPI() ([]byte, error)
}

// innerSchemas adapts Schemas to the packages below.
type innerSchemas struct{ of Schemas }

// Definition implements [kinds.Schemas].
func (s innerSchemas) Definition() kinds.Schema { return s.of.Definition() }

// Compile implements [kinds.Schemas].
func (s innerSchemas) Compile(definition *unstructured.Unstructured) (map[string]kinds.Schema, error) {
	compiled, err := s.of.Compile(definition)
	all := make(map[string]kinds.Schema, len(compiled))
	for version, schema := range compiled {
		all[version] = schema
	}
	return all, err
}
