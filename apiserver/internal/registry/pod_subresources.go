package registry

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"

	"github.com/tarnproject/tarn/apiserver/internal/admission"
	"github.com/tarnproject/tarn/apiserver/internal/apierror"
	"github.com/tarnproject/tarn/apiserver/internal/kinds"
	"github.com/tarnproject/tarn/apiserver/internal/request"
	"github.com/tarnproject/tarn/object"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	policyv1beta1 "k8s.io/api/policy/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// readCreated decodes the object that is posted to a subresource, checks its name and namespace
// and calls the mutating webhooks.
func (s *Registry) readCreated(r *request.Request, admit *admission.Admission) (runtime.Object, error) {
	gvk := admit.Own.GVK()
	if err := r.CheckOptions(""); err != nil {
		return nil, err
	}
	raw, err := request.ReadBody(r.Request)
	if err != nil {
		return nil, err
	}
	obj, _, err := s.Codecs.Decode.Decode(raw, &gvk, nil)
	if err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("decoding %s: %v", gvk.Kind, err))
	}
	m, err := meta.Accessor(obj)
	if err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("not a %s object: %T", gvk.Kind, obj))
	}
	if err := setNamespace(m, r.Namespace); err != nil {
		return nil, err
	}
	if m.GetName() != r.Name {
		return nil, apierrors.NewBadRequest("name in URL does not match name in " + gvk.Kind + " object")
	}
	if old, ok := obj.(*policyv1beta1.Eviction); ok {
		obj = &policyv1.Eviction{ObjectMeta: old.ObjectMeta, DeleteOptions: old.DeleteOptions}
	}
	if got := reflect.TypeOf(obj); got != reflect.TypeOf(admit.Own.Empty()) {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("not a %s object: %v", gvk.Kind, got))
	}
	obj.GetObjectKind().SetGroupVersionKind(gvk)
	if err := s.isActive(r.Kind, m); err != nil {
		return nil, err
	}
	return admit.Change(nil, obj)
}

// serveEviction deletes a pod if its disruption budget allows it.
func (s *Registry) serveEviction(w http.ResponseWriter, r *request.Request) error {
	admit := s.Webhooks.AdmitSubresource(w, r, kinds.EvictionKind)
	obj, err := s.readCreated(r, admit)
	if err != nil {
		return err
	}
	opts := obj.(*policyv1.Eviction).DeleteOptions
	if opts == nil {
		opts = new(metav1.DeleteOptions)
	}
	if len(opts.DryRun) == 0 {
		opts.DryRun = r.URL.Query()["dryRun"]
	}
	old := s.Storage.Get(r.Kind, r.Key())
	if old == nil {
		return kinds.NotFound(r.Kind, r.Name)
	}
	if err := admit.Check(nil, obj); err != nil {
		return err
	}
	if err := s.disrupt(old.Obj.(*corev1.Pod), len(opts.DryRun) > 0); err != nil {
		return err
	}
	if err := s.evict(r.Kind, old, opts); err != nil {
		return err
	}
	s.Out.Created(w, r)
	return nil
}

// evict marks a pod as a target of disruption and deletes it.
func (s *Registry) evict(k *kinds.Kind, old *kinds.Record, opts *metav1.DeleteOptions) error {
	for len(opts.DryRun) == 0 {
		if err := checkPreconditions(k, old, opts.Preconditions); err != nil {
			return err
		}
		pod := old.Obj.DeepCopyObject().(*corev1.Pod)
		setPodCondition(pod, corev1.PodCondition{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "EvictionByEvictionAPI", Message: "Eviction API: evicting",
		})
		marked, ok, err := s.store(k, old, pod)
		if err != nil {
			return err
		}
		if ok {
			if p := opts.Preconditions; p != nil && p.ResourceVersion != nil {
				version := marked.Meta.GetResourceVersion()
				opts.Preconditions = &metav1.Preconditions{UID: p.UID, ResourceVersion: &version}
			}
			break
		}
		if old = s.Storage.Get(k, old.Key); old == nil {
			return kinds.NotFound(k, pod.Name)
		}
	}
	_, _, err := s.delete(k, old, opts)
	return err
}

// disrupt checks the budget of a pod and takes one disruption from it, unless dry.
func (s *Registry) disrupt(pod *corev1.Pod, dry bool) error {
	if pod.Status.Phase != corev1.PodRunning && pod.Status.Phase != corev1.PodUnknown || pod.DeletionTimestamp != nil {
		return nil // it is not available in any case
	}
	k, err := s.Catalog.Get(policyv1.SchemeGroupVersion.WithResource("poddisruptionbudgets"))
	if err != nil {
		return err
	}
	for {
		var budgets []*kinds.Record
		for _, rec := range s.Storage.All(k, pod.Namespace) {
			sel, err := metav1.LabelSelectorAsSelector(rec.Obj.(*policyv1.PodDisruptionBudget).Spec.Selector)
			if err == nil && sel.Matches(labels.Set(pod.Labels)) {
				budgets = append(budgets, rec)
			}
		}
		switch len(budgets) {
		case 0:
			return nil
		case 1:
		default:
			return apierror.Failed("This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.")
		}
		pdb := budgets[0].Obj.DeepCopyObject().(*policyv1.PodDisruptionBudget)
		if unhealthyMayGo(pod, pdb) {
			return nil
		}
		if err := checkBudget(pdb); err != nil || dry {
			return err
		}
		pdb.Status.DisruptionsAllowed--
		if pdb.Status.DisruptionsAllowed == 0 {
			meta.SetStatusCondition(&pdb.Status.Conditions, metav1.Condition{
				Type: policyv1.DisruptionAllowedCondition, Status: metav1.ConditionFalse, Reason: policyv1.InsufficientPodsReason,
				ObservedGeneration: pdb.Status.ObservedGeneration,
			})
		}
		if pdb.Status.DisruptedPods == nil {
			pdb.Status.DisruptedPods = map[string]metav1.Time{}
		}
		pdb.Status.DisruptedPods[pod.Name] = kinds.Now()
		if _, ok, err := s.store(k, budgets[0], pdb); ok || err != nil {
			return err
		}
	}
}

// unhealthyMayGo reports whether a pod that is not ready can be evicted without a disruption.
func unhealthyMayGo(pod *corev1.Pod, pdb *policyv1.PodDisruptionBudget) bool {
	if slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	}) {
		return false
	}
	policy, status := pdb.Spec.UnhealthyPodEvictionPolicy, pdb.Status
	return policy != nil && *policy == policyv1.AlwaysAllow || status.CurrentHealthy >= status.DesiredHealthy && status.DesiredHealthy > 0
}

// maxDisruptedPods is how many evictions a budget records before its controller confirms them.
const maxDisruptedPods = 2000

// checkBudget returns an error if a budget allows no disruption now.
func checkBudget(pdb *policyv1.PodDisruptionBudget) error {
	status := pdb.Status
	refuse := func(retryAfter int, cause string) error {
		err := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", retryAfter)
		err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{Type: policyv1.DisruptionBudgetCause, Message: cause})
		return err
	}
	forbid := func(why string) error {
		return apierrors.NewForbidden(schema.GroupResource{Group: policyv1.GroupName, Resource: "poddisruptionbudget"}, pdb.Name, errors.New(why))
	}
	switch {
	case status.ObservedGeneration < pdb.Generation:
		return refuse(10, fmt.Sprintf("The disruption budget %s is still being processed by the server.", pdb.Name))
	case status.DisruptionsAllowed < 0:
		return forbid("pdb disruptions allowed is negative")
	case len(status.DisruptedPods) > maxDisruptedPods:
		return forbid("DisruptedPods map too big - too many evictions not confirmed by PDB controller")
	case status.DisruptionsAllowed > 0:
		return nil
	}
	cause := fmt.Sprintf("The disruption budget %s does not allow evicting pods currently", pdb.Name)
	why := meta.FindStatusCondition(status.Conditions, policyv1.DisruptionAllowedCondition)
	explained := why != nil && why.Status == metav1.ConditionFalse && why.Message != ""
	switch {
	case explained && why.Reason == policyv1.SyncFailedReason:
		cause += " because it failed sync: " + why.Message
	case status.CurrentHealthy <= status.DesiredHealthy:
		cause = fmt.Sprintf("The disruption budget %s needs %d healthy pods and has %d currently", pdb.Name, status.DesiredHealthy, status.CurrentHealthy)
	case explained:
		cause += fmt.Sprintf(" (%s): %s", why.Reason, why.Message)
	}
	return refuse(0, cause)
}

// setPodCondition adds or replaces a condition. Its transition time changes only with its
// status.
func setPodCondition(pod *corev1.Pod, c corev1.PodCondition) {
	c.LastTransitionTime = kinds.Now()
	for i, was := range pod.Status.Conditions {
		if was.Type == c.Type {
			if was.Status == c.Status {
				c.LastTransitionTime = was.LastTransitionTime
			}
			pod.Status.Conditions[i] = c
			return
		}
	}
	pod.Status.Conditions = append(pod.Status.Conditions, c)
}

// serveBinding assigns a pod to a node.
func (s *Registry) serveBinding(w http.ResponseWriter, r *request.Request) error {
	admit := s.Webhooks.AdmitSubresource(w, r, kinds.BindingKind)
	obj, err := s.readCreated(r, admit)
	if err != nil {
		return err
	}
	return s.bindPod(w, r, r.Kind, obj.(*corev1.Binding), admit)
}

// bindPod assigns the pod that a binding names to a node.
func (s *Registry) bindPod(w http.ResponseWriter, r *request.Request, pods *kinds.Kind, binding *corev1.Binding, admit *admission.Admission) error {
	if kind := binding.Target.Kind; kind != "" && kind != "Node" {
		return apierrors.NewInternalError(fmt.Errorf("target.kind: Unsupported value: %q: supported values: \"Node\", \"<empty>\"", kind))
	}
	if binding.Target.Name == "" {
		return apierrors.NewInternalError(errors.New("target.name: Required value"))
	}
	if err := admit.Check(nil, binding); err != nil {
		return err
	}
	for {
		old := s.Storage.Get(pods, object.Key{Namespace: r.Namespace, Name: binding.Name})
		if old == nil {
			return kinds.NotFound(pods, binding.Name)
		}
		pod, err := bound(pods, old, binding)
		ok := r.DryRun()
		if err == nil && !ok {
			_, ok, err = s.store(pods, old, pod)
		}
		if err != nil {
			return err
		}
		if ok {
			s.Out.Created(w, r)
			return nil
		}
	}
}

// bound returns a pod that is assigned to the node of a binding.
func bound(k *kinds.Kind, old *kinds.Record, binding *corev1.Binding) (runtime.Object, error) {
	pod := old.Obj.DeepCopyObject().(*corev1.Pod)
	var why string
	switch {
	case binding.UID != "" && binding.UID != pod.UID:
		return nil, kinds.UpdatePreconditionFailed(k, old.Key, "UID", string(binding.UID), string(pod.UID))
	case binding.ResourceVersion != "" && binding.ResourceVersion != pod.ResourceVersion:
		return nil, kinds.UpdatePreconditionFailed(k, old.Key, "ResourceVersion", binding.ResourceVersion, pod.ResourceVersion)
	case pod.DeletionTimestamp != nil:
		why = fmt.Sprintf("pod %s is being deleted, cannot be assigned to a host", pod.Name)
	case pod.Spec.NodeName != "":
		why = fmt.Sprintf("pod %s is already assigned to node %q", pod.Name, pod.Spec.NodeName)
	case len(pod.Spec.SchedulingGates) > 0:
		why = fmt.Sprintf("pod %s has non-empty .spec.schedulingGates", pod.Name)
	}
	if why != "" {
		return nil, apierrors.NewConflict(schema.GroupResource{Resource: "pods/binding"}, pod.Name, errors.New(why))
	}
	pod.Spec.NodeName, pod.Status.NominatedNodeName = binding.Target.Name, ""
	pod.Annotations = labels.Merge(pod.Annotations, binding.Annotations)
	pod.Labels = labels.Merge(pod.Labels, binding.Labels)
	setPodCondition(pod, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue})
	return pod, nil
}
