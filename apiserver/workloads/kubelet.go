package workloads

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn"
)

// kubelet is the stand-in for the kubelets of all nodes: it writes the status of pods that
// have a node.
type kubelet struct {
	*Workloads
	timers timers
	ips    int // of the last address that was assigned
}

func (w *Workloads) addKubelet() error {
	k := &kubelet{Workloads: w, timers: timers{}}
	return w.add("kubelet", k.reconcile, tarn.For(w.pods.Mirror), onFailures(w, w.pods),
		tarn.Watches(w.nodes.Mirror, func(node *corev1.Node) []tarn.Key { return w.podsOn(node.Name) }))
}

// podsOn returns the keys of the pods on a node.
func (w *Workloads) podsOn(node string) (keys []tarn.Key) {
	for _, pod := range indexed(w.pods, podsByNode, node) {
		keys = append(keys, keyOf(pod))
	}
	return keys
}

func (k *kubelet) reconcile(ctx context.Context, key tarn.Key) (tarn.Result, error) {
	pod, ok := k.pods.Get(key)
	if !ok {
		delete(k.timers, key)
		return tarn.Result{}, nil
	}
	node, ok := k.nodes.Get(tarn.Key{Name: pod.Spec.NodeName})
	if !ok || k.failures.lost(node.Name) {
		return tarn.Result{}, nil
	}
	if pod.DeletionTimestamp != nil {
		return k.stop(ctx, pod)
	}
	if finished(pod) {
		return tarn.Result{}, nil
	}
	next := pod.DeepCopy()
	after := k.step(next, node)
	return tarn.Result{RequeueAfter: after}, k.pods.setStatus(ctx, pod, next)
}

// stop removes a pod when its grace period or the latency is over.
func (k *kubelet) stop(ctx context.Context, pod *corev1.Pod) (tarn.Result, error) {
	grace := value(pod.DeletionGracePeriodSeconds, 0)
	if grace == 0 && len(pod.Finalizers) > 0 {
		return tarn.Result{}, nil // the server removes it with the last finalizer
	}
	latency := min(k.opts.StopLatency, time.Duration(grace)*time.Second)
	if left := k.timers.left(keyOf(pod), string(pod.UID)+" stops", latency); left > 0 {
		return tarn.Result{RequeueAfter: left}, nil
	}
	return tarn.Result{}, k.pods.remove(ctx, pod, tarn.GracePeriod(0))
}

// step changes the status of a pod to its next state, and returns when the one after that
// begins; 0 if only a change can lead to it.
func (k *kubelet) step(pod *corev1.Pod, node *corev1.Node) time.Duration {
	key, uid, crash := keyOf(pod), string(pod.UID), k.failures.of(Crash, pod)
	started := pod.Status.Phase == corev1.PodRunning
	var first corev1.ContainerStatus // stands for all: they restart together
	if len(pod.Status.ContainerStatuses) > 0 {
		first = pod.Status.ContainerStatuses[0]
	}
	n := first.RestartCount
	switch {
	case !started && k.failures.of(ImagePull, pod) != nil:
		delete(k.timers, key)
		k.assign(pod, node)
		wait(pod, "ImagePullBackOff", "Back-off pulling image")
		return 0
	case !started:
		k.assign(pod, node)
		wait(pod, "ContainerCreating", "")
		if left := k.timers.left(key, uid+" starts", k.opts.StartLatency); left > 0 {
			return left
		}
		k.setIP(pod)
	case first.State.Waiting != nil:
		// Ten seconds, and twice as long after each restart.
		backoff := min(10*time.Second<<min(n, 5), 5*time.Minute)
		if left := k.timers.left(key, fmt.Sprint(uid, " backs off ", n), backoff); left > 0 {
			return left
		}
		n++
	}
	switch {
	case crash != nil:
		exit(pod, n, crash.ExitCode)
	case pod.Spec.RestartPolicy == corev1.RestartPolicyNever || pod.Spec.RestartPolicy == corev1.RestartPolicyOnFailure:
		run(pod, n)
		if left := k.timers.left(key, fmt.Sprint(uid, " runs ", n), k.opts.RunTime); left > 0 {
			return left
		}
		exit(pod, n, 0)
	default:
		run(pod, n)
		return 0
	}
	if finished(pod) || len(pod.Spec.Containers) == 0 {
		return 0
	}
	return k.step(pod, node) // it crashed, and backs off
}

// assign sets what the kubelet sets when it first sees a pod.
func (k *kubelet) assign(pod *corev1.Pod, node *corev1.Node) {
	if pod.Status.StartTime == nil {
		now := metav1.Now()
		pod.Status.StartTime = &now
	}
	pod.Status.Phase = corev1.PodPending
	for _, a := range node.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			pod.Status.HostIP, pod.Status.HostIPs = a.Address, []corev1.HostIP{{IP: a.Address}}
		}
	}
	setCondition(pod, corev1.PodScheduled, corev1.ConditionTrue, "", "")
	setCondition(pod, corev1.PodInitialized, corev1.ConditionTrue, "", "")
}

// setIP assigns an address that no other pod has.
func (k *kubelet) setIP(pod *corev1.Pod) {
	if pod.Spec.HostNetwork {
		pod.Status.PodIP = pod.Status.HostIP
	}
	for pod.Status.PodIP == "" {
		k.ips++
		ip := fmt.Sprintf("10.%d.%d.%d", 1+k.ips/250/250%250, k.ips/250%250, 1+k.ips%250)
		if len(indexed(k.pods, podsByIP, ip)) == 0 {
			pod.Status.PodIP = ip
		}
	}
	pod.Status.PodIPs = []corev1.PodIP{{IP: pod.Status.PodIP}}
}

// wait sets containers that have not started.
func wait(pod *corev1.Pod, reason, message string) {
	containers(pod, 0, false, func(*corev1.ContainerStatus) corev1.ContainerState {
		return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
	})
	setReady(pod, false, "ContainersNotReady")
}

// run sets containers that run. Those that do already keep their start time.
func run(pod *corev1.Pod, restarts int32) {
	pod.Status.Phase = corev1.PodRunning
	containers(pod, restarts, true, func(old *corev1.ContainerStatus) corev1.ContainerState {
		if old.State.Running != nil && old.RestartCount == restarts {
			return old.State
		}
		return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}
	})
	setReady(pod, true, "")
}

// exit sets containers that have exited. If the restart policy says so, they back off.
func exit(pod *corev1.Pod, restarts, code int32) {
	phase, reason, why := corev1.PodSucceeded, "Completed", "PodCompleted"
	if code != 0 {
		phase, reason, why = corev1.PodFailed, "Error", "PodFailed"
	}
	terminated := func(old *corev1.ContainerStatus) corev1.ContainerState {
		t := &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason, StartedAt: metav1.Now(), FinishedAt: metav1.Now(), ContainerID: old.ContainerID}
		if old.State.Running != nil {
			t.StartedAt = old.State.Running.StartedAt
		}
		return corev1.ContainerState{Terminated: t}
	}
	if code == 0 || pod.Spec.RestartPolicy == corev1.RestartPolicyNever {
		pod.Status.Phase = phase
		containers(pod, restarts, false, terminated)
		setReady(pod, false, why)
		return
	}
	pod.Status.Phase = corev1.PodRunning
	containers(pod, restarts, false, func(old *corev1.ContainerStatus) corev1.ContainerState {
		old.LastTerminationState = terminated(old)
		return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
			Reason: "CrashLoopBackOff", Message: fmt.Sprintf("back-off restarting failed container %s", old.Name)}}
	})
	setReady(pod, false, "ContainersNotReady")
}

// containers sets the statuses of all containers.
func containers(pod *corev1.Pod, restarts int32, ok bool, state func(old *corev1.ContainerStatus) corev1.ContainerState) {
	old := map[string]corev1.ContainerStatus{}
	for _, c := range pod.Status.ContainerStatuses {
		old[c.Name] = c
	}
	pod.Status.ContainerStatuses = nil
	for _, c := range pod.Spec.Containers {
		status := old[c.Name]
		status.Name, status.Image, status.ImageID = c.Name, c.Image, c.Image
		status.Resources, status.AllocatedResources = c.Resources.DeepCopy(), c.Resources.Requests.DeepCopy()
		status.State = state(&status)
		status.Ready, status.Started, status.RestartCount = ok, &ok, restarts
		status.ContainerID = ""
		if pod.Status.Phase != corev1.PodPending {
			status.ContainerID = fmt.Sprintf("tarn://%s/%s/%d", pod.UID, c.Name, restarts)
		}
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, status)
	}
}

// setReady sets the conditions of readiness. Readiness gates may keep the pod from being ready.
func setReady(pod *corev1.Pod, ok bool, reason string) {
	status := corev1.ConditionFalse
	if ok {
		status = corev1.ConditionTrue
	}
	setCondition(pod, corev1.ContainersReady, status, reason, "")
	for _, gate := range pod.Spec.ReadinessGates {
		if ok && condition(pod, gate.ConditionType).Status != corev1.ConditionTrue {
			status, reason = corev1.ConditionFalse, "ReadinessGatesNotReady"
		}
	}
	setCondition(pod, corev1.PodReady, status, reason, "")
}
