package apiserver

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	yaml "sigs.k8s.io/yaml/goyaml.v2"
)

// The limits of the real server. What a client sends is bounded by them, and what it
// can make of that: by the copies of a patch, the aliases of YAML or by merging.
const (
	// maxBody is how much of a request is read.
	maxBody = 3 << 20
	// maxOperations is how many steps a JSON patch has.
	maxOperations = 10_000
	// maxCopied is how much the copies of a JSON patch add together.
	maxCopied = 3 << 20
	// maxDepth is how deep JSON is nested, as encoding/json has it.
	maxDepth = 10_000
	// maxObject is how large an encoded object is, as etcd has it.
	maxObject = 3 << 19
)

var errDeep = errors.New("the result of the patch is nested too deep")

// extent is about how many bytes a tree has in JSON. It stops counting above the limit.
func extent(tree any, limit int) int {
	n, _ := measure(tree, limit, maxDepth)
	return n
}

// measure is extent for trees that may be deeper than can be encoded.
func measure(tree any, limit, depth int) (n int, err error) {
	if depth == 0 {
		return 0, errDeep
	}
	add := func(value any) error {
		if n > limit {
			return nil
		}
		more, err := measure(value, limit-n, depth-1)
		n += more + 1
		return err
	}
	switch node := tree.(type) {
	case string:
		return len(node) + 2, nil
	case map[string]any:
		for name, value := range node {
			n += len(name) + 3
			if err := add(value); err != nil {
				return n, err
			}
		}
	case map[any]any: // of YAML
		for name, value := range node {
			if err := errors.Join(add(name), add(value)); err != nil {
				return n, err
			}
		}
	case []any:
		for _, value := range node {
			if err := add(value); err != nil {
				return n, err
			}
		}
	default:
		return 4, nil
	}
	return n + 2, nil
}

// sizeOf is how many bytes etcd stores for an object: protobuf of a built-in kind, JSON of
// a custom one.
func sizeOf(obj runtime.Object) int {
	switch o := obj.(type) {
	case *unstructured.Unstructured:
		return extent(o.Object, 1<<30)
	case interface{ Size() int }:
		return o.Size()
	}
	return 0
}

// checkSize refuses an object that etcd would not take, in etcd's words.
func checkSize(obj runtime.Object) error {
	if sizeOf(obj) <= maxObject {
		return nil
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: "etcdserver: request is too large",
	}}
}

// checkAliases refuses YAML that its aliases would make longer than a body may be.
func checkAliases(raw []byte) error {
	if !bytes.Contains(raw, []byte("*")) || bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{")) || bytes.HasPrefix(raw, []byte("k8s\x00")) {
		return nil
	}
	var tree any
	if yaml.Unmarshal(raw, &tree) != nil {
		return nil // the decoder says what is wrong with it
	}
	if extent(tree, maxBody) > maxBody {
		return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d with its aliases", maxBody))
	}
	return nil
}
