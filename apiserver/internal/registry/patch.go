package registry

import (
	"fmt"
	"net/http"

	"github.com/tarnproject/tarn/apiserver/internal/codec"
	"github.com/tarnproject/tarn/apiserver/internal/kinds"
	"github.com/tarnproject/tarn/apiserver/internal/patch"
	"github.com/tarnproject/tarn/apiserver/internal/request"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/json"
)

// ServePatch serves a patch or apply.
func (s *Registry) ServePatch(w http.ResponseWriter, r *request.Request) error {
	raw, patchType, err := r.ReadPatch()
	if err != nil {
		return err
	}
	if patchType == types.ApplyYAMLPatchType {
		return s.serveApply(w, r, raw)
	}
	return s.sendModified(w, r, s.patching(w, r, patchType, raw))
}

// patching returns the editor of a JSON, merge or strategic merge patch.
func (s *Registry) patching(w http.ResponseWriter, r *request.Request, patchType types.PatchType, raw []byte) editor {
	return func(old *kinds.Record) (runtime.Object, error) {
		before, err := s.Codecs.Record(r.Kind, kinds.JSON, old)
		if err != nil {
			return nil, err
		}
		after, strict, err := patch.Apply(patchType, before, raw, r.Kind)
		if err != nil {
			return nil, err
		}
		obj, err := s.Codecs.Parse(r.Kind, after)
		if err != nil {
			return nil, request.InvalidPatch(after, err)
		}
		if uid := kinds.MetaOf(obj).GetUID(); uid != old.Meta.GetUID() {
			return nil, apierrors.NewInvalid(r.Kind.GVK().GroupKind(), r.Name, field.ErrorList{
				field.Invalid(field.NewPath("metadata", "uid"), uid, "field is immutable")})
		}
		if err := s.checkTarget(r, kinds.MetaOf(obj)); err != nil {
			return nil, err
		}
		if err := r.CheckFields(w, s.Codecs, after, strict...); err != nil {
			return nil, request.InvalidPatch(after, err)
		}
		return obj, nil
	}
}

// serveApply implements server-side apply. It creates the object if it does not exist.
func (s *Registry) serveApply(w http.ResponseWriter, r *request.Request, raw []byte) error {
	applied, err := s.readApplied(r, raw)
	if err != nil {
		return err
	}
	if s.Storage.Get(r.Kind, r.Key()) == nil && r.Subresource == "" {
		done, err := s.applyNew(w, r, applied)
		if done || err != nil {
			return err
		}
	}
	return s.sendModified(w, r, s.applying(r, applied))
}

// readApplied decodes an apply configuration.
func (s *Registry) readApplied(r *request.Request, raw []byte) (*unstructured.Unstructured, error) {
	raw, err := codec.ToJSON(raw)
	if err != nil {
		return nil, apierrors.NewBadRequest("error decoding YAML: error converting YAML to JSON: " + err.Error())
	}
	applied := new(unstructured.Unstructured)
	if err := json.UnmarshalCaseSensitivePreserveInts(raw, &applied.Object); err != nil {
		return nil, apierrors.NewBadRequest("error decoding YAML: " + err.Error())
	}
	if got := applied.GroupVersionKind(); got != r.Kind.GVK() {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("invalid object type: %v", got))
	}
	// UnmarshalJSON decodes whole numbers as int64, which the field manager needs.
	if err := applied.UnmarshalJSON(raw); err != nil {
		return nil, apierrors.NewBadRequest("error decoding YAML: " + err.Error())
	}
	// An omitted name or namespace stays omitted: that of the stored object counts, and messages have
	// the configuration as it was sent.
	said := applied.DeepCopy()
	if said.GetName() == "" {
		said.SetName(r.Name)
	}
	if err := s.checkTarget(r, said); err != nil {
		return nil, err
	}
	if applied.GetNamespace() != "" {
		applied.SetNamespace(said.GetNamespace())
	}
	return applied, nil
}

// applyNew creates the object of an apply. Its results are those of createMissing.
func (s *Registry) applyNew(w http.ResponseWriter, r *request.Request, applied *unstructured.Unstructured) (done bool, err error) {
	if applied.GetUID() != "" {
		return true, apierrors.NewConflict(r.Kind.GVR().GroupResource(), r.Name, fmt.Errorf("uid mismatch: the provided object specified uid %s, and no existing object was found", applied.GetUID()))
	}
	if applied.GetName() == "" {
		return true, s.checkTarget(r, applied)
	}
	blank := r.Kind.Blank()
	kinds.MetaOf(blank).SetName(r.Name)
	kinds.MetaOf(blank).SetNamespace(r.Namespace)
	obj, err := s.Ownership.Applied(r.Kind, "", blank, applied, r.Manager(), r.Force())
	if err != nil {
		return true, err
	}
	return s.createMissing(w, r, obj)
}

// applying returns the editor that merges an apply configuration into the existing object.
func (s *Registry) applying(r *request.Request, applied *unstructured.Unstructured) editor {
	return func(old *kinds.Record) (runtime.Object, error) {
		if v := applied.GetResourceVersion(); v != "" && v != old.Meta.GetResourceVersion() {
			return nil, kinds.Conflict(r.Kind, old.Key)
		}
		return s.Ownership.Applied(r.Kind, r.Subresource, r.Kind.Working(old).DeepCopyObject(), applied, r.Manager(), r.Force())
	}
}
