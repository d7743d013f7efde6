package stream

import (
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// protoField encodes one length-delimited field, for messages that no encoder produces.
func protoField(num protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, num, protowire.BytesType), value)
}

func decodeUnstructured(t testing.TB, body []byte) *unstructured.UnstructuredList {
	t.Helper()
	obj, _, err := unstructured.UnstructuredJSONScheme.Decode(body, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return obj.(*unstructured.UnstructuredList)
}
