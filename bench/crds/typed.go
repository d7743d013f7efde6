package crds

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tarnproject/tarn/object"
)

// Release is the Go type of the objects, as an operator declares it.
type Release struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              Spec   `json:"spec,omitempty"`
	Status            Status `json:"status,omitempty"`
}

// Spec is the spec of a Release.
type Spec struct {
	Chart     Chart       `json:"chart"`
	Interval  string      `json:"interval"`
	Suspend   bool        `json:"suspend,omitempty"`
	Values    Values      `json:"values"`
	DependsOn []Reference `json:"dependsOn,omitempty"`
}

// Chart is what is released.
type Chart struct {
	Name       string `json:"name"`
	Repository string `json:"repository"`
	Version    string `json:"version"`
}

// Reference refers to another Release.
type Reference struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace,omitempty"`
}

// Values are the parameters of the chart.
type Values struct {
	Replicas     int32                        `json:"replicas"`
	Image        Image                        `json:"image"`
	Resources    map[string]map[string]string `json:"resources,omitempty"`
	NodeSelector map[string]string            `json:"nodeSelector,omitempty"`
	Env          []Variable                   `json:"env,omitempty"`
	Autoscaling  *Autoscaling                 `json:"autoscaling,omitempty"`
	Probes       *Probes                      `json:"probes,omitempty"`
	Ingress      *Ingress                     `json:"ingress,omitempty"`
}

// Image is a container image.
type Image struct {
	Repository string `json:"repository"`
	Tag        string `json:"tag"`
	PullPolicy string `json:"pullPolicy,omitempty"`
}

// Variable is an environment variable.
type Variable struct {
	Name  string `json:"name"`
	Value string `json:"value,omitempty"`
}

// Autoscaling has the limits of the number of replicas.
type Autoscaling struct {
	Enabled bool    `json:"enabled"`
	Min     int64   `json:"min"`
	Max     int64   `json:"max"`
	Target  float64 `json:"target"`
}

// Probes configures the health check.
type Probes struct {
	Path          string `json:"path"`
	Port          int32  `json:"port"`
	PeriodSeconds int32  `json:"periodSeconds"`
}

// Ingress has the host names.
type Ingress struct {
	Enabled bool   `json:"enabled"`
	Hosts   []Host `json:"hosts,omitempty"`
}

// Host is a host name with its paths.
type Host struct {
	Host   string   `json:"host"`
	Paths  []string `json:"paths,omitempty"`
	Weight int64    `json:"weight"`
}

// Status is the status of a Release.
type Status struct {
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
	History            []Revision         `json:"history,omitempty"`
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	Ready              bool               `json:"ready"`
}

// Revision is an earlier release.
type Revision struct {
	Digest   string      `json:"digest"`
	Revision int64       `json:"revision"`
	Status   string      `json:"status"`
	Deployed metav1.Time `json:"deployed"`
}

// ReleaseList is a list of Releases.
type ReleaseList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Release `json:"items"`
}

// APIResource names the resource for Tarn.
func (*Release) APIResource() object.Resource { return Resource }

// DeepCopyObject implements runtime.Object. The benchmarks do not copy objects, so the copy
// is shallow.
func (r *Release) DeepCopyObject() runtime.Object {
	out := *r
	return &out
}

// DeepCopyObject implements runtime.Object with a shallow copy.
func (l *ReleaseList) DeepCopyObject() runtime.Object {
	out := *l
	return &out
}

// AddToScheme registers the types for client-go.
func AddToScheme(s *runtime.Scheme) {
	gv := Resource.GVR().GroupVersion()
	s.AddKnownTypes(gv, &Release{}, &ReleaseList{})
	metav1.AddToGroupVersion(s, gv)
}
