package workloads

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/tarnproject/tarn"
)

// evictionTimeout is how long an evicted pod that is not deleted counts as unhealthy.
const evictionTimeout = 2 * time.Minute

// addBudgets adds the controller that writes the status of PodDisruptionBudgets. The API server
// writes it too: an eviction takes one of the allowed disruptions and records the pod.
func (w *Workloads) addBudgets() error {
	return w.add("budgets", w.reconcileBudget, tarn.For(w.budgets.Mirror),
		budgetsBeside(w, w.pods), budgetsBeside(w, w.deployments), budgetsBeside(w, w.replicaSets), budgetsBeside(w, w.statefulSets))
}

// budgetsBeside reconciles the budgets of a namespace when an object in it changes.
func budgetsBeside[T tarn.Object](w *Workloads, r objects[T]) tarn.ControllerOption {
	return tarn.Watches(r.Mirror, func(obj T) (keys []tarn.Key) {
		for _, budget := range w.budgets.in(obj.GetNamespace()) {
			keys = append(keys, keyOf(budget))
		}
		return keys
	})
}

func (w *Workloads) reconcileBudget(ctx context.Context, key tarn.Key) (tarn.Result, error) {
	old, ok := w.budgets.Get(key)
	if !ok {
		return tarn.Result{}, nil
	}
	next := old.DeepCopy()
	status := &next.Status
	status.ObservedGeneration = old.Generation
	c := metav1.Condition{Type: policyv1.DisruptionAllowedCondition, ObservedGeneration: old.Generation}
	after, err := w.budgetStatus(old, status)
	switch {
	case err != nil: // until one of the objects changes
		status.DisruptionsAllowed = 0
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, policyv1.SyncFailedReason, err.Error()
	case status.DisruptionsAllowed > 0:
		c.Status, c.Reason = metav1.ConditionTrue, policyv1.SufficientPodsReason
	default:
		c.Status, c.Reason = metav1.ConditionFalse, policyv1.InsufficientPodsReason
	}
	meta.SetStatusCondition(&status.Conditions, c)
	return tarn.Result{RequeueAfter: after}, w.budgets.setStatus(ctx, old, next)
}

// budgetStatus sets the numbers of a budget's status, and returns when they change without an
// event: when an evicted pod that was not deleted counts again.
func (w *Workloads) budgetStatus(budget *policyv1.PodDisruptionBudget, status *policyv1.PodDisruptionBudgetStatus) (after time.Duration, err error) {
	selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
	if err != nil {
		return 0, err
	}
	var pods []*corev1.Pod
	for _, pod := range w.pods.in(budget.Namespace) {
		if selector.Matches(labels.Set(pod.Labels)) {
			pods = append(pods, pod)
		}
	}
	expected, desired := int32(len(pods)), int32(0)
	least, most := budget.Spec.MinAvailable, budget.Spec.MaxUnavailable
	if most != nil || least != nil && least.Type == intstr.String {
		if expected, err = w.replicasOf(pods); err != nil {
			return 0, err
		}
	}
	switch {
	case most != nil:
		desired = max(0, expected-scaled(most, expected, true))
	case least != nil:
		desired = scaled(least, expected, true)
	}
	evicted := map[string]metav1.Time{}
	healthy := int32(0)
	for _, pod := range pods {
		if pod.DeletionTimestamp != nil {
			continue
		}
		at, recorded := budget.Status.DisruptedPods[pod.Name]
		if left := time.Until(at.Add(evictionTimeout)); recorded && left > 0 {
			evicted[pod.Name], after = at, sooner(after, left)
		} else if ready(pod) {
			healthy++
		}
	}
	status.ExpectedPods, status.DesiredHealthy, status.CurrentHealthy, status.DisruptedPods = expected, desired, healthy, evicted
	status.DisruptionsAllowed = max(0, healthy-desired)
	if expected == 0 { // pods may be on their way
		status.DisruptionsAllowed = 0
	}
	return after, nil
}

// replicasOf returns how many pods the controllers of the pods should have together. Pods without
// a controller do not count.
func (w *Workloads) replicasOf(pods []*corev1.Pod) (sum int32, err error) {
	seen := map[types.UID]bool{}
	for _, pod := range pods {
		ref := metav1.GetControllerOfNoCopy(pod)
		if ref == nil {
			continue
		}
		uid, replicas, ok := w.scaleOf(tarn.Key{Namespace: pod.Namespace, Name: ref.Name}, ref)
		if !ok {
			return 0, fmt.Errorf("found no controllers for pod %q", pod.Name)
		}
		if !seen[uid] {
			seen[uid] = true
			sum += natural(replicas, 1)
		}
	}
	return sum, nil
}

// scaleOf returns the replicas of a pod's controller or, if that is the ReplicaSet of a
// Deployment, those of the Deployment.
func (w *Workloads) scaleOf(key tarn.Key, ref *metav1.OwnerReference) (uid types.UID, replicas *int32, ok bool) {
	if set, ok := w.statefulSets.Get(key); ok && set.UID == ref.UID {
		return set.UID, set.Spec.Replicas, true
	}
	rs, ok := w.replicaSets.Get(key)
	if !ok || rs.UID != ref.UID {
		return "", nil, false
	}
	if of := metav1.GetControllerOfNoCopy(rs); of != nil {
		if d, ok := w.deployments.Get(tarn.Key{Namespace: key.Namespace, Name: of.Name}); ok && d.UID == of.UID {
			return d.UID, d.Spec.Replicas, true
		}
	}
	return rs.UID, rs.Spec.Replicas, true
}
