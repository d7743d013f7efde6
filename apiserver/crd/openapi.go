package crd

import (
	"encoding/json"

	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/spec3"
)

// TypeConverter implements [apiserver.Schema].
func (r *resource) TypeConverter() (managedfields.TypeConverter, error) { return r.types() }

// typeConverter builds the types of all versions.
func (r *resource) typeConverter() (managedfields.TypeConverter, error) {
	var docs []*spec3.OpenAPI
	for _, v := range r.crd.Spec.Versions {
		doc, err := builder.BuildOpenAPIV3(r.crd, v.Name, builder.Options{})
		if err != nil {
			return nil, err
		}
		docs = append(docs, doc)
	}
	all, err := builder.MergeSpecsV3(docs...)
	if err != nil {
		return nil, err
	}
	return managedfields.NewTypeConverter(all.Components.Schemas, false)
}

// OpenAPI implements [apiserver.Schema].
func (v *version) OpenAPI() ([]byte, error) { return v.document() }

func (v *version) openAPI() ([]byte, error) {
	doc, err := builder.BuildOpenAPIV3(v.crd, v.Name, builder.Options{IncludeSelectableFields: true})
	if err != nil {
		return nil, err
	}
	return json.Marshal(doc)
}
