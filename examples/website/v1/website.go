// Package v1 has the API type of the example: a Website becomes a Deployment and a Service.
package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tarnproject/tarn/object"
)

// Website is a web site that is served by some replicas of a container image.
type Website struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   WebsiteSpec   `json:"spec"`
	Status WebsiteStatus `json:"status,omitempty"`
}

// WebsiteSpec is the desired state.
type WebsiteSpec struct {
	// Image is the container image, which listens on port 8080.
	Image string `json:"image"`
	// Replicas defaults to 1; the CRD has the default.
	Replicas *int32 `json:"replicas,omitempty"`
	// Host is the DNS name of the site.
	Host string `json:"host"`
}

// WebsiteStatus is the observed state.
type WebsiteStatus struct {
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	ReadyReplicas      int32              `json:"readyReplicas"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
}

// APIResource returns where the API server serves websites.
func (*Website) APIResource() object.Resource {
	return object.Resource{Group: "example.com", Version: "v1", Resource: "websites", Kind: "Website", Namespaced: true}
}

// DeepCopyObject implements runtime.Object. Larger APIs generate it with controller-gen.
func (w *Website) DeepCopyObject() runtime.Object {
	c := *w
	c.ObjectMeta = *w.ObjectMeta.DeepCopy()
	if w.Spec.Replicas != nil {
		replicas := *w.Spec.Replicas
		c.Spec.Replicas = &replicas
	}
	c.Status.Conditions = nil
	for i := range w.Status.Conditions {
		c.Status.Conditions = append(c.Status.Conditions, *w.Status.Conditions[i].DeepCopy())
	}
	return &c
}
