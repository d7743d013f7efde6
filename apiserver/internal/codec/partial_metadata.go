package codec

import (
	"github.com/tarnproject/tarn/apiserver/internal/kinds"
	"github.com/tarnproject/tarn/apiserver/internal/storage"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Partial returns the metadata of an object.
func Partial(rec *kinds.Record, gv schema.GroupVersion) *metav1.PartialObjectMetadata {
	m := rec.Meta
	p := &metav1.PartialObjectMetadata{
		TypeMeta: metav1.TypeMeta{APIVersion: gv.String(), Kind: "PartialObjectMetadata"},
		ObjectMeta: metav1.ObjectMeta{
			Name: m.GetName(), GenerateName: m.GetGenerateName(), Namespace: m.GetNamespace(), UID: m.GetUID(),
			ResourceVersion: m.GetResourceVersion(), Generation: m.GetGeneration(), CreationTimestamp: m.GetCreationTimestamp(),
			DeletionTimestamp: m.GetDeletionTimestamp(), DeletionGracePeriodSeconds: m.GetDeletionGracePeriodSeconds(),
			Labels: m.GetLabels(), Annotations: m.GetAnnotations(), OwnerReferences: m.GetOwnerReferences(),
			Finalizers: m.GetFinalizers(), ManagedFields: m.GetManagedFields(),
		},
	}
	return p
}

// PartialList returns the metadata of a page.
func PartialList(p storage.Page, gv schema.GroupVersion) *metav1.PartialObjectMetadataList {
	list := &metav1.PartialObjectMetadataList{
		TypeMeta: metav1.TypeMeta{APIVersion: gv.String(), Kind: "PartialObjectMetadataList"},
		ListMeta: metav1.ListMeta{ResourceVersion: kinds.FormatVersion(p.Version), Continue: p.Next, RemainingItemCount: p.Remaining},
		Items:    make([]metav1.PartialObjectMetadata, len(p.Records)),
	}
	for i, rec := range p.Records {
		list.Items[i] = *Partial(rec, gv)
	}
	return list
}
