package crd_test

import (
	"context"
	"fmt"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/apiserver/crd"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// The server applies the defaults of a definition and enforces its rules.
func ExampleSchemas() {
	server, err := apiserver.New(apiserver.Options{Schemas: crd.Schemas()})
	if err != nil {
		panic(err)
	}
	defer server.Close()
	create := func(text string) *unstructured.Unstructured {
		u := new(unstructured.Unstructured)
		if err := u.UnmarshalJSON([]byte(text)); err != nil {
			panic(err)
		}
		created, err := server.Create(u)
		if err != nil {
			fmt.Println(err)
			return nil
		}
		return created.(*unstructured.Unstructured)
	}
	create(`{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "lakes.example.com"},
		"spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "lakes", "kind": "Lake"}, "versions": [
			{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "properties": {
				"spec": {"type": "object", "properties": {"depth": {"type": "integer", "minimum": 1, "default": 10}}}}}}}]}}`)
	lake := create(`{"apiVersion": "example.com/v1", "kind": "Lake", "metadata": {"name": "blue"}, "spec": {"colour": "blue"}}`)
	fmt.Println(lake.Object["spec"])
	create(`{"apiVersion": "example.com/v1", "kind": "Lake", "metadata": {"name": "dry"}, "spec": {"depth": 0}}`)
	// Output:
	// map[depth:10]
	// Lake.example.com "dry" is invalid: spec.depth: Invalid value: 0: spec.depth in body should be greater than or equal to 1
}

// A schema works without a server too: here it checks a definition.
func ExampleSchemas_definition() {
	var definitions apiserver.Schema = crd.Schemas().Definition()
	definition := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "lakes"},
		"spec": map[string]any{
			"group": "example.com", "scope": "Namespaced", "colour": "blue", "names": map[string]any{"plural": "lakes", "kind": "Lake"},
			"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true, "schema": map[string]any{
				"openAPIV3Schema": map[string]any{"type": "object"},
			}}},
		},
	}}
	unknown, err := definitions.Prune(definition)
	fmt.Println(unknown, err)
	definitions.Default(definition)
	for _, err := range definitions.Validate(context.Background(), definition, nil, "") {
		fmt.Println(err)
	}
	// Output:
	// [spec.colour] <nil>
	// metadata.name: Invalid value: "lakes": must be spec.names.plural+"."+spec.group
}
