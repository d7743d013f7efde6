package main

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/object"
)

func TestOwnerReferencesToOtherSeedsAreKept(t *testing.T) {
	server := apiserver.Start(t, apiserver.Options{CollectGarbage: true})
	made := func(name, uid, owner string) seed {
		metadata := map[string]any{"name": name, "namespace": "default", "uid": uid}
		if owner != "" {
			metadata["ownerReferences"] = []any{map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": "uid-of-" + owner}}
		}
		return seed{obj: &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}}}
	}
	// The owner comes last, and one owner is missing.
	if err := createSeeds(t.Context(), server, []seed{made("a", "1", "z"), made("b", "2", "absent"), made("z", "uid-of-z", "")}); err != nil {
		t.Fatal(err)
	}
	find := func(name string) metav1.Object {
		obj, err := server.Get(corev1.SchemeGroupVersion.WithResource("configmaps"), object.Key{Namespace: "default", Name: name})
		if err != nil {
			t.Fatal(err)
		}
		return obj.(metav1.Object)
	}
	if refs := find("a").GetOwnerReferences(); len(refs) != 1 || refs[0].UID != find("z").GetUID() {
		t.Errorf("the owner of a: %v", refs)
	}
	if refs := find("b").GetOwnerReferences(); len(refs) != 0 {
		t.Errorf("the owner of b: %v", refs)
	}
}
