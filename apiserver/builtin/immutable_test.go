package builtin

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
)

func TestImmutableFieldsMustEqualTheOldOnes(t *testing.T) {
	retain := corev1.PersistentVolumeReclaimRetain
	for want, of := range map[string][2]runtime.Object{
		`handler: Invalid value: "b": field is immutable`: {
			&nodev1.RuntimeClass{Handler: "b"}, &nodev1.RuntimeClass{Handler: "a"}},
		`spec.pool.name: Invalid value: "b": field is immutable`: {
			&resourcev1.ResourceSlice{Spec: resourcev1.ResourceSliceSpec{Pool: resourcev1.ResourcePool{Name: "b"}}}, &resourcev1.ResourceSlice{}},
		`provisioner: Invalid value: "b": field is immutable; reclaimPolicy: Invalid value: "Retain": field is immutable`: {
			&storagev1.StorageClass{Provisioner: "b", ReclaimPolicy: &retain}, &storagev1.StorageClass{}},
		"": {&storagev1.StorageClass{Provisioner: "b"}, &storagev1.StorageClass{Provisioner: "b"}},
	} {
		p := &problems{}
		p.fixed(of[0], of[1])
		var got []string
		for _, err := range p.list {
			got = append(got, err.Error())
		}
		if strings.Join(got, "; ") != want {
			t.Errorf("%T: %q, want %q", of[0], got, want)
		}
	}
}

// Every field in the table exists in the version v1 of its kind, where k8s.io/api has that.
func TestTheImmutableFieldsExist(t *testing.T) {
	for gvk := range scheme.Scheme.AllKnownTypes() {
		if immutableFields[gvk.Kind] == nil || gvk.Version != "v1" {
			continue
		}
		obj, err := scheme.Scheme.New(gvk)
		if err != nil {
			t.Fatal(err)
		}
		p := &problems{}
		p.fixed(obj, obj.DeepCopyObject()) // panics for a field that does not exist
		if len(p.list) > 0 {
			t.Errorf("%s: %v", gvk, p.list)
		}
	}
}
