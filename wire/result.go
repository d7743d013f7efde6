package wire

import (
	"encoding/json"
	"net/http"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tarnproject/tarn/object"
)

// Result is the response to a request, read as a whole.
type Result struct {
	// Code is the HTTP status: 2xx.
	Code int
	// Header are the headers of the response.
	Header http.Header

	call    Call
	data    []byte
	secrets *secrets // removed from errors
}

// Raw returns the decompressed body. The caller must not change it before it calls Into.
func (r *Result) Raw() []byte { return r.data }

// Into decodes the body into an object. Whole numbers in untyped values become int64. If into
// has a kind and the body another, the error is an [object.ErrWrongKind].
func (r *Result) Into(into any) error {
	if k, ok := into.(kinded); ok {
		if gvk := k.GetObjectKind().GroupVersionKind(); !gvk.Empty() {
			return r.into(into, gvk)
		}
	}
	return r.into(into)
}

// Deletion returns what the response to a delete says: it is a Status or the object. It is the zero
// Deletion if the response cannot be read.
func (r *Result) Deletion() object.Deletion {
	type holder struct {
		UID     object.UID     `json:"uid"`
		Version object.Version `json:"resourceVersion"`
		Deleted string         `json:"deletionTimestamp"`
	}
	var response struct {
		Metadata holder `json:"metadata"`
		Details  holder `json:"details"`
	}
	if json.Unmarshal(r.data, &response) != nil {
		return object.Deletion{} // the delete was accepted
	}
	if response.Details.UID != "" {
		return object.Deletion{UID: response.Details.UID}
	}
	if response.Metadata.Deleted == "" {
		return object.Deletion{UID: response.Metadata.UID} // it is deleted; the version may be that before
	}
	return object.Deletion{UID: response.Metadata.UID, Version: response.Metadata.Version}
}

func (r *Result) into(into any, want ...schema.GroupVersionKind) error {
	if err := decodeObject(r.data, into, want...); err != nil {
		return &TransportError{Call: r.call, Err: r.secrets.hide(err), Attempts: 1}
	}
	return nil
}

// kinded is implemented by structs that embed metav1.TypeMeta.
type kinded interface{ GetObjectKind() schema.ObjectKind }

// accept returns the content types to request, best first: objects as they are, or converted to
// the kind as of meta.k8s.io. Plain JSON comes last, because an aggregated API server may support
// nothing else, and whole objects have metadata too.
func accept(e Encoding, as string) string {
	types := typeJSON
	if as != "" {
		as = ";as=" + as + ";g=meta.k8s.io;v=v1"
		types = typeJSON + as + "," + typeJSON
	}
	if e == Protobuf {
		types = typeProtobuf + as + "," + types
	}
	return types
}
