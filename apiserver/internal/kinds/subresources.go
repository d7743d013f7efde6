package kinds

import (
	"strings"

	"github.com/tarnproject/tarn/object"
	authenticationv1 "k8s.io/api/authentication/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ObjectSubresources lists the subresources that are read and written as the whole object,
// besides status.
var ObjectSubresources = map[string]map[string]bool{
	"pods":       stringSet("ephemeralcontainers resize"),
	"namespaces": stringSet("finalize"),
	"certificatesigningrequests.certificates.k8s.io": stringSet("approval"),
}

// The kinds of the objects of other subresources. They are not in the catalog.
var (
	ScaleKind    = subresourceKind(autoscalingv1.SchemeGroupVersion, "Scale")
	BindingKind  = subresourceKind(corev1.SchemeGroupVersion, "Binding")
	EvictionKind = subresourceKind(policyv1.SchemeGroupVersion, "Eviction")
	TokenKind    = subresourceKind(authenticationv1.SchemeGroupVersion, "TokenRequest")
)

func subresourceKind(gv schema.GroupVersion, name string) *Kind {
	k := &Kind{Resource: object.Resource{Group: gv.Group, Version: gv.Version, Resource: strings.ToLower(name) + "s", Kind: name, Namespaced: true}, Typed: true}
	k.Storage = k
	return k
}
