package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"testing"

	"github.com/tarnproject/tarn/bench/crds"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire"
	"github.com/tarnproject/tarn/wire/stream"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured/unstructuredscheme"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	"k8s.io/client-go/rest"
)

// answering answers each request with the same JSON.
type answering []byte

func (a answering) RoundTrip(req *http.Request) (*http.Response, error) {
	return &http.Response{
		Request: req, StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {kruntime.ContentTypeJSON}},
		Body: io.NopCloser(bytes.NewReader(a)),
	}, nil
}

// BenchmarkEncodingsOfCustomResources decodes a list of unstructured custom resources in JSON by
// Tarn and by apimachinery, and in CBOR by apimachinery. An operation is one object.
func BenchmarkEncodingsOfCustomResources(b *testing.B) {
	const objects = 2_000
	list := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "delivery.example.com/v1", "kind": "ReleaseList", "metadata": map[string]any{"resourceVersion": "1"}}}
	for _, o := range crds.Generate(crds.Options{Objects: objects}) {
		list.Items = append(list.Items, *o)
	}
	inJSON, err := list.MarshalJSON()
	check(err)
	creater, typer := unstructuredscheme.NewUnstructuredCreator(), unstructuredscheme.NewUnstructuredObjectTyper()
	codec := cbor.NewSerializer(creater, typer)
	var encoded bytes.Buffer
	check(codec.Encode(list, &encoded))
	inCBOR := encoded.Bytes()
	each := func(b *testing.B, size int, decode func()) {
		b.ReportAllocs()
		b.SetBytes(int64(size) / objects)
		for n := 0; n < b.N; n += objects {
			decode()
		}
	}
	b.Run("json/tarn", func(b *testing.B) {
		client, err := wire.New(&rest.Config{Host: "http://replay", Transport: answering(inJSON), QPS: -1}, wire.Options{})
		check(err)
		source, err := stream.NewSource(wire.For(client, wire.Unstructured(crds.Resource)), object.Selection{}, stream.Options{})
		check(err)
		each(b, len(inJSON), func() {
			n := 0
			_, err := source.List(context.Background(), object.ListOptions{}, nil, func(item object.Item[*unstructured.Unstructured]) error {
				n++
				return item.Err
			})
			check(err)
			if n != objects {
				fail("%d objects", n)
			}
		})
	})
	b.Run("json/apimachinery", func(b *testing.B) {
		each(b, len(inJSON), func() {
			obj, _, err := unstructured.UnstructuredJSONScheme.Decode(inJSON, nil, nil)
			check(err)
			if n := len(obj.(*unstructured.UnstructuredList).Items); n != objects {
				fail("%d objects", n)
			}
		})
	})
	b.Run("cbor/apimachinery", func(b *testing.B) {
		each(b, len(inCBOR), func() {
			into := new(unstructured.UnstructuredList)
			_, _, err := codec.Decode(inCBOR, nil, into)
			check(err)
			if len(into.Items) != objects {
				fail("%d objects", len(into.Items))
			}
		})
	})
}
