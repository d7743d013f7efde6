package patch

import (
	"fmt"
	"net/http"

	"github.com/tarnproject/tarn/apiserver/internal/kinds"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/json"
)

// Apply returns the result of a patch, and the unknown and duplicate fields in the patch itself.
func Apply(patchType types.PatchType, before, patch []byte, k *kinds.Kind) (after []byte, strict []error, err error) {
	undecodable := func(err error) error { return apierrors.NewBadRequest("error decoding patch: " + err.Error()) }
	switch patchType {
	case types.StrategicMergePatchType:
		if strict, err = json.UnmarshalStrict(patch, new(map[string]any)); err == nil {
			after, err = strategicpatch.StrategicMergePatch(before, patch, k.Empty())
		}
		if err != nil {
			return nil, nil, apierrors.NewBadRequest(err.Error())
		}
	case types.MergePatchType:
		if strict, err = json.UnmarshalStrict(patch, new(map[string]any)); err != nil {
			return nil, nil, undecodable(err)
		}
		if after, err = jsonpatch.MergePatch(before, patch); err != nil {
			return nil, nil, apierrors.NewBadRequest(err.Error())
		}
	default:
		if strict, err = json.UnmarshalStrict(patch, new([]operation)); err != nil {
			return nil, nil, undecodable(err)
		}
		for i, err := range strict {
			strict[i] = fmt.Errorf("json patch %w", err)
		}
		ops, err := jsonpatch.DecodePatch(patch)
		switch {
		case err != nil:
			return nil, nil, apierrors.NewBadRequest(err.Error())
		case len(ops) > maxOperations:
			return nil, nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("The allowed maximum operations in a JSON patch is %d, got %d", maxOperations, len(ops)))
		}
		if after, err = ApplyOperations(ops, before); err != nil {
			return nil, nil, apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", err.Error(), 0, false)
		}
	}
	return after, strict, nil
}

// operation is the form of an operation of a JSON patch, for unknown and duplicate fields.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	From  string `json:"from"`
	Value any    `json:"value"`
}

// ApplyOperations applies a JSON patch. The library panics on some operations that are not valid.
func ApplyOperations(ops jsonpatch.Patch, doc []byte) (out []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("invalid JSON patch: %v", p)
		}
	}()
	return ops.Apply(doc)
}

// kube-apiserver sets the limit of the library in the same way.
func init() { jsonpatch.AccumulatedCopySizeLimit = maxCopied }

// Limits of the real server: the operations of a JSON patch, and the total bytes that its copies add.
const (
	maxOperations = 10_000
	maxCopied     = 3 << 20
)
