package crd_test

import (
	"context"
	"fmt"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/apiserver/crd"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// The server applies the defaults of a definition and enforces its rules.
func ExampleSchemas() {
	server, err := apiserver.New(apiserver.Options{Schemas: crd.Schemas()})
	if err != nil {
		panic(err)
	}
	defer server.Close()
	create := func(text string) runtime.Object {
		u := new(unstructured.Unstructured)
		if err := u.UnmarshalJSON([]byte(text)); err != nil {
			panic(err)
		}
		created, err := server.Create(u)
		if err != nil {
			fmt.Println(err)
			return nil
		}
		return created
	}
	create(`{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "lakes.example.com"},
		"spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "lakes", "kind": "Lake"}, "versions": [
			{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "properties": {
				"spec": {"type": "object", "properties": {"depth": {"type": "integer", "minimum": 1, "default": 10}}}}}}}]}}`)
	lake := create(`{"apiVersion": "example.com/v1", "kind": "Lake", "metadata": {"name": "blue"}, "spec": {"colour": "blue"}}`)
	fmt.Println(lake.(*unstructured.Unstructured).Object["spec"])
	create(`{"apiVersion": "example.com/v1", "kind": "Lake", "metadata": {"name": "dry"}, "spec": {"depth": 0}}`)
	// Output:
	// map[depth:10]
	// Lake.example.com "dry" is invalid: spec.depth: Invalid value: 0: spec.depth in body should be greater than or equal to 1
}

// Definitions can be checked without a server too.
func ExampleSchemas_definition() {
	definition := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "lakes"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.com", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "lakes", Kind: "Lake"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{
				OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object"},
			}}},
		},
	}
	apiextensionsv1.SetObjectDefaults_CustomResourceDefinition(definition)
	for _, err := range crd.Schemas().Validate(context.Background(), definition, nil, "") {
		fmt.Println(err)
	}
	compiled, err := crd.Schemas().Compile(definition)
	if err != nil {
		panic(err)
	}
	var v1 apiserver.Schema = compiled["v1"]
	fmt.Println("has a schema:", v1 != nil)
	// Output:
	// metadata.name: Invalid value: "lakes": must be spec.names.plural+"."+spec.group
	// has a schema: true
}
