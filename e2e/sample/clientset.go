package sample

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/rest"
)

// Interface is the clientset, as client-gen would make it.
type Interface interface {
	// SamplecontrollerV1alpha1 returns the clients of the group.
	SamplecontrollerV1alpha1() V1alpha1Interface
}

// V1alpha1Interface are the clients of the group.
type V1alpha1Interface interface {
	// Foos returns the client of a namespace, or of all if it is empty.
	Foos(namespace string) FooInterface
}

// FooInterface is the client of Foos.
type FooInterface interface {
	// Create makes one.
	Create(ctx context.Context, foo *Foo, opts metav1.CreateOptions) (*Foo, error)
	// Update writes all but the status.
	Update(ctx context.Context, foo *Foo, opts metav1.UpdateOptions) (*Foo, error)
	// UpdateStatus writes the status.
	UpdateStatus(ctx context.Context, foo *Foo, opts metav1.UpdateOptions) (*Foo, error)
	// Delete deletes one.
	Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error
	// Get reads one.
	Get(ctx context.Context, name string, opts metav1.GetOptions) (*Foo, error)
	// List reads all.
	List(ctx context.Context, opts metav1.ListOptions) (*FooList, error)
	// Watch opens a watch.
	Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
}

type clientset struct{ client rest.Interface }

// NewForConfig returns a clientset for a server.
func NewForConfig(config *rest.Config) (Interface, error) {
	scheme := runtime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		return nil, err
	}
	c := rest.CopyConfig(config)
	c.GroupVersion, c.APIPath = &Version, "/apis"
	c.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.RESTClientFor(c)
	if err != nil {
		return nil, err
	}
	return &clientset{client}, nil
}

// SamplecontrollerV1alpha1 implements [Interface].
func (c *clientset) SamplecontrollerV1alpha1() V1alpha1Interface { return c }

// Foos implements [V1alpha1Interface].
func (c *clientset) Foos(namespace string) FooInterface {
	return gentype.NewClientWithList("foos", c.client, metav1.ParameterCodec, namespace,
		func() *Foo { return &Foo{} }, func() *FooList { return &FooList{} })
}
