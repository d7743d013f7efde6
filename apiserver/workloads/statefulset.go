package workloads

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tarnproject/tarn"
)

func (w *Workloads) addStatefulSets() error {
	return w.add("statefulsets", w.reconcileStatefulSet, tarn.For(w.statefulSets.Mirror), tarn.Owns(w.pods.Mirror))
}

// replicas is one reconcile of a StatefulSet.
type replicas struct {
	*Workloads
	*appsv1.StatefulSet
	pods      map[int32]*corev1.Pod // by ordinal
	start     int32                 // the first ordinal
	end       int32                 // after the last
	partition int32                 // the first ordinal that is updated
	update    string                // the revision of the template
	current   string                // the revision below the partition
	ordered   bool
}

func (w *Workloads) reconcileStatefulSet(ctx context.Context, key tarn.Key) (tarn.Result, error) {
	set, ok := w.statefulSets.live(key)
	if !ok {
		return tarn.Result{}, nil
	}
	r := &replicas{Workloads: w, StatefulSet: set, pods: map[int32]*corev1.Pod{}, ordered: set.Spec.PodManagementPolicy != appsv1.ParallelPodManagement}
	if set.Spec.Ordinals != nil {
		r.start = set.Spec.Ordinals.Start
	}
	r.end, r.partition = r.start+natural(set.Spec.Replicas, 1), r.start
	if rolling := set.Spec.UpdateStrategy.RollingUpdate; rolling != nil {
		r.partition += value(rolling.Partition, 0)
	}
	used := map[string]bool{set.Status.CurrentRevision: true}
	for _, pod := range w.pods.of(set) {
		if n, ok := ordinal(set, pod); ok {
			r.pods[n] = pod
			used[revisionLabel(pod)] = true
		}
	}
	var err error
	if r.update, _, err = ensureRevision(ctx, w, w.statefulSets, set, &set.Spec.Template, set.Spec.RevisionHistoryLimit, used); err != nil {
		return tarn.Result{}, err
	}
	if r.current = set.Status.CurrentRevision; r.current == "" {
		r.current = r.update
	}
	next := set.DeepCopy()
	after := r.setStatus(next)
	if err := r.advance(ctx); err != nil {
		return tarn.Result{}, err
	}
	return tarn.Result{RequeueAfter: after}, w.statefulSets.setStatus(ctx, set, next)
}

func ordinal(set *appsv1.StatefulSet, pod *corev1.Pod) (int32, bool) {
	if len(pod.Name) <= len(set.Name)+1 {
		return 0, false
	}
	n, err := strconv.ParseInt(pod.Name[len(set.Name)+1:], 10, 32)
	return int32(n), err == nil && pod.Name == fmt.Sprintf("%s-%d", set.Name, n)
}

func revisionLabel(pod *corev1.Pod) string { return pod.Labels[appsv1.ControllerRevisionHashLabelKey] }

// advance makes the changes that the state allows. With ordered management that is one at a
// time.
func (r *replicas) advance(ctx context.Context) error {
	for n := r.start; n < r.end; n++ {
		pod := r.pods[n]
		switch {
		case pod == nil:
			if err := r.create(ctx, n); err != nil {
				return err
			}
		case finished(pod):
			if err := r.Workloads.pods.remove(ctx, pod); err != nil {
				return err
			}
		case r.healthy(pod):
			continue
		}
		if r.ordered {
			return nil
		}
	}
	for _, n := range slices.Backward(slices.Sorted(maps.Keys(r.pods))) {
		if n >= r.start && n < r.end {
			continue
		}
		if err := r.Workloads.pods.remove(ctx, r.pods[n]); err != nil || r.ordered {
			return err
		}
	}
	if r.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType {
		return nil
	}
	for n := r.end - 1; n >= r.partition && n >= r.start; n-- {
		pod := r.pods[n]
		switch {
		case pod == nil:
			return nil
		case revisionLabel(pod) != r.update:
			return r.Workloads.pods.remove(ctx, pod)
		case !r.healthy(pod):
			return nil
		}
	}
	return nil
}

// healthy reports whether a pod is available and stays.
func (r *replicas) healthy(pod *corev1.Pod) bool {
	ok, _ := available(pod, r.Spec.MinReadySeconds)
	return ok && active(pod)
}

// create creates the pod with an ordinal, and before it its volume claims.
func (r *replicas) create(ctx context.Context, n int32) error {
	revision, template := r.update, &r.Spec.Template
	if n < r.partition && r.current != r.update {
		revision, template = r.current, r.templateOf(r.Namespace, r.current, template)
	}
	name := fmt.Sprintf("%s-%d", r.Name, n)
	pod := podOf(template, r.Namespace, appsv1.StatefulSetPodNameLabel, name, appsv1.PodIndexLabel, strconv.Itoa(int(n)), appsv1.ControllerRevisionHashLabelKey, revision)
	pod.Name, pod.Spec.Hostname, pod.Spec.Subdomain = name, name, r.Spec.ServiceName
	for _, t := range r.Spec.VolumeClaimTemplates {
		claim := t.DeepCopy()
		claim.Namespace, claim.Name = r.Namespace, t.Name+"-"+name
		if r.Spec.Selector != nil {
			claim.Labels = with(claim.Labels)
			for k, v := range r.Spec.Selector.MatchLabels {
				claim.Labels[k] = v
			}
		}
		if _, ok := r.claims.Get(keyOf(claim)); !ok {
			if _, err := r.claims.client.Create(ctx, claim); err != nil && !apierrors.IsAlreadyExists(err) {
				return err
			}
		}
		pod.Spec.Volumes = slices.DeleteFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == t.Name })
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: t.Name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name}}})
	}
	return createOwned(ctx, r.Workloads, r.statefulSets, r.StatefulSet, pod)
}

// setStatus sets the status of next, and returns when a pod becomes available.
func (r *replicas) setStatus(next *appsv1.StatefulSet) (after time.Duration) {
	next.Status = appsv1.StatefulSetStatus{
		ObservedGeneration: r.Generation, CurrentRevision: r.current, UpdateRevision: r.update, Conditions: next.Status.Conditions, CollisionCount: next.Status.CollisionCount,
	}
	status := &next.Status
	for _, pod := range r.pods {
		status.Replicas++
		after = sooner(after, tally(pod, r.Spec.MinReadySeconds, &status.ReadyReplicas, &status.AvailableReplicas))
		if !active(pod) {
			continue
		}
		switch revisionLabel(pod) {
		case r.update:
			status.UpdatedReplicas++
		case r.current:
			status.CurrentReplicas++
		}
	}
	if n := r.end - r.start; status.UpdatedReplicas == n && status.Replicas == n && status.ReadyReplicas == n {
		status.CurrentRevision = r.update
	}
	if status.CurrentRevision == r.update {
		status.CurrentReplicas = status.UpdatedReplicas
	}
	return after
}

func (w *Workloads) addClaims() error {
	return w.add("volume claims", w.reconcileClaim, tarn.For(w.claims.Mirror))
}

// reconcileClaim binds a claim, without a volume.
func (w *Workloads) reconcileClaim(ctx context.Context, key tarn.Key) (tarn.Result, error) {
	claim, ok := w.claims.live(key)
	if !ok || claim.Status.Phase == corev1.ClaimBound {
		return tarn.Result{}, nil
	}
	next := claim.DeepCopy()
	next.Status.Phase, next.Status.AccessModes, next.Status.Capacity = corev1.ClaimBound, claim.Spec.AccessModes, claim.Spec.Resources.Requests
	return tarn.Result{}, w.claims.setStatus(ctx, claim, next)
}
