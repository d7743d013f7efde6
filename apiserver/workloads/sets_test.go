package workloads_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/apiserver/workloads"
)

func newStatefulSet(name string, replicas int32) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: appsv1.StatefulSetSpec{
		Replicas: &replicas, Selector: selector(name), Template: template(name, "v1"), ServiceName: name,
		VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"}}},
	}}
}

func (w *world) statefulSet(name string) *appsv1.StatefulSet {
	w.Helper()
	return must(w.AppsV1().StatefulSets("default").Get(context.Background(), name, metav1.GetOptions{}))(w)
}

func (w *world) editSet(name string, change func(set *appsv1.StatefulSet)) {
	w.Helper()
	set := w.statefulSet(name)
	change(set)
	must(w.AppsV1().StatefulSets("default").Update(context.Background(), set, metav1.UpdateOptions{}))(w)
}

// names returns the pods with image and state, such as "db-0 v1 Ready".
func (w *world) names(selector string) string {
	w.Helper()
	var all []string
	for _, pod := range w.podsOf(selector) {
		all = append(all, fmt.Sprintf("%s %s %s", pod.Name, pod.Spec.Containers[0].Image, stateOf(&pod)))
	}
	return strings.Join(all, ", ")
}

func (w *world) wantNames(selector, want string) {
	w.Helper()
	if got := w.names(selector); got != want {
		w.Errorf("pods %s: %s; want %s", selector, got, want)
	}
}

func TestAStatefulSetStartsAndStopsInOrder(t *testing.T) {
	inWorld(t, workloads.Options{}, func(w *world) {
		w.create(newStatefulSet("db", 3))
		w.wait(0)
		w.wantNames("app=db", "db-0 v1 ContainerCreating")
		w.wait(time.Second)
		w.wantNames("app=db", "db-0 v1 Ready, db-1 v1 ContainerCreating")
		w.wait(5 * time.Second)
		w.wantNames("app=db", "db-0 v1 Ready, db-1 v1 Ready, db-2 v1 Ready")
		set := w.statefulSet("db")
		if s := set.Status; s.ReadyReplicas != 3 || s.AvailableReplicas != 3 || s.CurrentRevision != s.UpdateRevision || s.CurrentReplicas != 3 || s.UpdatedReplicas != 3 {
			w.Errorf("status %+v", s)
		}
		for i := range 3 {
			claim := must(w.CoreV1().PersistentVolumeClaims("default").Get(context.Background(), fmt.Sprintf("data-db-%d", i), metav1.GetOptions{}))(w)
			if claim.Status.Phase != corev1.ClaimBound {
				w.Errorf("claim %s is %s", claim.Name, claim.Status.Phase)
			}
		}
		w.editSet("db", func(set *appsv1.StatefulSet) { *set.Spec.Replicas = 1 })
		w.wait(0)
		w.wantNames("app=db", "db-0 v1 Ready, db-1 v1 Ready, db-2 v1 Terminating")
		w.wait(time.Second)
		w.wantNames("app=db", "db-0 v1 Ready, db-1 v1 Terminating")
		w.wait(2 * time.Second)
		w.wantNames("app=db", "db-0 v1 Ready")
	})
}

// The server accepts negative numbers without Options.Strict.
func TestNegativeReplicasCountAsZero(t *testing.T) {
	inWorld(t, workloads.Options{}, func(w *world) {
		limit := int32(-1)
		d, set := newDeployment("web", 1), newStatefulSet("db", 1)
		d.Spec.RevisionHistoryLimit, set.Spec.RevisionHistoryLimit = &limit, &limit
		w.create(d, set)
		w.wait(10 * time.Second)
		w.edit("web", func(d *appsv1.Deployment) { *d.Spec.Replicas = -1 })
		w.editSet("db", func(set *appsv1.StatefulSet) { *set.Spec.Replicas = -1 })
		w.wait(10 * time.Second)
		w.wantNames("", "")
		if s := w.deployment("web").Status; s.Replicas != 0 || s.ObservedGeneration != 2 || s.UnavailableReplicas != 0 {
			w.Errorf("status %+v", s)
		}
		if s := w.statefulSet("db").Status; s.Replicas != 0 || s.ObservedGeneration != 2 {
			w.Errorf("status %+v", s)
		}
		version := w.server.Version()
		w.wait(time.Hour)
		if now := w.server.Version(); now != version {
			w.Errorf("%d writes in an hour", now-version)
		}
	})
}

func TestAParallelStatefulSetStartsAtOnce(t *testing.T) {
	inWorld(t, workloads.Options{}, func(w *world) {
		set := newStatefulSet("db", 3)
		set.Spec.PodManagementPolicy = appsv1.ParallelPodManagement
		w.create(set)
		w.wait(0)
		w.wantNames("app=db", "db-0 v1 ContainerCreating, db-1 v1 ContainerCreating, db-2 v1 ContainerCreating")
		w.editSet("db", func(set *appsv1.StatefulSet) { *set.Spec.Replicas = 0 })
		w.wait(2 * time.Second)
		w.wantNames("app=db", "")
	})
}

func TestAStatefulSetRollsFromTheLastToThePartition(t *testing.T) {
	inWorld(t, workloads.Options{}, func(w *world) {
		w.create(newStatefulSet("db", 3))
		w.wait(10 * time.Second)
		first := w.statefulSet("db").Status.CurrentRevision
		partition := int32(2)
		w.editSet("db", func(set *appsv1.StatefulSet) {
			set.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{Partition: &partition}
			set.Spec.Template.Spec.Containers[0].Image = "v2"
		})
		w.wait(10 * time.Second)
		w.wantNames("app=db", "db-0 v1 Ready, db-1 v1 Ready, db-2 v2 Ready")
		if s := w.statefulSet("db").Status; s.UpdatedReplicas != 1 || s.CurrentReplicas != 2 || s.CurrentRevision != first || s.UpdateRevision == first {
			w.Errorf("status %+v", s)
		}
		// A pod below the partition comes back with the template that it had.
		if err := w.CoreV1().Pods("default").Delete(context.Background(), "db-0", metav1.DeleteOptions{}); err != nil {
			w.Fatal(err)
		}
		w.wait(10 * time.Second)
		w.wantNames("app=db", "db-0 v1 Ready, db-1 v1 Ready, db-2 v2 Ready")
		partition = 0
		w.editSet("db", func(set *appsv1.StatefulSet) { set.Spec.UpdateStrategy.RollingUpdate.Partition = &partition })
		w.wait(0)
		w.wantNames("app=db", "db-0 v1 Ready, db-1 v1 Terminating, db-2 v2 Ready")
		w.wait(10 * time.Second)
		w.wantNames("app=db", "db-0 v2 Ready, db-1 v2 Ready, db-2 v2 Ready")
		if s := w.statefulSet("db").Status; s.UpdatedReplicas != 3 || s.CurrentRevision != s.UpdateRevision {
			w.Errorf("status %+v", s)
		}
		if n := len(must(w.AppsV1().ControllerRevisions("default").List(context.Background(), metav1.ListOptions{}))(w).Items); n != 2 {
			w.Errorf("%d revisions", n)
		}
	})
}

func TestADaemonSetHasOnePodOnEachNodeThatSuits(t *testing.T) {
	inWorld(t, workloads.Options{Nodes: 3}, func(w *world) {
		set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "agent"}, Spec: appsv1.DaemonSetSpec{
			Selector: selector("agent"), Template: template("agent", "v1"),
		}}
		w.create(set)
		w.wait(5 * time.Second)
		w.want("app=agent", "3 v1 Ready")
		get := func() *appsv1.DaemonSet {
			return must(w.AppsV1().DaemonSets("default").Get(context.Background(), "agent", metav1.GetOptions{}))(w)
		}
		if s := get().Status; s.DesiredNumberScheduled != 3 || s.NumberReady != 3 || s.NumberAvailable != 3 || s.UpdatedNumberScheduled != 3 || s.NumberUnavailable != 0 {
			w.Errorf("status %+v", s)
		}
		w.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "tainted"}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "a", Effect: corev1.TaintEffectNoSchedule}}}},
			&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "another"}})
		w.wait(5 * time.Second)
		w.want("app=agent", "4 v1 Ready")
		changed := get()
		changed.Spec.Template.Spec.Containers[0].Image = "v2"
		must(w.AppsV1().DaemonSets("default").Update(context.Background(), changed, metav1.UpdateOptions{}))(w)
		for range 4 {
			w.wait(time.Second)
			if s := get().Status; s.NumberAvailable < 3 {
				w.Errorf("status %+v", s)
			}
		}
		w.wait(10 * time.Second)
		w.want("app=agent", "4 v2 Ready")
		// A lost node keeps its pod.
		w.inject(workloads.Failure{Kind: workloads.NodeLost, Node: "another"})
		w.wait(time.Hour)
		w.want("app=agent", "1 v2 Running, 3 v2 Ready")
	})
}
