package workloads

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/wire"
)

const revisionAnnotation = "deployment.kubernetes.io/revision"

func (w *Workloads) addDeployments() error {
	return w.add("deployments", w.reconcileDeployment, tarn.For(w.deployments.Mirror), tarn.Owns(w.replicaSets.Mirror),
		// Recreate waits until the last old pod has been deleted.
		tarn.Watches(w.pods.Mirror, func(pod *corev1.Pod) []tarn.Key {
			ref := value(metav1.GetControllerOfNoCopy(pod), metav1.OwnerReference{})
			rs, ok := w.replicaSets.Get(tarn.Key{Namespace: pod.Namespace, Name: ref.Name})
			if !ok || rs.UID != ref.UID {
				return nil
			}
			// Of another kind of owner, the name does no harm.
			return []tarn.Key{{Namespace: pod.Namespace, Name: value(metav1.GetControllerOfNoCopy(rs), metav1.OwnerReference{}).Name}}
		}))
}

// rollout is one reconcile of a Deployment.
type rollout struct {
	*Workloads
	*appsv1.Deployment
	current *appsv1.ReplicaSet   // of the template; nil if it does not exist
	old     []*appsv1.ReplicaSet // all others, oldest first
	// sizes are the replicas of the ReplicaSets, including changes of this reconcile.
	sizes map[string]int32
}

func (w *Workloads) reconcileDeployment(ctx context.Context, key tarn.Key) (tarn.Result, error) {
	d, ok := w.deployments.live(key)
	if !ok || d.Spec.Selector == nil {
		return tarn.Result{}, nil
	}
	r := &rollout{Workloads: w, Deployment: d, sizes: map[string]int32{}}
	for _, rs := range w.replicaSets.of(d) {
		r.sizes[rs.Name] = natural(rs.Spec.Replicas, 1)
		if r.current == nil && sameTemplate(&rs.Spec.Template, &d.Spec.Template) {
			r.current = rs
		} else {
			r.old = append(r.old, rs)
		}
	}
	next := d.DeepCopy()
	if err := r.advance(ctx, next); err != nil {
		return tarn.Result{}, err
	}
	after := r.setStatus(next)
	if err := r.cleanUp(ctx, next); err != nil {
		return tarn.Result{}, err
	}
	return tarn.Result{RequeueAfter: after}, w.deployments.setStatus(ctx, d, next)
}

// advance makes the changes that the state allows. It sets the collision count and the revision
// of next.
func (r *rollout) advance(ctx context.Context, next *appsv1.Deployment) error {
	recreate := r.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType
	if r.Spec.Paused {
		return r.hold(ctx)
	}
	if recreate {
		if stopped, err := r.stopOld(ctx); err != nil || !stopped {
			return err
		}
	}
	if err := r.ensureCurrent(ctx, next, recreate); err != nil || r.current == nil {
		return err
	}
	if recreate {
		return r.scale(ctx, r.current, r.size())
	}
	surge, unavailable := r.limits()
	if grown, err := r.grow(ctx, surge); err != nil || grown {
		return err
	}
	return r.shrink(ctx, unavailable)
}

// hold keeps a paused rollout where it is. If the Deployment is scaled, its newest ReplicaSets are.
func (r *rollout) hold(ctx context.Context) error {
	all := r.all()
	active := slices.DeleteFunc(slices.Clone(all), func(rs *appsv1.ReplicaSet) bool { return r.sizes[rs.Name] == 0 })
	surge, _ := r.limits()
	if len(active) < 2 { // no rollout
		surge = 0
	}
	missing := max(r.size()-r.total(), min(0, r.size()+surge-r.total())) // negative for a surplus
	if len(active) == 0 {
		active = all[max(0, len(all)-1):]
	}
	for _, rs := range slices.Backward(active) {
		size := max(0, r.sizes[rs.Name]+missing)
		missing -= size - r.sizes[rs.Name]
		if err := r.scale(ctx, rs, size); err != nil {
			return err
		}
	}
	return nil
}

func (r *rollout) size() int32 { return natural(r.Spec.Replicas, 1) }

// total returns the sum of the replicas of all ReplicaSets.
func (r *rollout) total() (n int32) {
	for size := range maps.Values(r.sizes) {
		n += size
	}
	return n
}

func (r *rollout) all() []*appsv1.ReplicaSet {
	if r.current == nil {
		return r.old
	}
	return append(slices.Clone(r.old), r.current)
}

// limits returns maxSurge and maxUnavailable as numbers of pods.
func (r *rollout) limits() (surge, unavailable int32) {
	quarter := intstr.FromString("25%")
	limit := appsv1.RollingUpdateDeployment{MaxSurge: &quarter, MaxUnavailable: &quarter}
	if given := r.Spec.Strategy.RollingUpdate; given != nil {
		limit.MaxSurge, limit.MaxUnavailable = cmp.Or(given.MaxSurge, &quarter), cmp.Or(given.MaxUnavailable, &quarter)
	}
	if r.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
		return 0, 0
	}
	surge, unavailable = scaled(limit.MaxSurge, r.size(), true), scaled(limit.MaxUnavailable, r.size(), false)
	if surge == 0 && unavailable == 0 {
		unavailable = 1
	}
	return surge, min(unavailable, r.size())
}

// scaled returns a number or percentage of a total; an invalid one is 0.
func scaled(v *intstr.IntOrString, total int32, up bool) int32 {
	n, _ := intstr.GetScaledValueFromIntOrPercent(v, int(total), up)
	return int32(n)
}

// scale sets the replicas of a ReplicaSet.
func (r *rollout) scale(ctx context.Context, rs *appsv1.ReplicaSet, size int32) error {
	if r.sizes[rs.Name] == size {
		return nil
	}
	_, err := r.replicaSets.client.Patch(ctx, keyOf(rs), wire.MergePatchOf(map[string]any{"spec": map[string]any{"replicas": size}}))
	if err == nil {
		r.sizes[rs.Name] = size
	}
	return err
}

// stopOld stops the pods of the old ReplicaSets. It returns true when none is left.
func (r *rollout) stopOld(ctx context.Context) (stopped bool, err error) {
	stopped = true
	for _, rs := range r.old {
		if err := r.scale(ctx, rs, 0); err != nil {
			return false, err
		}
		stopped = stopped && !slices.ContainsFunc(r.pods.of(rs), func(pod *corev1.Pod) bool { return !finished(pod) })
	}
	return stopped, nil
}

// ensureCurrent creates the ReplicaSet of the template, and gives it the highest revision.
func (r *rollout) ensureCurrent(ctx context.Context, next *appsv1.Deployment, recreate bool) error {
	var last int64
	for _, rs := range r.old {
		last = max(last, revisionOf(rs))
	}
	if r.current == nil {
		rs := r.newReplicaSet(strconv.FormatInt(last+1, 10))
		size := r.size()
		if !recreate {
			surge, _ := r.limits()
			size = max(0, min(size, size+surge-r.total()))
		}
		rs.Spec.Replicas = &size
		if err := r.deployments.client.SetOwner(rs, r.Deployment); err != nil {
			return err
		}
		created, err := r.replicaSets.client.Create(ctx, rs)
		if other, ok := r.replicaSets.Get(keyOf(rs)); ok && apierrors.IsAlreadyExists(err) && !metav1.IsControlledBy(other, r.Deployment) {
			n := value(r.Status.CollisionCount, 0) + 1
			next.Status.CollisionCount = &n // another name with the next reconcile
			return nil
		}
		if err != nil {
			return err
		}
		r.current, r.sizes[created.Name] = created, size
	} else if revisionOf(r.current) <= last {
		patch := map[string]any{"metadata": map[string]any{"annotations": map[string]any{revisionAnnotation: strconv.FormatInt(last+1, 10)}}}
		patched, err := r.replicaSets.client.Patch(ctx, keyOf(r.current), wire.MergePatchOf(patch))
		if err != nil {
			return err
		}
		r.current = patched
	}
	revision := r.current.Annotations[revisionAnnotation]
	if r.Annotations[revisionAnnotation] == revision {
		return nil
	}
	patched, err := r.deployments.client.Patch(ctx, keyOf(next), wire.MergePatchOf(map[string]any{"metadata": map[string]any{"annotations": map[string]any{revisionAnnotation: revision}}}))
	if err != nil {
		return err
	}
	// The status is written with this version, if the spec is still the one that was reconciled.
	if patched.Generation == next.Generation {
		next.ObjectMeta = patched.ObjectMeta
	}
	return nil
}

func (r *rollout) newReplicaSet(revision string) *appsv1.ReplicaSet {
	hash := hashOf(r.Spec.Template, r.Status.CollisionCount)
	template := r.Spec.Template.DeepCopy()
	template.Labels = with(template.Labels, appsv1.DefaultDeploymentUniqueLabelKey, hash)
	selector := r.Spec.Selector.DeepCopy()
	selector.MatchLabels = with(selector.MatchLabels, appsv1.DefaultDeploymentUniqueLabelKey, hash)
	annotations := with(r.Annotations, revisionAnnotation, revision)
	delete(annotations, corev1.LastAppliedConfigAnnotation)
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: r.Name + "-" + hash, Labels: template.Labels, Annotations: annotations},
		Spec:       appsv1.ReplicaSetSpec{MinReadySeconds: r.Spec.MinReadySeconds, Selector: selector, Template: *template},
	}
}

// sameTemplate compares the template of a ReplicaSet with that of a Deployment.
func sameTemplate(of, want *corev1.PodTemplateSpec) bool {
	of = of.DeepCopy()
	delete(of.Labels, appsv1.DefaultDeploymentUniqueLabelKey)
	return equality.Semantic.DeepEqual(of, want)
}

// revisionOf returns the revision of a ReplicaSet, or 0.
func revisionOf(rs *appsv1.ReplicaSet) int64 {
	n, _ := strconv.ParseInt(rs.Annotations[revisionAnnotation], 10, 64)
	return n
}

// grow scales the current ReplicaSet, up to the replicas and the surge.
func (r *rollout) grow(ctx context.Context, surge int32) (grown bool, err error) {
	size := r.sizes[r.current.Name]
	want := min(r.size(), size+max(0, r.size()+surge-r.total()))
	return want != size, r.scale(ctx, r.current, want)
}

// shrink scales the old ReplicaSets down as far as enough pods are available: first those that
// are not available themselves, then the oldest.
func (r *rollout) shrink(ctx context.Context, unavailable int32) error {
	least := r.size() - unavailable
	starting := r.sizes[r.current.Name] - r.current.Status.AvailableReplicas
	spare := r.total() - least - max(0, starting)
	ready := r.current.Status.AvailableReplicas
	for _, rs := range r.old {
		ready += rs.Status.AvailableReplicas
		n := max(0, min(r.sizes[rs.Name]-rs.Status.AvailableReplicas, spare))
		spare -= n
		if err := r.scale(ctx, rs, r.sizes[rs.Name]-n); err != nil {
			return err
		}
	}
	spare = min(spare, ready-least)
	for _, rs := range r.old {
		n := max(0, min(r.sizes[rs.Name], spare))
		spare -= n
		if err := r.scale(ctx, rs, r.sizes[rs.Name]-n); err != nil {
			return err
		}
	}
	return nil
}

// cleanUp deletes the oldest ReplicaSets without pods when the rollout is complete.
func (r *rollout) cleanUp(ctx context.Context, next *appsv1.Deployment) error {
	if !complete(next) {
		return nil
	}
	empty := slices.DeleteFunc(slices.Clone(r.old), func(rs *appsv1.ReplicaSet) bool {
		return r.sizes[rs.Name] > 0 || rs.Status.Replicas > 0 || rs.Status.ObservedGeneration < rs.Generation || rs.DeletionTimestamp != nil
	})
	slices.SortStableFunc(empty, func(a, b *appsv1.ReplicaSet) int { return cmp.Compare(revisionOf(a), revisionOf(b)) })
	for i := range len(empty) - int(natural(r.Spec.RevisionHistoryLimit, 10)) {
		if err := r.replicaSets.remove(ctx, empty[i]); err != nil {
			return err
		}
	}
	return nil
}

// setStatus sets the status of next, and returns when the progress deadline is.
func (r *rollout) setStatus(next *appsv1.Deployment) time.Duration {
	old := r.Status
	status := &next.Status
	status.ObservedGeneration = r.Generation
	status.Replicas, status.ReadyReplicas, status.AvailableReplicas, status.UpdatedReplicas = 0, 0, 0, 0
	for _, rs := range r.all() {
		status.Replicas += rs.Status.Replicas
		status.ReadyReplicas += rs.Status.ReadyReplicas
		status.AvailableReplicas += rs.Status.AvailableReplicas
	}
	if r.current != nil {
		status.UpdatedReplicas = r.current.Status.Replicas
	}
	status.UnavailableReplicas = max(0, r.total()-status.AvailableReplicas)
	_, unavailable := r.limits()
	if status.AvailableReplicas >= r.size()-unavailable {
		setProgress(next, appsv1.DeploymentAvailable, corev1.ConditionTrue, "MinimumReplicasAvailable", "Deployment has minimum availability.", false)
	} else {
		setProgress(next, appsv1.DeploymentAvailable, corev1.ConditionFalse, "MinimumReplicasUnavailable", "Deployment does not have minimum availability.", false)
	}
	if r.Spec.ProgressDeadlineSeconds != nil && *r.Spec.ProgressDeadlineSeconds == 1<<31-1 {
		return 0 // no deadline
	}
	was := progressOf(next)
	deadline := time.Duration(value(r.Spec.ProgressDeadlineSeconds, 600)) * time.Second
	progress := status.UpdatedReplicas > old.UpdatedReplicas || status.Replicas-status.UpdatedReplicas < old.Replicas-old.UpdatedReplicas ||
		status.ReadyReplicas > old.ReadyReplicas || status.AvailableReplicas > old.AvailableReplicas
	set := func(value corev1.ConditionStatus, reason, message string) {
		setProgress(next, appsv1.DeploymentProgressing, value, reason, message, true)
	}
	switch {
	case r.Spec.Paused:
		if was.Reason != "DeploymentPaused" {
			set(corev1.ConditionUnknown, "DeploymentPaused", "Deployment is paused")
		}
		return 0
	case was.Reason == "DeploymentPaused":
		set(corev1.ConditionUnknown, "DeploymentResumed", "Deployment is resumed")
	case r.current != nil && complete(next):
		if was.Reason != "NewReplicaSetAvailable" {
			set(corev1.ConditionTrue, "NewReplicaSetAvailable", "ReplicaSet \""+r.current.Name+"\" has successfully progressed.")
		}
		return 0
	case was.Reason == "NewReplicaSetAvailable" && status.Replicas == status.UpdatedReplicas && r.Generation == old.ObservedGeneration:
		return 0 // pods that fail later have no deadline
	case was.Reason == "" || was.Reason == "NewReplicaSetAvailable" || progress || r.Generation != old.ObservedGeneration:
		set(corev1.ConditionTrue, "ReplicaSetUpdated", "Deployment \""+r.Name+"\" is progressing.")
	case was.Reason == "ProgressDeadlineExceeded":
		return 0
	case time.Since(was.LastUpdateTime.Time) >= deadline:
		set(corev1.ConditionFalse, "ProgressDeadlineExceeded", "Deployment \""+r.Name+"\" has timed out progressing.")
		return 0
	}
	return max(time.Until(progressOf(next).LastUpdateTime.Add(deadline)), time.Millisecond)
}

// complete reports whether all pods of a Deployment are of its template and available.
func complete(d *appsv1.Deployment) bool {
	n := natural(d.Spec.Replicas, 1)
	return d.Status.UpdatedReplicas == n && d.Status.Replicas == n && d.Status.AvailableReplicas == n
}

func progressOf(d *appsv1.Deployment) (c appsv1.DeploymentCondition) {
	for _, c := range d.Status.Conditions {
		if c.Type == appsv1.DeploymentProgressing {
			return c
		}
	}
	return c
}

// setProgress sets a condition. Its update time is that of a change, or with always the present.
func setProgress(d *appsv1.Deployment, kind appsv1.DeploymentConditionType, status corev1.ConditionStatus, reason, message string, always bool) {
	now := metav1.Time{Time: time.Now().Truncate(time.Second)}
	c := appsv1.DeploymentCondition{Type: kind, Status: status, Reason: reason, Message: message, LastUpdateTime: now, LastTransitionTime: now}
	i := slices.IndexFunc(d.Status.Conditions, func(c appsv1.DeploymentCondition) bool { return c.Type == kind })
	if i < 0 {
		d.Status.Conditions = append(d.Status.Conditions, c)
		return
	}
	old := d.Status.Conditions[i]
	if old.Status == status {
		c.LastTransitionTime = old.LastTransitionTime
		if old.Reason == reason && !always {
			c.LastUpdateTime = old.LastUpdateTime
		}
	}
	d.Status.Conditions[i] = c
}
