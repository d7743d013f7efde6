package apiserver

import (
	"bytes"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	yaml "sigs.k8s.io/yaml/goyaml.v2"
)

// Limits of the real server. They bound what a client sends and what that can expand to
// through JSON patch copies, YAML aliases or merging.
const (
	// maxBody limits the bytes of a request body.
	maxBody = 3 << 20
	// maxOperations limits the operations of a JSON patch.
	maxOperations = 10_000
	// maxCopied limits the total bytes added by a JSON patch's copies.
	maxCopied = 3 << 20
	// maxObject limits the bytes of an encoded object, as in etcd.
	maxObject = 3 << 19
)

// jsonSize returns the approximate size of a tree in JSON. It stops counting above limit.
func jsonSize(tree any, limit int) (n int) {
	add := func(value any) {
		if n <= limit {
			n += jsonSize(value, limit-n) + 1
		}
	}
	switch node := tree.(type) {
	case string:
		return len(node) + 2
	case map[string]any:
		for name, value := range node {
			n += len(name) + 3
			add(value)
		}
	case map[any]any: // from YAML
		for name, value := range node {
			add(name)
			add(value)
		}
	case []any:
		for _, value := range node {
			add(value)
		}
	default:
		return 4
	}
	return n + 2
}

// sizeOf returns the size of an object in etcd: protobuf for a built-in kind, JSON for a
// custom one.
func sizeOf(obj runtime.Object) int {
	switch o := obj.(type) {
	case *unstructured.Unstructured:
		return jsonSize(o.Object, 1<<30)
	case interface{ Size() int }:
		return o.Size()
	}
	return 0
}

// checkSize rejects an object that is too large for etcd, with etcd's message. It drops the managed
// fields if the object fits without them.
func checkSize(obj runtime.Object) error {
	for range 2 {
		if sizeOf(obj) <= maxObject {
			return nil
		}
		metaOf(obj).SetManagedFields(nil)
	}
	return failed("etcdserver: request is too large")
}

// checkAliases rejects YAML whose aliases expand beyond maxBody.
func checkAliases(raw []byte) error {
	if !bytes.Contains(raw, []byte("*")) || bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{")) || bytes.HasPrefix(raw, []byte("k8s\x00")) {
		return nil
	}
	var tree any
	if yaml.Unmarshal(raw, &tree) != nil {
		return nil // left to the decoder, which returns the better error
	}
	if jsonSize(tree, maxBody) > maxBody {
		return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d with its aliases", maxBody))
	}
	return nil
}
