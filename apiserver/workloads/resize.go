package workloads

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
)

// withSize returns a copy of annotations with the present replicas of the Deployment.
func (r *rollout) withSize(annotations map[string]string) map[string]string {
	surge, _ := r.limits()
	return with(annotations, desiredAnnotation, strconv.Itoa(int(r.size())), maxAnnotation, strconv.Itoa(int(r.size()+surge)))
}

// active returns the ReplicaSets that should have pods, oldest first.
func (r *rollout) active() []*appsv1.ReplicaSet {
	return slices.DeleteFunc(slices.Clone(r.all()), func(rs *appsv1.ReplicaSet) bool { return r.sizes[rs.Name] == 0 })
}

// resized reports whether the Deployment was scaled after its ReplicaSets were.
func (r *rollout) resized() bool {
	return slices.ContainsFunc(r.active(), func(rs *appsv1.ReplicaSet) bool {
		return rs.Annotations[desiredAnnotation] != "" && annotated(rs, desiredAnnotation) != int64(r.size())
	})
}

// resize scales a Deployment without advancing its rollout. With pods of several ReplicaSets,
// each keeps its share.
func (r *rollout) resize(ctx context.Context, recreate bool) error {
	active := r.active()
	switch all := r.all(); {
	case len(all) == 0:
		return nil
	case len(active) == 0:
		return r.scale(ctx, all[len(all)-1], r.size())
	case len(active) == 1:
		return r.scale(ctx, active[0], r.size())
	case r.current != nil && r.sizes[r.current.Name] == r.size() && r.current.Status.AvailableReplicas == r.size():
		for _, rs := range r.old {
			if err := r.scale(ctx, rs, 0); err != nil {
				return err
			}
		}
		return nil
	case recreate:
		return nil
	}
	surge, _ := r.limits()
	limit := r.size() + surge
	if r.size() == 0 {
		limit = 0
	}
	missing := limit - r.total() // negative for a surplus
	// The largest gets what rounding leaves; of several, the newest grows and the oldest shrinks.
	if missing > 0 {
		slices.Reverse(active)
	}
	slices.SortStableFunc(active, func(a, b *appsv1.ReplicaSet) int { return cmp.Compare(r.sizes[b.Name], r.sizes[a.Name]) })
	left, sizes := missing, make([]int32, len(active))
	for i, rs := range active {
		sizes[i] = r.sizes[rs.Name]
		change := r.shareOf(rs, limit) - sizes[i]
		switch {
		case left == 0:
			continue
		case missing > 0:
			change = min(change, left)
		default:
			change = max(change, left)
		}
		sizes[i] += change
		left -= change
	}
	sizes[0] = max(0, sizes[0]+left)
	for i, rs := range active {
		if err := r.scale(ctx, rs, sizes[i]); err != nil {
			return err
		}
	}
	return nil
}

// shareOf returns the replicas of a ReplicaSet when all of them together have a number of pods.
func (r *rollout) shareOf(rs *appsv1.ReplicaSet, limit int32) int32 {
	before := cmp.Or(annotated(rs, maxAnnotation), int64(r.Status.Replicas))
	if before == 0 {
		return r.sizes[rs.Name]
	}
	return int32(math.Round(float64(r.sizes[rs.Name]) * float64(limit) / float64(before)))
}
