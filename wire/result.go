package wire

import (
	"net/http"

	"k8s.io/apimachinery/pkg/runtime/schema"
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
