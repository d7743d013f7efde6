package workloads_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/apiserver/workloads"
)

// world is a server with workloads, in a bubble.
type world struct {
	*testing.T
	server *apiserver.Server
	*workloads.Workloads
	*kubernetes.Clientset
	stop func() // ends the workloads
}

// inWorld runs a test in a bubble with a server and workloads.
func inWorld(t *testing.T, opts workloads.Options, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := apiserver.Start(t, apiserver.Options{CollectGarbage: true, Seed: 1})
		clients, err := kubernetes.NewForConfig(server.MemoryConfig())
		if err != nil {
			t.Fatal(err)
		}
		w := &world{T: t, server: server, Clientset: clients}
		w.run(opts)
		test(w)
	})
}

// run starts workloads, which end with stop or with the test.
func (w *world) run(opts workloads.Options) {
	w.Helper()
	var err error
	if w.Workloads, err = workloads.New(w.server.MemoryConfig(), opts); err != nil {
		w.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	run := w.Workloads.Run
	go func() { ran <- run(ctx) }()
	stopped := false
	w.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ran; err != nil {
			w.Error(err)
		}
	}
	w.Cleanup(w.stop)
	w.wait(0)
}

// wait lets virtual time pass, until everything waits.
func (w *world) wait(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
	// Retries after a conflict or a stale cache take milliseconds.
	<-time.After(100 * time.Millisecond)
	synctest.Wait()
}

func (w *world) create(objs ...runtime.Object) {
	w.Helper()
	for _, obj := range objs {
		if _, err := w.server.Create(obj); err != nil {
			w.Fatal(err)
		}
	}
}

func (w *world) inject(f workloads.Failure) (remove func()) {
	w.Helper()
	remove, err := w.Inject(f)
	if err != nil {
		w.Fatal(err)
	}
	return remove
}

// must returns a result, or fails the test.
func must[T any](obj T, err error) func(w *world) T {
	return func(w *world) T {
		w.Helper()
		if err != nil {
			w.Fatal(err)
		}
		return obj
	}
}

func (w *world) deployment(name string) *appsv1.Deployment {
	w.Helper()
	return must(w.AppsV1().Deployments("default").Get(context.Background(), name, metav1.GetOptions{}))(w)
}

// edit changes a Deployment as a user would.
func (w *world) edit(name string, change func(d *appsv1.Deployment)) {
	w.Helper()
	d := w.deployment(name)
	change(d)
	must(w.AppsV1().Deployments("default").Update(context.Background(), d, metav1.UpdateOptions{}))(w)
}

func (w *world) job(name string) *batchv1.Job {
	w.Helper()
	return must(w.BatchV1().Jobs("default").Get(context.Background(), name, metav1.GetOptions{}))(w)
}

// podsOf returns the pods that match a selector, by name.
func (w *world) podsOf(selector string) []corev1.Pod {
	w.Helper()
	return must(w.CoreV1().Pods("default").List(context.Background(), metav1.ListOptions{LabelSelector: selector}))(w).Items
}

// summary returns what kubectl get pods shows, sorted: the number of pods by image and state.
func (w *world) summary(selector string) string {
	w.Helper()
	counts := map[string]int{}
	for _, pod := range w.podsOf(selector) {
		counts[pod.Spec.Containers[0].Image+" "+stateOf(&pod)]++
	}
	var lines []string
	for what, n := range counts {
		lines = append(lines, fmt.Sprintf("%d %s", n, what))
	}
	slices.Sort(lines)
	return strings.Join(lines, ", ")
}

// stateOf returns the state of a pod in one word.
func stateOf(pod *corev1.Pod) string {
	switch {
	case pod.DeletionTimestamp != nil:
		return "Terminating"
	case isReady(pod):
		return "Ready"
	}
	for _, c := range pod.Status.ContainerStatuses {
		if c.State.Waiting != nil {
			return c.State.Waiting.Reason
		}
	}
	return string(pod.Status.Phase)
}

func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// want compares the pods with a summary.
func (w *world) want(selector, summary string) {
	w.Helper()
	if got := w.summary(selector); got != summary {
		w.Errorf("pods %s: %s; want %s", selector, got, summary)
	}
}

// progress returns the reason of a Deployment's Progressing condition, and whether it is
// Available.
func progress(d *appsv1.Deployment) (reason string, available corev1.ConditionStatus) {
	for _, c := range d.Status.Conditions {
		switch c.Type {
		case appsv1.DeploymentProgressing:
			reason = c.Reason
		case appsv1.DeploymentAvailable:
			available = c.Status
		}
	}
	return reason, available
}

func template(app, image string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: image}}},
	}
}

func selector(app string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
}

func newDeployment(name string, replicas int32) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       appsv1.DeploymentSpec{Replicas: &replicas, Selector: selector(name), Template: template(name, "v1")},
	}
}
