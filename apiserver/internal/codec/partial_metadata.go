package codec

import (
	"github.com/tarnproject/tarn/apiserver/internal/kinds"
	"github.com/tarnproject/tarn/apiserver/internal/storage"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Partial returns the metadata of an object.
func Partial(rec *kinds.Record, gv schema.GroupVersion) *metav1.PartialObjectMetadata {
	p := meta.AsPartialObjectMetadata(rec.Meta)
	p.TypeMeta = metav1.TypeMeta{APIVersion: gv.String(), Kind: "PartialObjectMetadata"}
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
