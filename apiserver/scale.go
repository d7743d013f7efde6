package apiserver

import (
	"fmt"
	"net/http"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// scalePaths holds the field paths behind the scale subresource.
type scalePaths struct {
	spec, status, selector []string
	// versions has spec of each version of the resource, nil for one without scale, because managed fields may be
	// of any of them.
	versions managedfields.ResourcePathMappings
}

// replicasPath converts the path of the replicas.
func replicasPath(fields []string) (path fieldpath.Path) {
	for i := range fields {
		path = append(path, fieldpath.PathElement{FieldName: &fields[i]})
	}
	return path
}

// scaleOf returns an object's scale.
func scaleOf(k *kind, rec *record) *autoscalingv1.Scale {
	tree := contentOf(k.working(rec))
	number := func(path []string) int32 {
		v, _, _ := unstructured.NestedFieldNoCopy(tree, path...)
		n, _ := v.(int64)
		return int32(n)
	}
	scale := &autoscalingv1.Scale{
		TypeMeta: metav1.TypeMeta{APIVersion: "autoscaling/v1", Kind: "Scale"},
		ObjectMeta: metav1.ObjectMeta{
			Name: rec.key.Name, Namespace: rec.key.Namespace, UID: rec.meta.GetUID(),
			ResourceVersion: rec.meta.GetResourceVersion(), CreationTimestamp: rec.meta.GetCreationTimestamp(),
		},
		Spec: autoscalingv1.ScaleSpec{Replicas: number(k.scale.spec)}, Status: autoscalingv1.ScaleStatus{Replicas: number(k.scale.status)},
	}
	switch sel, _, _ := unstructured.NestedFieldNoCopy(tree, k.scale.selector...); sel := sel.(type) {
	case map[string]any:
		if len(k.scale.selector) > 0 {
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
func (s *Server) serveScale(w http.ResponseWriter, r *request) error {
	rec := s.storage.get(r.kind, r.key())
	if rec == nil {
		return notFound(r.kind, r.name)
	}
	switch r.verb {
	case "get":
		if _, found, _ := unstructured.NestedFieldNoCopy(contentOf(r.kind.working(rec)), r.kind.scale.spec...); !found && !r.kind.typed {
			return apierrors.NewInternalError(fmt.Errorf("the spec replicas field %q does not exist", "."+strings.Join(r.kind.scale.spec, ".")))
		}
	case "update", "patch":
		onScale, whole := *r, *r
		onScale.kind, whole.subresource = scaleKind, ""
		edit, err := s.editOf(w, &onScale)
		if err != nil {
			return err
		}
		admit := s.subresourceAdmission(w, r, scaleKind)
		rec, err = s.modify(&whole, nil, "", func(old *record) (runtime.Object, error) { return s.rescaled(&onScale, r.kind, old, edit, admit) })
		if err != nil {
			return err
		}
	default:
		return notAllowed()
	}
	s.respond(w, r.Request, representation{encoding: r.rep.encoding}, http.StatusOK, scaleOf(r.kind, rec))
	return nil
}

// rescaled returns an object with an edited scale. The owners of its replicas are those of
// the scale's.
func (s *Server) rescaled(r *request, k *kind, old *record, edit editor, admit *admission) (runtime.Object, error) {
	owners := managedfields.NewScaleHandler(old.meta.GetManagedFields(), k.GVK().GroupVersion(), k.scale.versions)
	present := scaleOf(k, old)
	var err error
	if present.ManagedFields, err = owners.ToSubresource(); err != nil {
		return nil, err
	}
	before := unstoredRecord(present)
	edited, err := edit(before)
	if err != nil {
		return nil, err
	}
	if edited, err = s.ownership.updated(scaleKind, "scale", present, edited, r.updater()); err != nil {
		return nil, err
	}
	if edited, err = admit.change(before, edited); err != nil {
		return nil, err
	}
	scale := edited.(*autoscalingv1.Scale)
	// A schema has its own message for a negative number.
	if scale.Spec.Replicas < 0 && k.schema == nil {
		return nil, apierrors.NewInvalid(scaleKind.GVK().GroupKind(), r.name, field.ErrorList{
			field.Invalid(field.NewPath("spec", "replicas"), scale.Spec.Replicas, validation.IsNegativeErrorMsg).WithOrigin("minimum")})
	}
	if scale.UID != "" && scale.UID != old.meta.GetUID() && k.typed {
		return nil, updatePreconditionFailed(k, old.key, "UID", string(scale.UID), string(old.meta.GetUID()))
	}
	if err := admit.check(before, scale); err != nil {
		return nil, err
	}
	tree := runtime.DeepCopyJSON(contentOf(k.working(old)))
	if err := unstructured.SetNestedField(tree, int64(scale.Spec.Replicas), k.scale.spec...); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	next := k.storage.empty()
	if err := fromTree(tree, next); err != nil {
		return nil, err
	}
	entries, err := owners.ToParent(scale.ManagedFields)
	if err != nil {
		return nil, err
	}
	metaOf(next).SetManagedFields(entries)
	metaOf(next).SetResourceVersion(scale.ResourceVersion)
	return next, nil
}

// fromTree converts an unstructured tree to an object.
func fromTree(tree map[string]any, into runtime.Object) error {
	if u, ok := into.(*unstructured.Unstructured); ok {
		u.Object = tree
		return nil
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(tree, into)
}
