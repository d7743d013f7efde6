package workloads

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/klog/v2"

	"github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/wire"
)

// scheduler assigns pods to nodes.
type scheduler struct {
	*Workloads
	// assumed are the nodes of pods whose assignment the mirror may not have yet.
	assumed map[tarn.Key]assumption
}

type assumption struct {
	node string
	pod  *corev1.Pod
}

func (w *Workloads) addScheduler() error {
	s := &scheduler{w, map[tarn.Key]assumption{}}
	return w.add("scheduler", s.reconcile, tarn.For(w.pods.Mirror), onFailures(w, w.pods),
		tarn.Watches(w.nodes.Mirror, func(*corev1.Node) []tarn.Key { return w.podsOn("") }),
		// A pod that ends makes room for others.
		tarn.Watches(w.pods.Mirror, func(pod *corev1.Pod) []tarn.Key {
			if active(pod) {
				return nil
			}
			return w.podsOn("")
		}))
}

func (s *scheduler) reconcile(ctx context.Context, key tarn.Key) (tarn.Result, error) {
	pod, ok := s.pods.Get(key)
	if !ok || pod.Spec.NodeName != "" {
		delete(s.assumed, key)
		return tarn.Result{}, nil
	}
	if a, bound := s.assumed[key]; bound && a.pod.UID == pod.UID || !active(pod) {
		return tarn.Result{}, nil
	}
	if name := pod.Spec.SchedulerName; name != "" && name != corev1.DefaultSchedulerName {
		return tarn.Result{}, nil
	}
	node, why := s.choose(pod)
	if node == "" {
		next := pod.DeepCopy()
		setCondition(next, corev1.PodScheduled, corev1.ConditionFalse, corev1.PodReasonUnschedulable, why)
		return tarn.Result{}, s.pods.setStatus(ctx, pod, next)
	}
	if err := s.bind(ctx, pod, node); err != nil {
		return tarn.Result{}, tarn.IgnoreNotFound(err)
	}
	s.assumed[key] = assumption{node, pod}
	return tarn.Result{}, nil
}

// choose returns the node with the fewest pods among those that suit a pod, or the reason why
// none does.
func (s *scheduler) choose(pod *corev1.Pod) (name, why string) {
	all := s.nodes.in("")
	if s.failures.of(Unschedulable, pod) != nil {
		return "", fmt.Sprintf("0/%d nodes are available: injected failure.", len(all))
	}
	slices.SortFunc(all, func(a, b *corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
	fewest := 0
	reasons := map[string]int{}
	for _, node := range all {
		there := indexed(s.pods, podsByNode, node.Name)
		for key, a := range s.assumed {
			if cached, ok := s.pods.Get(key); a.node == node.Name && ok && cached.UID == a.pod.UID && cached.Spec.NodeName == "" {
				there = append(there, a.pod)
			}
		}
		there = slices.DeleteFunc(there, finished)
		if reason := unsuitable(pod, node, there); reason != "" {
			reasons[reason]++
		} else if name == "" || len(there) < fewest {
			name, fewest = node.Name, len(there)
		}
	}
	why = fmt.Sprintf("0/%d nodes are available:", len(all))
	sep := " "
	for _, reason := range slices.Sorted(maps.Keys(reasons)) {
		why += fmt.Sprintf("%s%d %s", sep, reasons[reason], reason)
		sep = ", "
	}
	return name, why + "."
}

// unsuitable returns why a pod cannot run on a node with other pods, or "" if it can.
func unsuitable(pod *corev1.Pod, node *corev1.Node, there []*corev1.Pod) string {
	if node.Spec.Unschedulable && !tolerates(pod, corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}) {
		return "node(s) were unschedulable"
	}
	if !labels.SelectorFromSet(pod.Spec.NodeSelector).Matches(labels.Set(node.Labels)) {
		return "node(s) didn't match Pod's node affinity/selector"
	}
	for _, taint := range node.Spec.Taints {
		if taint.Effect != corev1.TaintEffectPreferNoSchedule && !tolerates(pod, taint) {
			return fmt.Sprintf("node(s) had untolerated taint(s) {%s: %s}", taint.Key, taint.Value)
		}
	}
	if allowed, ok := node.Status.Allocatable[corev1.ResourcePods]; ok && int64(len(there)) >= allowed.Value() {
		return "Too many pods"
	}
	wanted := requests(pod)
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		sum := wanted[name]
		for _, other := range there {
			sum.Add(requests(other)[name])
		}
		if allowed := node.Status.Allocatable[name]; sum.Cmp(allowed) > 0 {
			return "Insufficient " + string(name)
		}
	}
	return ""
}

func tolerates(pod *corev1.Pod, taint corev1.Taint) bool {
	return slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool { return t.ToleratesTaint(klog.Background(), &taint, true) })
}

// requests returns the sum of the requests of a pod's containers.
func requests(pod *corev1.Pod) map[corev1.ResourceName]resource.Quantity {
	sum := map[corev1.ResourceName]resource.Quantity{}
	for _, c := range pod.Spec.Containers {
		for name, q := range c.Resources.Requests {
			total := sum[name]
			total.Add(q)
			sum[name] = total
		}
	}
	return sum
}

// bind assigns a pod to a node, as the scheduler does.
func (s *scheduler) bind(ctx context.Context, pod *corev1.Pod, node string) error {
	body, err := json.Marshal(&corev1.Binding{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Binding"},
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node},
	})
	if err != nil {
		return err
	}
	_, err = s.cluster.Client().Request(wire.VerbCreate).Resource(s.pods.Resource()).Key(keyOf(pod)).Subresource("binding").
		Accept("application/json").Body("application/json", body).Do(ctx)
	return err
}
