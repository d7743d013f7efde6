package registry

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/tarnproject/tarn/apiserver/internal/admission"
	"github.com/tarnproject/tarn/apiserver/internal/apierror"
	"github.com/tarnproject/tarn/apiserver/internal/codec"
	"github.com/tarnproject/tarn/apiserver/internal/kinds"
	"github.com/tarnproject/tarn/apiserver/internal/request"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// scaleOf returns an object's scale.
func scaleOf(k *kinds.Kind, rec *kinds.Record) *autoscalingv1.Scale {
	tree := kinds.ContentOf(k.Working(rec))
	number := func(path []string) int32 {
		v, _, _ := unstructured.NestedFieldNoCopy(tree, path...)
		n, _ := v.(int64)
		return int32(n)
	}
	scale := &autoscalingv1.Scale{
		TypeMeta: metav1.TypeMeta{APIVersion: "autoscaling/v1", Kind: "Scale"},
		ObjectMeta: metav1.ObjectMeta{
			Name: rec.Key.Name, Namespace: rec.Key.Namespace, UID: rec.Meta.GetUID(),
			ResourceVersion: rec.Meta.GetResourceVersion(), CreationTimestamp: rec.Meta.GetCreationTimestamp(),
		},
		Spec: autoscalingv1.ScaleSpec{Replicas: number(k.Scale.Spec)}, Status: autoscalingv1.ScaleStatus{Replicas: number(k.Scale.Status)},
	}
	switch sel, _, _ := unstructured.NestedFieldNoCopy(tree, k.Scale.Selector...); sel := sel.(type) {
	case map[string]any:
		if len(k.Scale.Selector) > 0 {
			scale.Status.Selector = selectorText(sel)
		}
	case string: // of a custom resource
		scale.Status.Selector = sel
	}
	return scale
}

// selectorText formats a label selector, which is a plain map in a ReplicationController.
func selectorText(tree map[string]any) string {
	var sel metav1.LabelSelector
	if tree["matchLabels"] != nil || tree["matchExpressions"] != nil {
		if runtime.DefaultUnstructuredConverter.FromUnstructured(tree, &sel) == nil {
			if parsed, err := metav1.LabelSelectorAsSelector(&sel); err == nil {
				return parsed.String()
			}
		}
		return ""
	}
	set := labels.Set{}
	for k, v := range tree {
		set[k] = fmt.Sprint(v)
	}
	return set.String()
}

// serveScale reads or writes the scale of an object.
func (s *Registry) serveScale(w http.ResponseWriter, r *request.Request) error {
	rec := s.Storage.Get(r.Kind, r.Key())
	if rec == nil {
		return kinds.NotFound(r.Kind, r.Name)
	}
	switch r.Verb {
	case "get":
		if _, found, _ := unstructured.NestedFieldNoCopy(kinds.ContentOf(r.Kind.Working(rec)), r.Kind.Scale.Spec...); !found && !r.Kind.Typed {
			return apierrors.NewInternalError(fmt.Errorf("the spec replicas field %q does not exist", "."+strings.Join(r.Kind.Scale.Spec, ".")))
		}
	case "update", "patch":
		onScale, whole := *r, *r
		onScale.Kind, whole.Subresource = kinds.ScaleKind, ""
		edit, err := s.editOf(w, &onScale)
		if err != nil {
			return err
		}
		admit := s.Webhooks.AdmitSubresource(w, r, kinds.ScaleKind)
		rec, err = s.modify(&whole, nil, "", func(old *kinds.Record) (runtime.Object, error) { return s.rescaled(&onScale, r.Kind, old, edit, admit) })
		if err != nil {
			return err
		}
	default:
		return apierror.NotAllowed()
	}
	s.Out.Object(w, r.Request, codec.Representation{Encoding: r.Rep.Encoding}, http.StatusOK, scaleOf(r.Kind, rec))
	return nil
}

// rescaled returns an object with an edited scale. The owners of its replicas are those of
// the scale's.
func (s *Registry) rescaled(r *request.Request, k *kinds.Kind, old *kinds.Record, edit editor, admit *admission.Admission) (runtime.Object, error) {
	owners := managedfields.NewScaleHandler(old.Meta.GetManagedFields(), k.GVK().GroupVersion(), k.Scale.Versions)
	present := scaleOf(k, old)
	var err error
	if present.ManagedFields, err = owners.ToSubresource(); err != nil {
		return nil, err
	}
	before := kinds.NewUnstored(present)
	edited, err := edit(before)
	if err != nil {
		return nil, err
	}
	if edited, err = s.Ownership.Updated(kinds.ScaleKind, "scale", present, edited, r.Updater()); err != nil {
		return nil, err
	}
	if edited, err = admit.Change(before, edited); err != nil {
		return nil, err
	}
	scale := edited.(*autoscalingv1.Scale)
	// A schema has its own message for a negative number.
	if scale.Spec.Replicas < 0 && k.Schema == nil {
		return nil, apierrors.NewInvalid(kinds.ScaleKind.GVK().GroupKind(), r.Name, field.ErrorList{
			field.Invalid(field.NewPath("spec", "replicas"), scale.Spec.Replicas, validation.IsNegativeErrorMsg).WithOrigin("minimum")})
	}
	if scale.UID != "" && scale.UID != old.Meta.GetUID() && k.Typed {
		return nil, kinds.UpdatePreconditionFailed(k, old.Key, "UID", string(scale.UID), string(old.Meta.GetUID()))
	}
	if err := admit.Check(before, scale); err != nil {
		return nil, err
	}
	tree := runtime.DeepCopyJSON(kinds.ContentOf(k.Working(old)))
	if err := unstructured.SetNestedField(tree, int64(scale.Spec.Replicas), k.Scale.Spec...); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	next := k.Storage.Empty()
	if err := kinds.FromTree(tree, next); err != nil {
		return nil, err
	}
	entries, err := owners.ToParent(scale.ManagedFields)
	if err != nil {
		return nil, err
	}
	kinds.MetaOf(next).SetManagedFields(entries)
	kinds.MetaOf(next).SetResourceVersion(scale.ResourceVersion)
	return next, nil
}
