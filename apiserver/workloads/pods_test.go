package workloads_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/tarnproject/tarn/apiserver/workloads"
)

func newPod(name string, change func(pod *corev1.Pod)) *corev1.Pod {
	t := template(name, "v1")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: t.Labels}, Spec: t.Spec}
	if change != nil {
		change(pod)
	}
	return pod
}

func (w *world) pod(name string) *corev1.Pod {
	w.Helper()
	return must(w.CoreV1().Pods("default").Get(context.Background(), name, metav1.GetOptions{}))(w)
}

func TestACrashLoopBacksOffLongerEachTime(t *testing.T) {
	inWorld(t, workloads.Options{}, func(w *world) {
		w.create(newPod("web", nil), newPod("other", nil))
		w.wait(2 * time.Second)
		remove := w.inject(workloads.Failure{Kind: workloads.Crash, Selector: "app=web", ExitCode: 3})
		w.wait(0)
		restarts := func() int32 { return w.pod("web").Status.ContainerStatuses[0].RestartCount }
		w.want("app=web", "1 v1 CrashLoopBackOff")
		w.want("app=other", "1 v1 Ready")
		if last := w.pod("web").Status.ContainerStatuses[0].LastTerminationState.Terminated; last == nil || last.ExitCode != 3 || last.Reason != "Error" {
			w.Errorf("last state %+v", last)
		}
		for n, after := range []time.Duration{10, 20, 40, 80, 160, 300, 300} {
			w.wait(after*time.Second - 3*time.Second) // each wait is longer by a tenth of a second
			if got := restarts(); got != int32(n) {
				w.Errorf("%d restarts before the back-off is over; want %d", got, n)
			}
			w.wait(3 * time.Second)
			if got := restarts(); got != int32(n)+1 {
				w.Errorf("%d restarts; want %d", got, n+1)
			}
		}
		remove()
		w.wait(0)
		w.want("app=web", "1 v1 CrashLoopBackOff") // the back-off is not over
		w.wait(5 * time.Minute)
		w.want("app=web", "1 v1 Ready")
	})
}

func TestAPodThatIsNotRestartedSucceedsOrFails(t *testing.T) {
	inWorld(t, workloads.Options{RunTime: time.Minute}, func(w *world) {
		once := func(pod *corev1.Pod) { pod.Spec.RestartPolicy = corev1.RestartPolicyNever }
		w.inject(workloads.Failure{Kind: workloads.Crash, Namespace: "default", Selector: "app=bad", ExitCode: 42})
		w.create(newPod("good", once), newPod("bad", once))
		w.wait(2 * time.Second)
		w.want("app=good", "1 v1 Ready")
		if pod := w.pod("bad"); pod.Status.Phase != corev1.PodFailed || pod.Status.ContainerStatuses[0].State.Terminated.ExitCode != 42 {
			w.Errorf("status %+v", pod.Status)
		}
		w.wait(time.Minute)
		if pod := w.pod("good"); pod.Status.Phase != corev1.PodSucceeded {
			w.Errorf("status %+v", pod.Status)
		}
	})
}

func TestPodsWaitForANodeThatSuits(t *testing.T) {
	inWorld(t, workloads.Options{Nodes: 2}, func(w *world) {
		node := must(w.CoreV1().Nodes().Get(context.Background(), "node-2", metav1.GetOptions{}))(w)
		node.Spec.Unschedulable = true
		must(w.CoreV1().Nodes().Update(context.Background(), node, metav1.UpdateOptions{}))(w)
		large := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("40")}
		for i := range 2 {
			w.create(newPod(fmt.Sprintf("large-%d", i), func(pod *corev1.Pod) { pod.Spec.Containers[0].Resources.Requests = large }))
			w.wait(0)
		}
		w.create(newPod("disk", func(pod *corev1.Pod) { pod.Spec.NodeSelector = map[string]string{"disk": "ssd"} }))
		w.wait(2 * time.Second)
		waits := func(name string) string {
			for _, c := range w.pod(name).Status.Conditions {
				if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
					return c.Reason + ": " + c.Message
				}
			}
			return ""
		}
		if got, want := waits("large-1"), "Unschedulable: 0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable."; got != want {
			w.Errorf("%s; want %s", got, want)
		}
		if got, want := waits("disk"), "Unschedulable: 0/2 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 1 node(s) were unschedulable."; got != want {
			w.Errorf("%s; want %s", got, want)
		}
		if err := w.CoreV1().Pods("default").Delete(context.Background(), "large-0", metav1.DeleteOptions{}); err != nil {
			w.Fatal(err)
		}
		w.wait(5 * time.Second)
		w.want("app=large-1", "1 v1 Ready")
		node = must(w.CoreV1().Nodes().Get(context.Background(), "node-2", metav1.GetOptions{}))(w)
		node.Spec.Unschedulable, node.Labels["disk"] = false, "ssd"
		must(w.CoreV1().Nodes().Update(context.Background(), node, metav1.UpdateOptions{}))(w)
		w.wait(5 * time.Second)
		w.want("app=disk", "1 v1 Ready")
		if got := w.pod("disk").Spec.NodeName; got != "node-2" {
			w.Errorf("node %s", got)
		}
	})
}

func TestPodsLeaveALostNodeAfterFiveMinutes(t *testing.T) {
	inWorld(t, workloads.Options{Nodes: 2}, func(w *world) {
		tolerate := func(seconds int64) func(*corev1.Pod) {
			return func(pod *corev1.Pod) {
				pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "node-1"}
				pod.Spec.Tolerations = []corev1.Toleration{{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, TolerationSeconds: &seconds}}
			}
		}
		w.create(newDeployment("web", 4), newPod("short", tolerate(20)), newPod("zero", tolerate(0)))
		w.wait(5 * time.Second)
		remove := w.inject(workloads.Failure{Kind: workloads.NodeLost, Node: "node-1"})
		w.wait(10 * time.Second)
		node := must(w.CoreV1().Nodes().Get(context.Background(), "node-1", metav1.GetOptions{}))(w)
		if node.Status.Conditions[0].Status != corev1.ConditionUnknown || len(node.Spec.Taints) != 2 {
			w.Errorf("node %+v, taints %v", node.Status.Conditions, node.Spec.Taints)
		}
		w.want("app=short", "1 v1 Running")
		w.want("app=zero", "1 v1 Terminating")
		w.wait(15 * time.Second)
		w.want("app=short", "1 v1 Terminating")
		if d := w.deployment("web"); d.Status.ReadyReplicas == 4 {
			w.Errorf("status %+v", d.Status)
		}
		w.wait(270 * time.Second)
		before := w.summary("app=web")
		w.wait(10 * time.Second)
		lost := 0
		for _, pod := range w.podsOf("app=web") {
			if pod.DeletionTimestamp != nil {
				lost++
			}
		}
		if lost == 0 || w.deployment("web").Status.ReadyReplicas != 4 {
			w.Errorf("%s; was %s", w.summary("app=web"), before)
		}
		w.wait(time.Hour) // no kubelet removes them
		if got := len(w.podsOf("app=web")); got != 4+lost {
			w.Errorf("%d pods", got)
		}
		remove()
		w.wait(2 * time.Second)
		w.want("app=web", "4 v1 Ready")
		w.want("app=short", "")
	})
}

// kubectl taint sets no timeAdded.
func TestPodsLeaveATaintedNodeWhenTheirTolerationEnds(t *testing.T) {
	inWorld(t, workloads.Options{}, func(w *world) {
		tolerate := func(seconds ...*int64) func(*corev1.Pod) {
			return func(pod *corev1.Pod) {
				for _, each := range seconds {
					pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{Key: "drain", Operator: corev1.TolerationOpExists, TolerationSeconds: each})
				}
			}
		}
		short := int64(20)
		w.create(newPod("never", nil), newPod("short", tolerate(&short)), newPod("always", tolerate(nil)), newPod("first", tolerate(&short, nil)))
		w.wait(5 * time.Second)
		taint := func(taints ...corev1.Taint) {
			node := must(w.CoreV1().Nodes().Get(context.Background(), "node-1", metav1.GetOptions{}))(w)
			node.Spec.Taints = taints
			must(w.CoreV1().Nodes().Update(context.Background(), node, metav1.UpdateOptions{}))(w)
		}
		drain := corev1.Taint{Key: "drain", Effect: corev1.TaintEffectNoExecute}
		taint(drain)
		w.wait(15 * time.Second)
		w.wantNames("", "always v1 Ready, first v1 Ready, short v1 Ready")
		taint() // the toleration starts again with the next taint
		w.wait(time.Second)
		taint(drain)
		w.wait(15 * time.Second)
		w.wantNames("", "always v1 Ready, first v1 Ready, short v1 Ready")
		w.wait(10 * time.Second)
		w.wantNames("", "always v1 Ready")
	})
}

func TestARestoredNodeKeepsItsPods(t *testing.T) {
	inWorld(t, workloads.Options{}, func(w *world) {
		w.create(newDeployment("web", 2))
		w.wait(5 * time.Second)
		remove := w.inject(workloads.Failure{Kind: workloads.NodeLost, Node: "node-1"})
		w.wait(time.Minute)
		w.want("app=web", "2 v1 Running")
		remove()
		w.wait(0)
		w.want("app=web", "2 v1 Ready")
		w.wait(time.Hour)
		w.want("app=web", "2 v1 Ready")
	})
}

func TestPodsOfADeletedNodeAreDeleted(t *testing.T) {
	inWorld(t, workloads.Options{Nodes: 2}, func(w *world) {
		w.create(newDeployment("web", 2))
		w.wait(5 * time.Second)
		if err := w.CoreV1().Nodes().Delete(context.Background(), "node-2", metav1.DeleteOptions{}); err != nil {
			w.Fatal(err)
		}
		w.wait(time.Minute)
		w.want("app=web", "2 v1 Ready")
		for _, pod := range w.podsOf("app=web") {
			if pod.Spec.NodeName != "node-1" {
				w.Errorf("pod on %s", pod.Spec.NodeName)
			}
		}
	})
}

func TestAFinalizerKeepsAPod(t *testing.T) {
	inWorld(t, workloads.Options{}, func(w *world) {
		w.create(newPod("web", func(pod *corev1.Pod) { pod.Finalizers = []string{"example.com/test"} }))
		w.wait(2 * time.Second)
		if err := w.CoreV1().Pods("default").Delete(context.Background(), "web", metav1.DeleteOptions{}); err != nil {
			w.Fatal(err)
		}
		w.wait(time.Hour)
		w.want("app=web", "1 v1 Terminating")
		pod := w.pod("web")
		pod.Finalizers = nil
		must(w.CoreV1().Pods("default").Update(context.Background(), pod, metav1.UpdateOptions{}))(w)
		w.wait(0)
		w.want("app=web", "")
	})
}

func TestServicesHaveTheirReadyPodsAsEndpoints(t *testing.T) {
	inWorld(t, workloads.Options{}, func(w *world) {
		d := newDeployment("web", 3)
		d.Spec.Template.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}}
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{{Name: "web", Port: 80, TargetPort: intstr.FromString("http")}},
		}}
		w.create(d, service)
		w.wait(5 * time.Second)
		check := func(ready, not int) {
			w.Helper()
			list := must(w.DiscoveryV1().EndpointSlices("default").List(context.Background(), metav1.ListOptions{LabelSelector: "kubernetes.io/service-name=web"}))(w)
			if len(list.Items) != 1 || *list.Items[0].Ports[0].Port != 8080 {
				w.Fatalf("slices %+v", list.Items)
			}
			usable := 0
			for _, e := range list.Items[0].Endpoints {
				if *e.Conditions.Ready {
					usable++
				}
			}
			if usable != ready || len(list.Items[0].Endpoints) != ready+not {
				w.Errorf("slice %+v; want %d ready, %d not", list.Items[0].Endpoints, ready, not)
			}
		}
		check(3, 0)
		pod := w.podsOf("app=web")[0]
		pod.Labels["bad"] = "yes"
		must(w.CoreV1().Pods("default").Update(context.Background(), &pod, metav1.UpdateOptions{}))(w)
		w.inject(workloads.Failure{Kind: workloads.Crash, Selector: "bad=yes"})
		w.wait(time.Second)
		check(2, 1)
		if err := w.CoreV1().Services("default").Delete(context.Background(), "web", metav1.DeleteOptions{}); err != nil {
			w.Fatal(err)
		}
		w.wait(time.Second)
		if list := must(w.DiscoveryV1().EndpointSlices("default").List(context.Background(), metav1.ListOptions{}))(w); len(list.Items) > 0 {
			w.Errorf("the slice still exists: %+v", list.Items)
		}
	})
}

func TestInvalidFailuresAreRefused(t *testing.T) {
	inWorld(t, workloads.Options{Nodes: -1}, func(w *world) {
		for _, f := range []workloads.Failure{
			{}, {Kind: "nonsense"}, {Kind: workloads.NodeLost}, {Kind: workloads.NodeLost, Node: "a", Selector: "b"},
			{Kind: workloads.Unschedulable, Node: "a"}, {Kind: workloads.Crash, Selector: "=="},
		} {
			if _, err := w.Inject(f); err == nil {
				w.Errorf("%+v was accepted", f)
			}
		}
		if n := len(must(w.CoreV1().Nodes().List(context.Background(), metav1.ListOptions{}))(w).Items); n != 0 {
			w.Errorf("%d nodes", n)
		}
	})
}
