package factory_test

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// What follows, in the files sample_*_test.go, is what a project with a custom resource has:
// its types, the clientset, informers and listers that the code generators would make of
// them, and a controller as sample-controller's. None of it knows of Tarn.

// Foo asks for a Deployment.
type Foo struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              FooSpec   `json:"spec"`
	Status            FooStatus `json:"status"`
}

type FooSpec struct {
	DeploymentName string `json:"deploymentName"`
	Replicas       *int32 `json:"replicas"`
}

type FooStatus struct {
	AvailableReplicas int32 `json:"availableReplicas"`
}

type FooList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []Foo `json:"items"`
}

var (
	sampleVersion = schema.GroupVersion{Group: "samplecontroller.k8s.io", Version: "v1alpha1"}
	fooKind       = sampleVersion.WithKind("Foo")
	fooResource   = sampleVersion.WithResource("foos")
)

func addSampleToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(sampleVersion, &Foo{}, &FooList{})
	metav1.AddToGroupVersion(s, sampleVersion)
	return nil
}

func (f *Foo) DeepCopy() *Foo {
	out := &Foo{TypeMeta: f.TypeMeta, Spec: f.Spec, Status: f.Status}
	f.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	if f.Spec.Replicas != nil {
		out.Spec.Replicas = new(*f.Spec.Replicas)
	}
	return out
}

func (f *Foo) DeepCopyObject() runtime.Object { return f.DeepCopy() }

func (l *FooList) DeepCopyObject() runtime.Object {
	out := &FooList{TypeMeta: l.TypeMeta}
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	for i := range l.Items {
		out.Items = append(out.Items, *l.Items[i].DeepCopy())
	}
	return out
}
