package apiserver

import (
	"bytes"
	"fmt"

	"github.com/tarnproject/tarn/apiserver/internal/apierror"
	"github.com/tarnproject/tarn/apiserver/internal/kinds"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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

// checkSize rejects an object that is too large for etcd, with etcd's message. It drops the managed
// fields if the object fits without them.
func checkSize(obj runtime.Object) error {
	for range 2 {
		if kinds.SizeOf(obj) <= maxObject {
			return nil
		}
		kinds.MetaOf(obj).SetManagedFields(nil)
	}
	return apierror.Failed("etcdserver: request is too large")
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
	if kinds.JSONSize(tree, maxBody) > maxBody {
		return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d with its aliases", maxBody))
	}
	return nil
}
