package workloads

import (
	"cmp"
	"context"
	"encoding/json"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/store"
)

var (
	podsByNode = store.NewIndex("node", func(pod *corev1.Pod) string { return pod.Spec.NodeName })
	podsByIP   = store.NewIndex("ip", func(pod *corev1.Pod) string { return pod.Status.PodIP })
)

// podOf returns a pod of a template. Additional labels are in pairs of name and value.
func podOf(template *corev1.PodTemplateSpec, namespace string, labels ...string) *corev1.Pod {
	t := template.DeepCopy()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Annotations: t.Annotations, Finalizers: t.Finalizers}, Spec: t.Spec}
	pod.Labels = with(t.Labels, labels...)
	return pod
}

// with returns a copy of a map with additional pairs of keys and values.
func with(m map[string]string, pairs ...string) map[string]string {
	m = maps.Clone(m)
	if m == nil {
		m = map[string]string{}
	}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return m
}

// hashOf returns a short text that identifies a value, safe in names and labels.
func hashOf(value any, collisions *int32) string {
	text, _ := json.Marshal(value) // API types always encode
	h := fnv.New32a()
	h.Write(text)
	if collisions != nil {
		h.Write(strconv.AppendInt(nil, int64(*collisions), 10))
	}
	return rand.SafeEncodeString(strconv.FormatUint(uint64(h.Sum32()), 10))
}

// finished reports whether a pod will never run again.
func finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// active reports whether a pod runs or will run.
func active(pod *corev1.Pod) bool { return !finished(pod) && pod.DeletionTimestamp == nil }

// condition returns a condition of a pod, or an empty one.
func condition(pod *corev1.Pod, kind corev1.PodConditionType) (c corev1.PodCondition) {
	for _, c := range pod.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return c
}

// setCondition sets a condition of a pod.
func setCondition(pod *corev1.Pod, kind corev1.PodConditionType, status corev1.ConditionStatus, reason, message string) {
	c := corev1.PodCondition{Type: kind, Status: status, Reason: reason, Message: message, LastTransitionTime: metav1.Now()}
	i := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == kind })
	if i < 0 {
		pod.Status.Conditions = append(pod.Status.Conditions, c)
		return
	}
	if old := pod.Status.Conditions[i]; old.Status == status {
		c.LastTransitionTime = old.LastTransitionTime
	}
	pod.Status.Conditions[i] = c
}

func ready(pod *corev1.Pod) bool {
	return condition(pod, corev1.PodReady).Status == corev1.ConditionTrue
}

// available reports whether a pod has been ready for a number of seconds, and otherwise how
// long it takes until it has; 0 if it is not ready.
func available(pod *corev1.Pod, seconds int32) (ok bool, after time.Duration) {
	c := condition(pod, corev1.PodReady)
	if c.Status != corev1.ConditionTrue {
		return false, 0
	}
	if seconds == 0 {
		return true, 0
	}
	after = time.Until(c.LastTransitionTime.Add(time.Duration(seconds) * time.Second))
	return after <= 0, max(after, 0)
}

// tally counts a pod in the numbers of ready and available pods, and returns how long it takes until it is available.
func tally(pod *corev1.Pod, seconds int32, readyPods, availablePods *int32) (after time.Duration) {
	if ready(pod) {
		*readyPods++
	}
	ok, after := available(pod, seconds)
	if ok {
		*availablePods++
	}
	return after
}

// createOwned creates a pod that owner controls.
func createOwned[T tarn.Object](ctx context.Context, w *Workloads, owners objects[T], owner T, pod *corev1.Pod) error {
	if err := owners.client.SetOwner(pod, owner); err != nil {
		return err
	}
	_, err := w.pods.client.Create(ctx, pod)
	return err
}

// restarts returns the number of restarts of a pod's containers.
func restarts(pod *corev1.Pod) (n int32) {
	for _, c := range pod.Status.ContainerStatuses {
		n += c.RestartCount
	}
	return n
}

// firstToDelete orders pods by how little is lost with them.
func firstToDelete(a, b *corev1.Pod) int {
	rank := func(pod *corev1.Pod) []int {
		bit := func(ok bool) int {
			if ok {
				return 1
			}
			return 0
		}
		cost, _ := strconv.Atoi(pod.Annotations[corev1.PodDeletionCost])
		return []int{bit(pod.Spec.NodeName != ""), bit(pod.Status.Phase == corev1.PodRunning), bit(ready(pod)), cost}
	}
	return cmp.Or(
		slices.Compare(rank(a), rank(b)),
		condition(b, corev1.PodReady).LastTransitionTime.Compare(condition(a, corev1.PodReady).LastTransitionTime.Time),
		cmp.Compare(restarts(b), restarts(a)),
		b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(b.Name, a.Name))
}

// timers remembers since when a key is in a state. Only one reconcile function uses it.
type timers map[tarn.Key]timer

type timer struct {
	state string
	due   time.Time
}

// left returns how long the state of a key still lasts, of d in total.
func (ts timers) left(key tarn.Key, state string, d time.Duration) time.Duration {
	if ts[key].state != state {
		ts[key] = timer{state, time.Now().Add(d)}
	}
	return time.Until(ts[key].due)
}
