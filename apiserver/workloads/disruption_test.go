package workloads_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/tarnproject/tarn/apiserver/workloads"
	"github.com/tarnproject/tarn/internal/soak"
)

// budget returns a budget for the pods of an app. One of the limits is "".
func budget(app, least, most string) *policyv1.PodDisruptionBudget {
	pdb := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: app}, Spec: policyv1.PodDisruptionBudgetSpec{Selector: selector(app)}}
	for text, field := range map[string]**intstr.IntOrString{least: &pdb.Spec.MinAvailable, most: &pdb.Spec.MaxUnavailable} {
		if text != "" {
			limit := intstr.Parse(text)
			*field = &limit
		}
	}
	return pdb
}

// wantBudget compares the status of a budget: expected, desired, healthy and allowed pods, and the
// reason of its condition.
func (w *world) wantBudget(name, want string) {
	w.Helper()
	pdb := must(w.PolicyV1().PodDisruptionBudgets("default").Get(context.Background(), name, metav1.GetOptions{}))(w)
	s, reason := pdb.Status, ""
	for _, c := range s.Conditions {
		if c.Type == policyv1.DisruptionAllowedCondition {
			reason = fmt.Sprint(c.Status, c.Reason, c.Message)
		}
	}
	got := fmt.Sprintf("expected %d, desired %d, healthy %d, allowed %d: %s", s.ExpectedPods, s.DesiredHealthy, s.CurrentHealthy, s.DisruptionsAllowed, reason)
	if got != want || s.ObservedGeneration != pdb.Generation {
		w.Errorf("%s: %s; want %s", name, got, want)
	}
}

func TestBudgetsHaveAStatus(t *testing.T) {
	inWorld(t, workloads.Options{}, func(w *world) {
		w.create(newDeployment("web", 5), newStatefulSet("db", 3), newDeployment("none", 0), newJob("sum", 1, 1))
		w.create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "alone", Labels: map[string]string{"app": "alone"}}, Spec: template("", "v1").Spec})
		w.create(budget("web", "", "30%"), budget("db", "2", ""), budget("none", "50%", ""), budget("sum", "", "1"), budget("alone", "", "1"))
		w.wait(20 * time.Second)
		w.wantBudget("web", "expected 5, desired 3, healthy 5, allowed 2: TrueSufficientPods")
		w.wantBudget("db", "expected 3, desired 2, healthy 3, allowed 1: TrueSufficientPods")
		w.wantBudget("none", "expected 0, desired 0, healthy 0, allowed 0: FalseInsufficientPods")
		w.wantBudget("alone", "expected 0, desired 0, healthy 1, allowed 0: FalseInsufficientPods")
		name := w.podsOf("app=sum")[0].Name
		w.wantBudget("sum", fmt.Sprintf("expected 0, desired 0, healthy 0, allowed 0: FalseSyncFailedfound no controllers for pod %q", name))

		remove := w.inject(workloads.Failure{Kind: workloads.Crash, Selector: "app=web"})
		w.wait(10 * time.Second)
		w.wantBudget("web", "expected 5, desired 3, healthy 0, allowed 0: FalseInsufficientPods")
		remove()
		w.wait(10 * time.Minute)
		w.wantBudget("web", "expected 5, desired 3, healthy 5, allowed 2: TrueSufficientPods")

		// An eviction that deleted no pod is forgotten.
		budgets := w.PolicyV1().PodDisruptionBudgets("default")
		pdb := must(budgets.Get(context.Background(), "web", metav1.GetOptions{}))(w)
		pdb.Status.DisruptedPods = map[string]metav1.Time{w.podsOf("app=web")[0].Name: metav1.Now()}
		must(budgets.UpdateStatus(context.Background(), pdb, metav1.UpdateOptions{}))(w)
		w.wait(time.Minute)
		w.wantBudget("web", "expected 5, desired 3, healthy 4, allowed 1: TrueSufficientPods")
		w.wait(2 * time.Minute)
		w.wantBudget("web", "expected 5, desired 3, healthy 5, allowed 2: TrueSufficientPods")
	})
}

// drain evicts the pods of a cordoned node until it has none, with a pause of five seconds after a
// refusal, as kubectl does. It returns how often it was refused.
func (w *world) drain(node string) (refusals int) {
	w.Helper()
	n := must(w.CoreV1().Nodes().Get(context.Background(), node, metav1.GetOptions{}))(w)
	n.Spec.Unschedulable = true
	must(w.CoreV1().Nodes().Update(context.Background(), n, metav1.UpdateOptions{}))(w)
	for began := time.Now(); time.Since(began) < time.Hour; w.wait(5 * time.Second) {
		left := 0
		for _, pod := range w.podsOf("") {
			if pod.Spec.NodeName != node {
				continue
			}
			left++
			eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
			switch err := w.PolicyV1().Evictions(pod.Namespace).Evict(context.Background(), eviction); {
			case apierrors.IsTooManyRequests(err):
				refusals++
			case err != nil && !apierrors.IsNotFound(err):
				w.Fatal(err)
			}
		}
		if left == 0 {
			return refusals
		}
	}
	w.Fatalf("node %s still has %v", node, w.summary(""))
	return 0
}

// kubectl drain ends, and never leaves fewer ready pods than a budget demands.
func TestADrainEndsAndRespectsBudgets(t *testing.T) {
	refusals := 0
	for seed := range uint64(soak.Rounds(20)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 28))
			nodes := 2 + r.IntN(3)
			inWorld(t, workloads.Options{Nodes: nodes, StartLatency: time.Duration(1+r.IntN(20)) * time.Second, StopLatency: time.Duration(1+r.IntN(20)) * time.Second}, func(w *world) {
				size := int32(2 + r.IntN(7))
				limit := []struct {
					least, most string
					desired     int32
				}{
					{"", "1", size - 1}, {"", "40%", size - (4*size+9)/10}, {fmt.Sprint(size - 1), "", size - 1}, {"50%", "", (size + 1) / 2},
				}[r.IntN(4)]
				pdb := budget("web", limit.least, limit.most)
				if r.IntN(2) == 0 {
					w.create(newDeployment("web", size), pdb)
				} else {
					w.create(newStatefulSet("web", size), pdb)
				}
				w.wait(10 * time.Minute)
				least, done := size, make(chan struct{})
				stop := make(chan struct{})
				go func() {
					defer close(done)
					for tick := time.NewTicker(500 * time.Millisecond); ; {
						select {
						case <-tick.C:
						case <-stop:
							tick.Stop()
							return
						}
						ready := int32(0)
						for _, pod := range w.podsOf("app=web") {
							if pod.DeletionTimestamp == nil && isReady(&pod) {
								ready++
							}
						}
						least = min(least, ready)
					}
				}()
				for node := 1; node < nodes; node++ {
					refusals += w.drain(fmt.Sprintf("node-%d", node))
				}
				close(stop)
				<-done
				if least < limit.desired {
					w.Errorf("%d pods were ready at one time; the budget %v of %d demands %d", least, limit, size, limit.desired)
				}
				w.wait(10 * time.Minute)
				if ready := w.summary("app=web"); ready != fmt.Sprintf("%d v1 Ready", size) {
					w.Errorf("pods %s", ready)
				}
			})
		})
	}
	if refusals == 0 {
		t.Error("no eviction was refused")
	}
}
