package sample

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Foo asks for a Deployment.
type Foo struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              FooSpec   `json:"spec"`
	Status            FooStatus `json:"status"`
}

// FooSpec is which Deployment is wanted.
type FooSpec struct {
	DeploymentName string `json:"deploymentName"`
	Replicas       *int32 `json:"replicas"`
}

// FooStatus is what has become of it.
type FooStatus struct {
	AvailableReplicas int32 `json:"availableReplicas"`
}

// FooList is a list of Foos.
type FooList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []Foo `json:"items"`
}

// The names under which Foos are known.
var (
	Version  = schema.GroupVersion{Group: "samplecontroller.k8s.io", Version: "v1alpha1"}
	Kind     = Version.WithKind("Foo")
	Resource = Version.WithResource("foos")
)

// AddToScheme makes the types known.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(Version, &Foo{}, &FooList{})
	metav1.AddToGroupVersion(s, Version)
	return nil
}

// Definition returns the CustomResourceDefinition that the project's users apply.
func Definition() *unstructured.Unstructured {
	integer := map[string]any{"type": "integer"}
	object := func(properties map[string]any) map[string]any {
		return map[string]any{"type": "object", "properties": properties}
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{
			"name": Resource.Resource + "." + Resource.Group,
			// The group is one of Kubernetes' own, and servers ask for a word on that.
			"annotations": map[string]any{"api-approved.kubernetes.io": "unapproved, experimental-only"},
		},
		"spec": map[string]any{
			"group": Resource.Group, "scope": "Namespaced",
			"names": map[string]any{"plural": "foos", "singular": "foo", "kind": Kind.Kind, "listKind": "FooList"},
			"versions": []any{map[string]any{
				"name": Version.Version, "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": object(map[string]any{
					"spec":   object(map[string]any{"deploymentName": map[string]any{"type": "string"}, "replicas": integer}),
					"status": object(map[string]any{"availableReplicas": integer}),
				})},
				"subresources": map[string]any{"status": map[string]any{}},
			}},
		},
	}}
}

// DeepCopy returns a copy that shares nothing.
func (f *Foo) DeepCopy() *Foo {
	out := &Foo{TypeMeta: f.TypeMeta, Spec: f.Spec, Status: f.Status}
	f.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	if f.Spec.Replicas != nil {
		out.Spec.Replicas = new(*f.Spec.Replicas)
	}
	return out
}

// DeepCopyObject implements runtime.Object.
func (f *Foo) DeepCopyObject() runtime.Object { return f.DeepCopy() }

// DeepCopyObject implements runtime.Object.
func (l *FooList) DeepCopyObject() runtime.Object {
	out := &FooList{TypeMeta: l.TypeMeta}
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	for i := range l.Items {
		out.Items = append(out.Items, *l.Items[i].DeepCopy())
	}
	return out
}
