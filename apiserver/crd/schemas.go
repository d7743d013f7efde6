package crd

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/tarnproject/tarn/apiserver"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/util/managedfields"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/utils/lru"
)

// Schemas returns the value of [apiserver.Options.Schemas]. The process keeps the last
// definitions that were accepted with their compiled schemas, so the second server with a
// definition starts faster.
func Schemas() apiserver.Schemas { return schemas{} }

// schemas implements [apiserver.Schemas].
type schemas struct{}

// accepted has the schemas of the last accepted definitions for all servers of the process, which do not modify
// them: map[string]apiserver.Schema by digest.
var accepted = lru.New(1000)

// digest identifies a definition by its content.
type digest [sha256.Size]byte

// identify returns a digest of what the validation of a new definition depends on.
func identify(crd *apiextensionsv1.CustomResourceDefinition) (id digest) {
	head, _ := json.Marshal([]any{crd.Name, crd.Annotations}) // never fails
	spec, err := crd.Spec.Marshal()                           // with sorted maps
	if err != nil {
		panic("crd: " + err.Error()) // nothing in it cannot be encoded
	}
	return sha256.Sum256(append(head, spec...))
}

// Compile implements [apiserver.Schemas].
func (schemas) Compile(crd *apiextensionsv1.CustomResourceDefinition) (map[string]apiserver.Schema, error) {
	id := identify(crd)
	if known, ok := accepted.Get(id); ok {
		return known.(map[string]apiserver.Schema), nil
	}
	return keep(id, crd.DeepCopy()), nil
}

// keep returns the schemas of an accepted definition. The caller must not modify crd
// afterwards.
func keep(id digest, crd *apiextensionsv1.CustomResourceDefinition) map[string]apiserver.Schema {
	r := &resource{crd: crd}
	r.types = sync.OnceValues(r.typeConverter)
	out := map[string]apiserver.Schema{}
	for i := range crd.Spec.Versions {
		v := &version{resource: r, CustomResourceDefinitionVersion: &crd.Spec.Versions[i]}
		v.compiled = sync.OnceValue(v.compile)
		v.document = sync.OnceValues(v.openAPI)
		out[v.Name] = v
	}
	accepted.Add(id, out)
	return out
}

// resource is what the versions of a custom resource share. It is not modified.
type resource struct {
	crd   *apiextensionsv1.CustomResourceDefinition
	types func() (managedfields.TypeConverter, error)
}

// version is one version of a custom resource. It implements [apiserver.Schema] and is not
// modified.
type version struct {
	*resource
	*apiextensionsv1.CustomResourceDefinitionVersion
	compiled func() *rules
	document func() ([]byte, error)
}

// rules are the compiled parts of a version's schema.
type rules struct {
	structural *structuralschema.Structural
	schema     validation.SchemaValidator
	status     validation.SchemaValidator // nil without a schema for the status
	cel        *cel.Validator             // nil without rules
}

// compile compiles the schema. It panics if that is invalid, since definitions with an
// invalid schema are rejected.
func (v *version) compile() *rules {
	check := func(err error) {
		if err != nil {
			panic(fmt.Sprintf("crd: compiling %s of %s: %v", v.Name, v.crd.Name, err))
		}
	}
	var props apiextensions.JSONSchemaProps
	if v.Schema != nil && v.Schema.OpenAPIV3Schema != nil {
		check(apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(v.Schema.OpenAPIV3Schema, &props, nil))
	}
	structural, err := structuralschema.NewStructural(&props)
	check(err)
	r := &rules{structural: structural.DeepCopy()} // which shares defaults with props
	check(defaulting.PruneDefaults(r.structural))
	r.schema, _, err = validation.NewSchemaValidator(&props)
	check(err)
	if status, ok := props.Properties["status"]; ok {
		r.status, _, err = validation.NewSchemaValidator(&status)
		check(err)
	}
	r.cel = cel.NewValidator(r.structural, true, celconfig.PerCallLimit)
	return r
}
