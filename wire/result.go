package wire

import (
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Result is the answer to a request, read whole.
type Result struct {
	// Code is the HTTP status: 2xx.
	Code   int
	Header http.Header

	call    Call
	data    []byte
	secrets *secrets // what errors must not show
}

// Raw returns the body, decompressed.
func (r *Result) Raw() []byte { return r.data }

// Into decodes the body into an object: protobuf into what has it, JSON into
// anything, with int64 for whole numbers in untyped values. An object of another
// kind than into says it is, where it says one, is an [object.ErrWrongKind].
func (r *Result) Into(into any) error {
	if k, ok := into.(kinded); ok {
		if gvk := k.GetObjectKind().GroupVersionKind(); !gvk.Empty() {
			return r.into(into, gvk)
		}
	}
	return r.into(into)
}

func (r *Result) into(into any, want ...schema.GroupVersionKind) error {
	if err := decodeObject(r.data, into, want...); err != nil {
		return &TransportError{Call: r.call, Err: r.secrets.hide(err), Attempts: 1}
	}
	return nil
}

// kinded is what metav1.TypeMeta makes of a struct that embeds it.
type kinded interface{ GetObjectKind() schema.ObjectKind }

// accept returns the content types to ask for, best first. JSON always comes last:
// an aggregated server may know nothing else, and whole objects have metadata too.
func accept(e Encoding, metadataOnly bool) string {
	types := []string{typeJSON}
	if b := singleOf(e); b.mediaType() != typeJSON {
		types = []string{b.mediaType(), typeJSON}
	}
	if metadataOnly {
		for i := range types {
			types[i] += ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
		}
		types = append(types, typeJSON)
	}
	return strings.Join(types, ",")
}
