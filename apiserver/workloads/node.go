package workloads

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/controller"
)

// nodes creates the nodes and maintains their Ready condition and the taints of lost ones.
type nodes struct {
	*Workloads
	missing map[tarn.Key]bool // to create
}

func (w *Workloads) addNodes() error {
	n := &nodes{w, map[tarn.Key]bool{}}
	var keys []tarn.Key
	for i := range w.opts.Nodes {
		keys = append(keys, tarn.Key{Name: fmt.Sprintf("node-%d", i+1)})
		n.missing[keys[i]] = true
	}
	return w.add("nodes", n.reconcile, tarn.For(w.nodes.Mirror), onFailures(w, w.nodes),
		tarn.From(controller.Source[tarn.Key]{Name: "new nodes", Run: func(ctx context.Context, in *controller.Intake[tarn.Key]) error {
			in.Add(keys...)
			<-ctx.Done()
			return nil
		}}))
}

func (n *nodes) reconcile(ctx context.Context, key tarn.Key) (tarn.Result, error) {
	node, ok := n.nodes.Get(key)
	if !ok && n.missing[key] {
		if _, err := n.nodes.client.Create(ctx, newNode(key.Name)); err != nil && !apierrors.IsAlreadyExists(err) {
			return tarn.Result{}, err
		}
	}
	delete(n.missing, key) // one that is deleted later is not created again
	if !ok {
		return tarn.Result{}, nil
	}
	lost := n.failures.lost(key.Name)
	next := node.DeepCopy()
	setTaints(next, lost)
	if len(next.Spec.Taints) != len(node.Spec.Taints) {
		updated, err := n.nodes.client.Update(ctx, next)
		if err != nil {
			return tarn.Result{}, tarn.IgnoreNotFound(err)
		}
		node, next = updated, updated.DeepCopy()
	}
	setNodeStatus(next, lost)
	return tarn.Result{}, n.nodes.setStatus(ctx, node, next)
}

func newNode(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		corev1.LabelHostname: name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64",
	}}}
}

// unreachable are the taints of a lost node.
var unreachable = []corev1.Taint{
	{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoSchedule},
	{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute},
}

func setTaints(node *corev1.Node, lost bool) {
	has := func(taint corev1.Taint) bool {
		return slices.ContainsFunc(node.Spec.Taints, func(other corev1.Taint) bool { return other.MatchTaint(&taint) })
	}
	switch {
	case !lost:
		node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeUnreachable })
	case !has(unreachable[1]):
		now := metav1.Now()
		for _, taint := range unreachable {
			taint.TimeAdded = &now
			node.Spec.Taints = append(node.Spec.Taints, taint)
		}
	}
}

// setNodeStatus sets the Ready condition, and what a node without a status lacks.
func setNodeStatus(node *corev1.Node, lost bool) {
	if node.Status.Allocatable == nil {
		capacity := corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("256Gi"), corev1.ResourcePods: resource.MustParse("1000"),
		}
		node.Status.Capacity, node.Status.Allocatable = capacity, capacity
	}
	if node.Status.Addresses == nil {
		var number int
		_, _ = fmt.Sscanf(node.Name, "node-%d", &number) // 0 for other names
		node.Status.Addresses = []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("192.168.%d.%d", number/250, 1+number%250)}, {Type: corev1.NodeHostName, Address: node.Name},
		}
	}
	c := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", Message: "kubelet is posting ready status"}
	if lost {
		c.Status, c.Reason, c.Message = corev1.ConditionUnknown, "NodeStatusUnknown", "Kubelet stopped posting node status."
	}
	i := slices.IndexFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == corev1.NodeReady })
	if i < 0 {
		i = len(node.Status.Conditions)
		node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{})
	}
	if node.Status.Conditions[i].Status != c.Status {
		c.LastTransitionTime, c.LastHeartbeatTime = metav1.Now(), metav1.Now()
		node.Status.Conditions[i] = c
	}
}

// evictions deletes pods from nodes with NoExecute taints and from nodes that do not exist, and
// marks those on lost nodes as not ready.
type evictions struct {
	*Workloads
	timers timers
}

func (w *Workloads) addEvictions() error {
	e := &evictions{w, timers{}}
	return w.add("evictions", e.reconcile, tarn.For(w.pods.Mirror),
		tarn.Watches(w.nodes.Mirror, func(node *corev1.Node) []tarn.Key { return w.podsOn(node.Name) }))
}

// nodeQuarantine is how long a pod stays on a node that does not exist.
const nodeQuarantine = 40 * time.Second

func (e *evictions) reconcile(ctx context.Context, key tarn.Key) (tarn.Result, error) {
	pod, ok := e.pods.Get(key)
	if !ok || pod.Spec.NodeName == "" {
		delete(e.timers, key)
		return tarn.Result{}, nil
	}
	node, ok := e.nodes.Get(tarn.Key{Name: pod.Spec.NodeName})
	if !ok {
		if left := e.timers.left(key, string(pod.UID), nodeQuarantine); left > 0 {
			return tarn.Result{RequeueAfter: left}, nil
		}
		return tarn.Result{}, e.pods.remove(ctx, pod, tarn.GracePeriod(0))
	}
	if pod.DeletionTimestamp != nil || finished(pod) {
		delete(e.timers, key)
		return tarn.Result{}, nil
	}
	if e.failures.lost(node.Name) && ready(pod) {
		next := pod.DeepCopy()
		setCondition(next, corev1.PodReady, corev1.ConditionFalse, "NodeNotReady", "Node is not ready")
		return tarn.Result{}, e.pods.setStatus(ctx, pod, next)
	}
	// A taint without timeAdded counts from when the pod was first seen on a tainted node.
	seen := time.Now().Add(e.timers.left(key, "tainted "+string(pod.UID), 0))
	at, evicted := evictionTime(pod, node, seen)
	switch left := time.Until(at); {
	case !evicted:
		delete(e.timers, key)
		return tarn.Result{}, nil
	case left > 0:
		return tarn.Result{RequeueAfter: left}, nil
	}
	return tarn.Result{}, e.pods.remove(ctx, pod)
}

// evictionTime returns when a pod has to leave a node, and whether it has to. seen is the start of
// taints without timeAdded.
func evictionTime(pod *corev1.Pod, node *corev1.Node, seen time.Time) (at time.Time, evicted bool) {
	for _, taint := range node.Spec.Taints {
		if taint.Effect != corev1.TaintEffectNoExecute {
			continue
		}
		since := value(taint.TimeAdded, metav1.Time{Time: seen}).Time
		until := since
		// As in Kubernetes, the first toleration that matches decides.
		i := slices.IndexFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool {
			return t.ToleratesTaint(klog.Background(), &taint, true)
		})
		switch {
		case i >= 0 && pod.Spec.Tolerations[i].TolerationSeconds == nil:
			continue
		case i >= 0:
			until = since.Add(time.Duration(*pod.Spec.Tolerations[i].TolerationSeconds) * time.Second)
		case taint.Key == corev1.TaintNodeUnreachable:
			until = since.Add(300 * time.Second) // kube-apiserver adds this toleration to pods without one
		}
		if !evicted || until.Before(at) {
			at, evicted = until, true
		}
	}
	return at, evicted
}
