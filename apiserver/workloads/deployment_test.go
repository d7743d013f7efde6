package workloads_test

import (
	"context"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/tarnproject/tarn/apiserver/workloads"
)

func TestADeploymentBecomesAvailable(t *testing.T) {
	inWorld(t, workloads.Options{Nodes: 2}, func(w *world) {
		w.create(newDeployment("web", 4))
		w.wait(0)
		w.want("app=web", "4 v1 ContainerCreating")
		if reason, available := progress(w.deployment("web")); reason != "ReplicaSetUpdated" || available != corev1.ConditionFalse {
			w.Errorf("progress %s, available %s", reason, available)
		}
		w.wait(time.Second)
		w.want("app=web", "4 v1 Ready")
		d := w.deployment("web")
		if reason, available := progress(d); reason != "NewReplicaSetAvailable" || available != corev1.ConditionTrue {
			w.Errorf("progress %s, available %s", reason, available)
		}
		if s := d.Status; s.ObservedGeneration != d.Generation || s.Replicas != 4 || s.UpdatedReplicas != 4 || s.AvailableReplicas != 4 || s.UnavailableReplicas != 0 {
			w.Errorf("status %+v", s)
		}
		if d.Annotations["deployment.kubernetes.io/revision"] != "1" {
			w.Errorf("annotations %v", d.Annotations)
		}
		nodes, ips := map[string]int{}, map[string]bool{}
		for _, pod := range w.podsOf("app=web") {
			nodes[pod.Spec.NodeName]++
			ips[pod.Status.PodIP] = true
		}
		if nodes["node-1"] != 2 || nodes["node-2"] != 2 || len(ips) != 4 {
			w.Errorf("nodes %v, addresses %v", nodes, ips)
		}
	})
}

// rolled checks every second of a rollout and returns how long it took.
func (w *world) rolled(name string, most, least int) time.Duration {
	w.Helper()
	begun := time.Now()
	for {
		w.wait(time.Second)
		pods := w.podsOf("app=" + name)
		running, ready := 0, 0
		for _, pod := range pods {
			if pod.DeletionTimestamp == nil {
				running++
			}
			if pod.DeletionTimestamp == nil && isReady(&pod) {
				ready++
			}
		}
		if running > most || ready < least {
			w.Errorf("after %v: %d pods, %d ready; want at most %d, at least %d", time.Since(begun), running, ready, most, least)
		}
		d := w.deployment(name)
		if reason, _ := progress(d); reason == "NewReplicaSetAvailable" && d.Status.ObservedGeneration == d.Generation {
			return time.Since(begun)
		}
		if time.Since(begun) > time.Hour {
			w.Fatalf("not rolled out: %s", w.summary("app="+name))
		}
	}
}

func TestARollingUpdateStaysWithinItsLimits(t *testing.T) {
	for _, limit := range []struct{ surge, unavailable intstr.IntOrString }{
		{intstr.FromInt32(1), intstr.FromInt32(0)},
		{intstr.FromInt32(0), intstr.FromInt32(1)},
		{intstr.FromString("50%"), intstr.FromString("50%")},
		{intstr.FromString("25%"), intstr.FromString("25%")},
		{intstr.FromInt32(0), intstr.FromInt32(0)},
	} {
		t.Run(limit.surge.String()+" "+limit.unavailable.String(), func(t *testing.T) {
			inWorld(t, workloads.Options{Nodes: 3}, func(w *world) {
				d := newDeployment("web", 6)
				d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxSurge: &limit.surge, MaxUnavailable: &limit.unavailable}
				w.create(d)
				w.wait(5 * time.Second)
				surge, _ := intstr.GetScaledValueFromIntOrPercent(&limit.surge, 6, true)
				unavailable, _ := intstr.GetScaledValueFromIntOrPercent(&limit.unavailable, 6, false)
				if surge+unavailable == 0 {
					unavailable = 1
				}
				w.edit("web", func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "v2" })
				w.rolled("web", 6+surge, 6-unavailable)
				w.wait(2 * time.Second)
				w.want("app=web", "6 v2 Ready")
			})
		})
	}
}

func TestRecreateStopsAllOldPodsFirst(t *testing.T) {
	inWorld(t, workloads.Options{StopLatency: 10 * time.Second}, func(w *world) {
		d := newDeployment("web", 3)
		d.Spec.Strategy.Type = appsv1.RecreateDeploymentStrategyType
		w.create(d)
		w.wait(5 * time.Second)
		w.edit("web", func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "v2" })
		w.wait(9 * time.Second)
		w.want("app=web", "3 v1 Terminating")
		w.wait(time.Second)
		w.want("app=web", "3 v2 ContainerCreating")
		w.wait(time.Second)
		w.want("app=web", "3 v2 Ready")
	})
}

func TestARollbackReusesTheReplicaSetAndHistoryIsLimited(t *testing.T) {
	inWorld(t, workloads.Options{}, func(w *world) {
		d := newDeployment("web", 2)
		limit := int32(2)
		d.Spec.RevisionHistoryLimit = &limit
		w.create(d)
		for _, image := range []string{"v2", "v3", "v1"} {
			w.wait(10 * time.Second)
			w.edit("web", func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = image })
		}
		w.wait(10 * time.Second)
		w.want("app=web", "2 v1 Ready")
		revisions := func() map[string]string {
			got := map[string]string{}
			for _, rs := range must(w.AppsV1().ReplicaSets("default").List(context.Background(), metav1.ListOptions{}))(w).Items {
				got[rs.Spec.Template.Spec.Containers[0].Image] = rs.Annotations["deployment.kubernetes.io/revision"]
			}
			return got
		}
		if got := revisions(); len(got) != 3 || got["v1"] != "4" || got["v2"] != "2" || got["v3"] != "3" {
			w.Errorf("revisions %v", got)
		}
		w.edit("web", func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "v4" })
		w.wait(10 * time.Second)
		if got := revisions(); len(got) != 3 || got["v4"] != "5" || got["v2"] != "" {
			w.Errorf("revisions %v", got)
		}
		if got := w.deployment("web").Annotations["deployment.kubernetes.io/revision"]; got != "5" {
			w.Errorf("revision %s", got)
		}
	})
}

func TestAPausedDeploymentScalesAndDoesNotRoll(t *testing.T) {
	inWorld(t, workloads.Options{}, func(w *world) {
		w.create(newDeployment("web", 2))
		w.wait(5 * time.Second)
		w.edit("web", func(d *appsv1.Deployment) {
			d.Spec.Paused = true
			d.Spec.Template.Spec.Containers[0].Image = "v2"
			*d.Spec.Replicas = 3
		})
		w.wait(time.Hour)
		w.want("app=web", "3 v1 Ready")
		if reason, _ := progress(w.deployment("web")); reason != "DeploymentPaused" {
			w.Errorf("progress %s", reason)
		}
		w.edit("web", func(d *appsv1.Deployment) { d.Spec.Paused = false })
		w.wait(20 * time.Second)
		w.want("app=web", "3 v2 Ready")
		if reason, _ := progress(w.deployment("web")); reason != "NewReplicaSetAvailable" {
			w.Errorf("progress %s", reason)
		}
	})
}

// A rollout that is paused keeps the pods of both templates. If it is scaled, those of the new one change first.
func TestAPausedRolloutFreezes(t *testing.T) {
	inWorld(t, workloads.Options{StartLatency: 10 * time.Second}, func(w *world) {
		w.create(newDeployment("web", 10))
		w.wait(30 * time.Second)
		w.edit("web", func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "v2" })
		w.wait(5 * time.Second) // 25 % surge and unavailable
		w.edit("web", func(d *appsv1.Deployment) { d.Spec.Paused = true })
		w.wait(time.Second)
		for _, c := range []struct {
			replicas int32
			pods     string
		}{{10, "5 v2 Ready, 8 v1 Ready"}, {20, "12 v2 Ready, 8 v1 Ready"}, {5, "5 v1 Ready"}, {10, "10 v1 Ready"}} {
			w.edit("web", func(d *appsv1.Deployment) { *d.Spec.Replicas = c.replicas })
			w.wait(time.Hour)
			w.want("app=web", c.pods)
			if reason, _ := progress(w.deployment("web")); reason != "DeploymentPaused" {
				w.Errorf("progress %s", reason)
			}
		}
		w.edit("web", func(d *appsv1.Deployment) { d.Spec.Paused = false })
		w.wait(time.Minute)
		w.want("app=web", "10 v2 Ready")
	})
}

// A Deployment can be scaled while its new pods do not become ready.
func TestARolloutThatIsScaledEnds(t *testing.T) {
	inWorld(t, workloads.Options{}, func(w *world) {
		w.create(newDeployment("web", 8))
		w.wait(5 * time.Second)
		remove := w.inject(workloads.Failure{Kind: workloads.ImagePull, Selector: "app=web"})
		w.edit("web", func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "v2" })
		w.wait(time.Minute)
		w.want("app=web", "4 v2 ImagePullBackOff, 6 v1 Ready")
		w.edit("web", func(d *appsv1.Deployment) { *d.Spec.Replicas = 16 })
		w.wait(time.Second)
		w.want("app=web", "14 v2 ImagePullBackOff, 6 v1 Ready")
		remove()
		w.wait(10 * time.Minute)
		w.want("app=web", "16 v2 Ready")
	})
}

func TestARolloutThatFailsExceedsItsDeadlineAndRecovers(t *testing.T) {
	inWorld(t, workloads.Options{}, func(w *world) {
		w.create(newDeployment("web", 4))
		w.wait(5 * time.Second)
		remove := w.inject(workloads.Failure{Kind: workloads.ImagePull, Selector: "app=web"})
		w.edit("web", func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "v2" })
		w.wait(590 * time.Second)
		if reason, available := progress(w.deployment("web")); reason != "ReplicaSetUpdated" || available != corev1.ConditionTrue {
			w.Errorf("progress %s, available %s", reason, available)
		}
		w.wait(20 * time.Second)
		if reason, _ := progress(w.deployment("web")); reason != "ProgressDeadlineExceeded" {
			w.Errorf("progress %s", reason)
		}
		w.want("app=web", "2 v2 ImagePullBackOff, 3 v1 Ready") // 25 % surge and unavailable
		remove()
		w.wait(20 * time.Second)
		w.want("app=web", "4 v2 Ready")
		if reason, _ := progress(w.deployment("web")); reason != "NewReplicaSetAvailable" {
			w.Errorf("progress %s", reason)
		}
	})
}

func TestScalingDownDeletesPodsThatAreNotReady(t *testing.T) {
	inWorld(t, workloads.Options{}, func(w *world) {
		w.create(newDeployment("web", 3))
		w.wait(5 * time.Second)
		w.inject(workloads.Failure{Kind: workloads.Unschedulable})
		w.edit("web", func(d *appsv1.Deployment) { *d.Spec.Replicas = 5 })
		w.wait(time.Second)
		w.want("app=web", "2 v1 Pending, 3 v1 Ready")
		w.edit("web", func(d *appsv1.Deployment) { *d.Spec.Replicas = 3 })
		w.wait(0)
		w.want("app=web", "3 v1 Ready")
	})
}

func TestPodsOfADeletedDeploymentAreDeleted(t *testing.T) {
	inWorld(t, workloads.Options{}, func(w *world) {
		w.create(newDeployment("web", 3))
		w.wait(5 * time.Second)
		if err := w.AppsV1().Deployments("default").Delete(context.Background(), "web", metav1.DeleteOptions{}); err != nil {
			w.Fatal(err)
		}
		w.wait(0)
		// The ReplicaSet's controller may see that pods are deleted before it sees that the ReplicaSet is, and
		// replace some, as the real one may.
		if got := w.summary("app=web"); !strings.HasSuffix(got, " v1 Terminating") || strings.Contains(got, ",") {
			w.Errorf("pods: %s", got)
		}
		w.wait(time.Second)
		w.want("app=web", "")
	})
}

func TestMinReadySecondsDelayAvailability(t *testing.T) {
	inWorld(t, workloads.Options{}, func(w *world) {
		d := newDeployment("web", 2)
		d.Spec.MinReadySeconds = 30
		w.create(d)
		w.wait(20 * time.Second)
		if s := w.deployment("web").Status; s.ReadyReplicas != 2 || s.AvailableReplicas != 0 {
			w.Errorf("status %+v", s)
		}
		w.wait(12 * time.Second)
		if s := w.deployment("web").Status; s.AvailableReplicas != 2 {
			w.Errorf("status %+v", s)
		}
	})
}
