package apiserver_test

import (
	"github.com/tarnproject/tarn/object"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

var lakes = object.Resource{Group: "example.com", Version: "v1", Resource: "lakes", Kind: "Lake", Namespaced: true}

var (
	deployments = object.Resource{Group: "apps", Version: "v1", Resource: "deployments", Kind: "Deployment"}
	capital     = object.Resource{Group: "example.com", Version: "v1", Resource: "Lakes", Kind: "Lake"}
)

var listAll metav1.ListOptions

func lake(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Lake", "metadata": map[string]any{"name": name, "namespace": "default"},
		"spec": map[string]any{"depth": int64(30), "colour": "blue"},
	}}
}

func namespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}
