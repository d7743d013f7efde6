package workloads

import (
	"context"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/tarnproject/tarn"
)

func (w *Workloads) addReplicaSets() error {
	return w.add("replicasets", w.reconcileReplicaSet, tarn.For(w.replicaSets.Mirror), tarn.Owns(w.pods.Mirror))
}

func (w *Workloads) reconcileReplicaSet(ctx context.Context, key tarn.Key) (tarn.Result, error) {
	rs, ok := w.replicaSets.live(key)
	if !ok {
		return tarn.Result{}, nil
	}
	pods := slices.DeleteFunc(w.pods.of(rs), func(pod *corev1.Pod) bool { return !active(pod) })
	next := rs.DeepCopy()
	next.Status = appsv1.ReplicaSetStatus{ObservedGeneration: rs.Generation, Conditions: next.Status.Conditions, Replicas: int32(len(pods))}
	var after time.Duration
	for _, pod := range pods {
		next.Status.FullyLabeledReplicas++
		after = sooner(after, tally(pod, rs.Spec.MinReadySeconds, &next.Status.ReadyReplicas, &next.Status.AvailableReplicas))
	}
	missing := int(natural(rs.Spec.Replicas, 1)) - len(pods)
	for range missing {
		pod := podOf(&rs.Spec.Template, rs.Namespace)
		pod.GenerateName = rs.Name + "-"
		if err := createOwned(ctx, w, w.replicaSets, rs, pod); err != nil {
			return tarn.Result{}, err
		}
	}
	slices.SortStableFunc(pods, firstToDelete)
	for i := range -missing {
		if err := w.pods.remove(ctx, pods[i]); err != nil {
			return tarn.Result{}, err
		}
	}
	return tarn.Result{RequeueAfter: after}, w.replicaSets.setStatus(ctx, rs, next)
}
