// Package wiretest has the fixtures that the tests of wire and wire/stream share: a transport in
// memory, and responses encoded by apimachinery's serializers rather than by Tarn's code, so that
// an error cannot hide on both sides.
package wiretest

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
)

// The content types of an API server.
const (
	JSON     = "application/json"
	Protobuf = "application/vnd.kubernetes.protobuf"
)

// RoundTrip is a transport in memory.
type RoundTrip func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f RoundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// Response returns a response. The headers are name, value, name, value.
func Response(req *http.Request, code int, body string, headers ...string) *http.Response {
	h := http.Header{}
	for i := 0; i+1 < len(headers); i += 2 {
		h.Add(headers[i], headers[i+1])
	}
	return &http.Response{
		StatusCode: code, Header: h, Body: io.NopCloser(strings.NewReader(body)),
		ContentLength: int64(len(body)), Request: req, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
}

// Must returns a function that returns v, or fails the test if err is set.
func Must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// Codecs knows PartialObjectMetadata besides the built-in kinds.
var metaScheme, Codecs = func() (*runtime.Scheme, serializer.CodecFactory) {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, metav1.AddMetaToScheme} {
		if err := add(s); err != nil {
			panic(err)
		}
	}
	return s, serializer.NewCodecFactory(s)
}()

// Serializer returns the serializers of a content type.
func Serializer(contentType string) runtime.SerializerInfo {
	info, ok := runtime.SerializerInfoForMediaType(Codecs.SupportedMediaTypes(), contentType)
	if !ok {
		panic(contentType)
	}
	return info
}

// Named returns a copy of obj with its kind, as an API server sends it.
func Named(obj runtime.Object) runtime.Object {
	if _, ok := obj.(runtime.Unstructured); ok {
		return obj
	}
	obj = obj.DeepCopyObject()
	if obj.GetObjectKind().GroupVersionKind().Empty() {
		kinds, _, err := metaScheme.ObjectKinds(obj)
		if err != nil {
			panic(err)
		}
		obj.GetObjectKind().SetGroupVersionKind(kinds[0])
	}
	return obj
}

// Encode encodes an object or a list as an API server does, with its kind.
func Encode(contentType string, obj runtime.Object) []byte {
	var b bytes.Buffer
	var enc runtime.Encoder = Serializer(contentType).Serializer
	if _, ok := obj.(runtime.Unstructured); ok {
		enc = unstructured.UnstructuredJSONScheme
	}
	if err := enc.Encode(Named(obj), &b); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// EncodeEvent encodes a frame of a watch as an API server does.
func EncodeEvent(contentType, typ string, obj runtime.Object) []byte {
	var b bytes.Buffer
	info := Serializer(contentType).StreamSerializer
	ev := &metav1.WatchEvent{Type: typ, Object: runtime.RawExtension{Raw: Encode(contentType, obj)}}
	if err := info.Serializer.Encode(ev, info.Framer.NewFrameWriter(&b)); err != nil {
		panic(err)
	}
	return b.Bytes()
}
