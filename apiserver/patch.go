package apiserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"mime"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// toJSON converts YAML to JSON and leaves JSON unchanged.
func toJSON(raw []byte) ([]byte, error) { return yaml.ToJSON(raw) }

func (s *Server) servePatch(w http.ResponseWriter, r *request) error {
	raw, patchType, err := r.readPatch()
	if err != nil {
		return err
	}
	if patchType == types.ApplyYAMLPatchType {
		return s.serveApply(w, r, raw)
	}
	return s.sendModified(w, r, s.patching(w, r, patchType, raw))
}

// readPatch reads a patch and checks that the kind supports its type.
func (r *request) readPatch() ([]byte, types.PatchType, error) {
	raw, err := readBody(r.Request)
	if err != nil {
		return nil, "", err
	}
	patchType := r.patchType()
	switch patchType {
	case types.ApplyYAMLPatchType, types.JSONPatchType, types.MergePatchType:
	case types.StrategicMergePatchType:
		if !r.kind.typed {
			return nil, "", notSupported(types.JSONPatchType, types.MergePatchType, types.ApplyYAMLPatchType)
		}
	default:
		return nil, "", notSupported()
	}
	return raw, patchType, r.checkOptions(patchType)
}

func (r *request) patchType() types.PatchType {
	media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return types.PatchType(media)
}

// updater returns the field manager of an update or patch. It is empty for an apply, which
// updates the managed fields itself.
func (r *request) updater() string {
	if r.verb == "patch" && r.patchType() == types.ApplyYAMLPatchType {
		return ""
	}
	return r.manager()
}

// patching returns the editor of a JSON, merge or strategic merge patch.
func (s *Server) patching(w http.ResponseWriter, r *request, patchType types.PatchType, patch []byte) editor {
	return func(old *record) (runtime.Object, error) {
		before, err := s.codecs.record(r.kind, asJSON, old)
		if err != nil {
			return nil, err
		}
		after, err := patched(patchType, before, patch, r.kind)
		if err != nil {
			return nil, err
		}
		obj, err := s.codecs.parse(r.kind, after)
		if err != nil {
			return nil, invalidPatch(after, err)
		}
		if uid := metaOf(obj).GetUID(); uid != old.meta.GetUID() {
			return nil, apierrors.NewInvalid(r.kind.GVK().GroupKind(), r.name, field.ErrorList{
				field.Invalid(field.NewPath("metadata", "uid"), uid, "field is immutable")})
		}
		if err := s.checkTarget(r, metaOf(obj)); err != nil {
			return nil, err
		}
		if err := s.checkFields(w, r, after); err != nil {
			return nil, invalidPatch(after, err)
		}
		return obj, nil
	}
}

func patched(patchType types.PatchType, before, patch []byte, k *kind) ([]byte, error) {
	if patchType == types.StrategicMergePatchType {
		if err := json.Unmarshal(patch, new(map[string]any)); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		after, err := strategicpatch.StrategicMergePatch(before, patch, k.empty())
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		return after, nil
	}
	tree, err := parseTree(before)
	if err != nil {
		return nil, err
	}
	if patchType == types.MergePatchType {
		if err := json.Unmarshal(patch, new(map[string]any)); err != nil {
			return nil, apierrors.NewBadRequest("error decoding patch: " + err.Error())
		}
		change, err := parseTree(patch)
		if err != nil {
			return nil, apierrors.NewBadRequest("error decoding patch: " + err.Error())
		}
		return json.Marshal(mergePatch(tree, change))
	}
	var ops []operation
	if err := json.Unmarshal(patch, &ops); err != nil {
		return nil, apierrors.NewBadRequest("error decoding patch: " + err.Error())
	}
	if len(ops) > maxOperations {
		return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("The allowed maximum operations in a JSON patch is %d, got %d", maxOperations, len(ops)))
	}
	failed, tree, err := applyOperations(tree, ops)
	if err != nil {
		if failed == "test" {
			return nil, apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", err.Error(), 0, false)
		}
		return nil, apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "",
			"the server rejected our request due to an error in our request: "+err.Error(), 0, false)
	}
	return json.Marshal(tree)
}

// applyOperations applies a JSON patch. With an error it returns the operation that failed.
func applyOperations(tree any, ops []operation) (failed string, _ any, err error) {
	var copied int
	for i := range ops {
		tree, err = ops[i].apply(tree, &copied)
		if err == nil && i == len(ops)-1 {
			_, err = measure(tree, math.MaxInt, maxDepth)
		}
		if err != nil {
			return ops[i].Op, nil, err
		}
	}
	return "", tree, nil
}

// parseTree decodes JSON without rounding numbers.
func parseTree(raw []byte) (tree any, err error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	err = d.Decode(&tree)
	return tree, err
}

// mergePatch implements RFC 7386.
func mergePatch(target, patch any) any {
	changes, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	out, ok := target.(map[string]any)
	if !ok {
		out = map[string]any{}
	}
	for name, value := range changes {
		if value == nil {
			delete(out, name)
		} else {
			out[name] = mergePatch(out[name], value)
		}
	}
	return out
}

// serveApply implements server-side apply. It creates the object if it does not exist.
func (s *Server) serveApply(w http.ResponseWriter, r *request, raw []byte) error {
	applied, err := s.readApplied(r, raw)
	if err != nil {
		return err
	}
	if s.storage.get(r.kind, r.key()) == nil && r.subresource == "" {
		done, err := s.applyNew(w, r, applied)
		if done || err != nil {
			return err
		}
	}
	return s.sendModified(w, r, s.applying(r, applied))
}

// readApplied decodes an apply configuration.
func (s *Server) readApplied(r *request, raw []byte) (*unstructured.Unstructured, error) {
	raw, err := toJSON(raw)
	if err != nil {
		return nil, apierrors.NewBadRequest("error decoding YAML: error converting YAML to JSON: " + err.Error())
	}
	applied := new(unstructured.Unstructured)
	if err := json.Unmarshal(raw, &applied.Object); err != nil {
		return nil, apierrors.NewBadRequest("error decoding YAML: " + err.Error())
	}
	if got := applied.GroupVersionKind(); got != r.kind.GVK() {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("invalid object type: %v", got))
	}
	// UnmarshalJSON decodes whole numbers as int64, which the field manager needs.
	if err := applied.UnmarshalJSON(raw); err != nil {
		return nil, apierrors.NewBadRequest("error decoding YAML: " + err.Error())
	}
	if applied.GetName() == "" {
		applied.SetName(r.name)
	}
	if err := s.checkTarget(r, applied); err != nil {
		return nil, err
	}
	return applied, nil
}

// applyNew creates the object of an apply. Its results are those of createMissing.
func (s *Server) applyNew(w http.ResponseWriter, r *request, applied *unstructured.Unstructured) (done bool, err error) {
	if applied.GetUID() != "" {
		return true, apierrors.NewConflict(r.kind.GVR().GroupResource(), r.name, fmt.Errorf("uid mismatch: the provided object specified uid %s, and no existing object was found", applied.GetUID()))
	}
	blank := r.kind.blank()
	metaOf(blank).SetName(r.name)
	metaOf(blank).SetNamespace(r.namespace)
	obj, err := s.ownership.applied(r.kind, "", blank, applied, r.manager(), r.force())
	if err != nil {
		return true, err
	}
	return s.createMissing(w, r, obj)
}

// applying returns the editor that merges an apply configuration into the existing object.
func (s *Server) applying(r *request, applied *unstructured.Unstructured) editor {
	return func(old *record) (runtime.Object, error) {
		if v := applied.GetResourceVersion(); v != "" && v != old.meta.GetResourceVersion() {
			return nil, conflict(r.kind, old.key)
		}
		return s.ownership.applied(r.kind, r.subresource, r.kind.working(old).DeepCopyObject(), applied, r.manager(), r.force())
	}
}

// force reports whether an apply takes fields from other managers.
func (r *request) force() bool { return r.URL.Query().Get("force") == "true" }
