package workloads

import (
	"context"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/tarnproject/tarn"
)

func (w *Workloads) addDaemonSets() error {
	return w.add("daemonsets", w.reconcileDaemonSet, tarn.For(w.daemonSets.Mirror), tarn.Owns(w.pods.Mirror),
		tarn.Watches(w.nodes.Mirror, func(*corev1.Node) (keys []tarn.Key) {
			for _, set := range w.daemonSets.in("") {
				keys = append(keys, keyOf(set))
			}
			return keys
		}))
}

func (w *Workloads) reconcileDaemonSet(ctx context.Context, key tarn.Key) (tarn.Result, error) {
	set, ok := w.daemonSets.live(key)
	if !ok {
		return tarn.Result{}, nil
	}
	byNode, used := map[string][]*corev1.Pod{}, map[string]bool{}
	for _, pod := range w.pods.of(set) {
		byNode[pod.Spec.NodeName] = append(byNode[pod.Spec.NodeName], pod)
		used[set.Name+"-"+revisionLabel(pod)] = true
	}
	_, hash, err := ensureRevision(ctx, w, w.daemonSets, set, &set.Spec.Template, set.Spec.RevisionHistoryLimit, used)
	if err != nil {
		return tarn.Result{}, err
	}
	next := set.DeepCopy()
	next.Status = appsv1.DaemonSetStatus{ObservedGeneration: set.Generation, Conditions: next.Status.Conditions, CollisionCount: next.Status.CollisionCount}
	status := &next.Status
	var after time.Duration
	var outdated []*corev1.Pod
	var missing []string
	for _, node := range w.nodes.in("") {
		pods := slices.DeleteFunc(slices.Clone(byNode[node.Name]), func(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil })
		if !runsOn(set, node) {
			status.NumberMisscheduled += int32(min(len(pods), 1))
			for _, pod := range pods {
				if err := w.pods.remove(ctx, pod); err != nil {
					return tarn.Result{}, err
				}
			}
			continue
		}
		status.DesiredNumberScheduled++
		if len(byNode[node.Name]) == 0 {
			missing = append(missing, node.Name)
		}
		for i, pod := range pods {
			if i > 0 || finished(pod) {
				if err := w.pods.remove(ctx, pod); err != nil {
					return tarn.Result{}, err
				}
				continue
			}
			status.CurrentNumberScheduled++
			after = sooner(after, tally(pod, set.Spec.MinReadySeconds, &status.NumberReady, &status.NumberAvailable))
			if revisionLabel(pod) == hash {
				status.UpdatedNumberScheduled++
			} else {
				outdated = append(outdated, pod)
			}
		}
	}
	status.NumberUnavailable = status.DesiredNumberScheduled - status.NumberAvailable
	for _, node := range missing {
		pod := podOf(&set.Spec.Template, set.Namespace, appsv1.ControllerRevisionHashLabelKey, hash)
		pod.GenerateName, pod.Spec.NodeName = set.Name+"-", node
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, daemonTolerations...)
		if err := createOwned(ctx, w, w.daemonSets, set, pod); err != nil {
			return tarn.Result{}, err
		}
	}
	if err := w.replaceOutdated(ctx, next, outdated); err != nil {
		return tarn.Result{}, err
	}
	return tarn.Result{RequeueAfter: after}, w.daemonSets.setStatus(ctx, set, next)
}

// replaceOutdated deletes outdated pods: those that are not available, and as many others as
// may be unavailable.
func (w *Workloads) replaceOutdated(ctx context.Context, set *appsv1.DaemonSet, outdated []*corev1.Pod) error {
	if set.Spec.UpdateStrategy.Type == appsv1.OnDeleteDaemonSetStrategyType {
		return nil
	}
	limit := intstr.FromInt32(1)
	if rolling := set.Spec.UpdateStrategy.RollingUpdate; rolling != nil {
		limit = value(rolling.MaxUnavailable, limit)
	}
	spare := max(1, scaled(&limit, set.Status.DesiredNumberScheduled, true)) - set.Status.NumberUnavailable
	for _, pod := range outdated {
		if ok, _ := available(pod, set.Spec.MinReadySeconds); ok {
			if spare <= 0 {
				continue
			}
			spare--
		}
		if err := w.pods.remove(ctx, pod); err != nil {
			return err
		}
	}
	return nil
}

// daemonTolerations are the tolerations that the pods of DaemonSets have in addition.
var daemonTolerations = []corev1.Toleration{
	{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
	{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
	{Key: corev1.TaintNodeDiskPressure, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
	{Key: corev1.TaintNodeMemoryPressure, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
	{Key: corev1.TaintNodePIDPressure, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
	{Key: corev1.TaintNodeUnschedulable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
}

// runsOn reports whether a DaemonSet has a pod on a node. A taint without NoExecute does not
// remove a pod, but the stand-in has no reason to keep both cases apart.
func runsOn(set *appsv1.DaemonSet, node *corev1.Node) bool {
	pod := &corev1.Pod{Spec: corev1.PodSpec{Tolerations: slices.Concat(set.Spec.Template.Spec.Tolerations, daemonTolerations)}}
	return labels.SelectorFromSet(set.Spec.Template.Spec.NodeSelector).Matches(labels.Set(node.Labels)) &&
		!slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool {
			return t.Effect != corev1.TaintEffectPreferNoSchedule && t.Key != corev1.TaintNodeUnreachable && !tolerates(pod, t)
		})
}
