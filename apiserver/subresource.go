package apiserver

import (
	"fmt"
	"net/http"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"mime"
)

// serveSubresource serves status, scale, binding, eviction, token and finalize.
func (s *Server) serveSubresource(w http.ResponseWriter, r *request) error {
	switch {
	case r.subresource == "status" && r.kind.status:
		switch r.verb {
		case "get":
			return s.serveGet(w, r)
		case "update":
			return s.serveUpdate(w, r)
		case "patch":
			return s.servePatch(w, r)
		}
	case r.subresource == "scale" && r.kind.scale != nil:
		return s.serveScale(w, r)
	case r.kind.Kind == "Pod" && r.subresource == "eviction" && r.verb == "create":
		return s.serveEviction(w, r)
	case r.kind.Kind == "Pod" && r.subresource == "binding" && r.verb == "create":
		return s.serveBinding(w, r)
	case r.kind.String() == "serviceaccounts" && r.subresource == "token" && r.verb == "create":
		return s.serveToken(w, r)
	case r.kind.storage == s.namespaces && r.subresource == "finalize" && r.verb == "update":
		r.subresource = ""
		return s.serveUpdate(w, r)
	case !r.kind.typed:
		return notFound(r.kind, r.name)
	default:
		return notServed()
	}
	return notAllowed()
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

func (s *Server) serveScale(w http.ResponseWriter, r *request) error {
	rec := s.storage.get(r.kind, r.key())
	if rec == nil {
		return notFound(r.kind, r.name)
	}
	if r.verb == "get" {
		if _, found, _ := unstructured.NestedFieldNoCopy(contentOf(r.kind.working(rec)), r.kind.scale.spec...); !found && !r.kind.typed {
			return apierrors.NewInternalError(fmt.Errorf("the spec replicas field %q does not exist", "."+strings.Join(r.kind.scale.spec, ".")))
		}
		s.respond(w, r.Request, representation{encoding: r.rep.encoding}, http.StatusOK, scaleOf(r.kind, rec))
		return nil
	}
	raw, err := readBody(r.Request)
	if err != nil {
		return err
	}
	for {
		old := s.storage.get(r.kind, r.key())
		if old == nil {
			return notFound(r.kind, r.name)
		}
		scale, err := s.readScale(r, raw, scaleOf(r.kind, old))
		if err != nil {
			return err
		}
		tree := runtime.DeepCopyJSON(contentOf(r.kind.working(old)))
		if err := unstructured.SetNestedField(tree, int64(scale.Spec.Replicas), r.kind.scale.spec...); err != nil {
			return apierrors.NewBadRequest(err.Error())
		}
		next := r.kind.storage.empty()
		if err := fromTree(tree, next); err != nil {
			return err
		}
		metaOf(next).SetResourceVersion(scale.ResourceVersion)
		if next, err = s.prepare(r.kind, "", old, next, r.manager()); err != nil {
			return err
		}
		rec, ok := unstoredRecord(next), true
		if !r.dryRun() {
			if rec, ok, err = s.store(r.kind, old, next); err != nil {
				return err
			}
		}
		if ok {
			s.respond(w, r.Request, representation{encoding: r.rep.encoding}, http.StatusOK, scaleOf(r.kind, rec))
			return nil
		}
	}
}

// fromTree converts an unstructured tree to an object.
func fromTree(tree map[string]any, into runtime.Object) error {
	if u, ok := into.(*unstructured.Unstructured); ok {
		u.Object = tree
		return nil
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(tree, into)
}

// readScale decodes the scale of an update, or applies a patch to the current one.
func (s *Server) readScale(r *request, raw []byte, present *autoscalingv1.Scale) (*autoscalingv1.Scale, error) {
	gvk := autoscalingv1.SchemeGroupVersion.WithKind("Scale")
	if r.verb == "patch" {
		before, err := s.codecs.encode(representation{}, present)
		if err != nil {
			return nil, err
		}
		media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
		patchType := types.PatchType(media)
		if patchType == types.StrategicMergePatchType {
			patchType = types.MergePatchType // equivalent, since a scale has no lists
		}
		if patchType != types.MergePatchType && patchType != types.JSONPatchType {
			return nil, notSupported()
		}
		if raw, err = patched(patchType, before, raw, r.kind); err != nil {
			return nil, err
		}
	}
	obj, _, err := s.codecs.decode.Decode(raw, &gvk, nil)
	if err != nil {
		return nil, apierrors.NewBadRequest("decoding scale: " + err.Error())
	}
	scale, ok := obj.(*autoscalingv1.Scale)
	// A schema has its own message for a negative number.
	if !ok || scale.Spec.Replicas < 0 && r.kind.schema == nil {
		return nil, apierrors.NewBadRequest("object is not a Scale with a non-negative number of replicas")
	}
	return scale, nil
}

// serveEviction deletes a pod. It ignores disruption budgets.
func (s *Server) serveEviction(w http.ResponseWriter, r *request) error {
	raw, err := readBody(r.Request)
	if err != nil {
		return err
	}
	gvk := policyv1.SchemeGroupVersion.WithKind("Eviction")
	obj, _, err := s.codecs.decode.Decode(raw, &gvk, nil)
	if err != nil {
		return apierrors.NewBadRequest("decoding eviction: " + err.Error())
	}
	opts := new(metav1.DeleteOptions)
	if ev, ok := obj.(*policyv1.Eviction); ok && ev.DeleteOptions != nil {
		opts = ev.DeleteOptions
	}
	old := s.storage.get(r.kind, r.key())
	if old == nil {
		return notFound(r.kind, r.name)
	}
	if _, _, err := s.delete(r.kind, old, opts); err != nil {
		return err
	}
	s.respondCreated(w, r)
	return nil
}

// respondCreated responds with 201 and a Status.
func (s *Server) respondCreated(w http.ResponseWriter, r *request) {
	s.respond(w, r.Request, representation{encoding: r.rep.encoding}, http.StatusCreated,
		&metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess, Code: http.StatusCreated})
}

// serveBinding assigns a pod to a node.
func (s *Server) serveBinding(w http.ResponseWriter, r *request) error {
	raw, err := readBody(r.Request)
	if err != nil {
		return err
	}
	gvk := schema.GroupVersionKind{Version: "v1", Kind: "Binding"}
	obj, _, err := s.codecs.decode.Decode(raw, &gvk, nil)
	if err != nil {
		return apierrors.NewBadRequest("decoding binding: " + err.Error())
	}
	binding, ok := obj.(*corev1.Binding)
	if !ok || binding.Target.Name == "" {
		return apierrors.NewBadRequest("binding has no target node")
	}
	for {
		old := s.storage.get(r.kind, r.key())
		if old == nil {
			return notFound(r.kind, r.name)
		}
		pod := old.obj.DeepCopyObject().(*corev1.Pod)
		if pod.Spec.NodeName != "" {
			return apierrors.NewConflict(r.kind.GVR().GroupResource(), r.name, fmt.Errorf("pod %s is already assigned to node %q", r.name, pod.Spec.NodeName))
		}
		pod.Spec.NodeName = binding.Target.Name
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: now()})
		if _, ok, err := s.store(r.kind, old, pod); err != nil {
			return err
		} else if ok {
			s.respondCreated(w, r)
			return nil
		}
	}
}
