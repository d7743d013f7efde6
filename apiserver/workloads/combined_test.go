package workloads_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/apiserver/workloads"
)

// A rollout with each combination of a lost node, a crash loop and restarts of the workloads
// ends with all pods of the new template, and stays within its limits if the cluster is healthy.
func TestARolloutEndsInSpiteOfFailures(t *testing.T) {
	opts := workloads.Options{Nodes: 3}
	for bits := range 8 {
		lost, crash, restart := bits&1 != 0, bits&2 != 0, bits&4 != 0
		t.Run(fmt.Sprintf("lost=%t crash=%t restart=%t", lost, crash, restart), func(t *testing.T) {
			inWorld(t, opts, func(w *world) {
				w.create(newDeployment("web", 6), newStatefulSet("db", 3), newJob("sum", 4, 2))
				w.wait(20 * time.Second)
				remove := func() {}
				inject := func() {
					var undo []func()
					if lost {
						undo = append(undo, w.inject(workloads.Failure{Kind: workloads.NodeLost, Node: "node-2"}))
					}
					if crash {
						undo = append(undo, w.inject(workloads.Failure{Kind: workloads.Crash, Selector: "app in (web, db)"}))
					}
					remove = func() {
						for _, f := range undo {
							f()
						}
					}
				}
				w.edit("web", func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "v2" })
				w.editSet("db", func(set *appsv1.StatefulSet) { set.Spec.Template.Spec.Containers[0].Image = "v2" })
				w.wait(time.Second / 2)
				inject()
				for range 5 {
					w.wait(90 * time.Second)
					if restart {
						w.stop()
						w.run(opts)
						inject()
					}
				}
				remove()
				w.wait(10 * time.Minute)
				w.want("app=web", "6 v2 Ready")
				w.wantNames("app=db", "db-0 v2 Ready, db-1 v2 Ready, db-2 v2 Ready")
				if reason, _ := progress(w.deployment("web")); reason != "NewReplicaSetAvailable" {
					w.Errorf("progress %s", reason)
				}
				if got := outcome(w.job("sum")); got != "Complete CompletionsReached" {
					w.Errorf("job %s", got)
				}
			})
		})
	}
}

// The stand-ins recover from faults of the server, and do not create too many pods.
func TestWorkloadsRecoverFromFaults(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inWorld(t, workloads.Options{Nodes: 2}, func(w *world) {
				w.server.Random(seed, 0.2)
				w.create(newDeployment("web", 5), newStatefulSet("db", 3), newJob("sum", 3, 3))
				<-time.After(5 * time.Minute)
				w.server.Clear()
				w.wait(5 * time.Minute)
				w.want("app=web", "5 v1 Ready")
				w.wantNames("app=db", "db-0 v1 Ready, db-1 v1 Ready, db-2 v1 Ready")
				if got := outcome(w.job("sum")); got != "Complete CompletionsReached" {
					w.Errorf("job %s", got)
				}
			})
		})
	}
}

// A cache that is behind must not make the stand-ins create pods twice.
func TestAStaleCacheCreatesNoSurplusPods(t *testing.T) {
	inWorld(t, workloads.Options{Nodes: 2}, func(w *world) {
		if _, err := w.server.Inject(apiserver.Fault{Kind: apiserver.StaleCache, Wait: 3 * time.Second}); err != nil {
			w.Fatal(err)
		}
		w.server.Cut("")
		w.wait(10 * time.Second)
		w.create(newDeployment("web", 5), newJob("sum", 3, 3))
		most := 0
		for range 60 {
			w.wait(time.Second)
			most = max(most, len(w.podsOf("app=web")))
		}
		if most != 5 {
			w.Errorf("%d pods at most", most)
		}
		w.want("app=web", "5 v1 Ready")
		if n := len(w.podsOf("app=sum")); n != 3 {
			w.Errorf("%d pods of the job", n)
		}
	})
}

// A stopped controller is not noticed by its objects: what it did stays, and what happened
// meanwhile is done by the next one.
func TestWorkloadsContinueAfterAPause(t *testing.T) {
	inWorld(t, workloads.Options{}, func(w *world) {
		w.create(newDeployment("web", 3), newCronJob("0 * * * *"))
		w.wait(5 * time.Second)
		names := func() (all []string) {
			for _, pod := range w.podsOf("app=web") {
				all = append(all, pod.Name)
			}
			return all
		}
		before := names()
		w.stop()
		w.edit("web", func(d *appsv1.Deployment) { *d.Spec.Replicas = 4 })
		w.wait(3*time.Hour + time.Minute)
		w.run(workloads.Options{})
		w.wait(5 * time.Second)
		w.want("app=web", "4 v1 Ready")
		if after := names(); slices.ContainsFunc(before, func(name string) bool { return !slices.Contains(after, name) }) {
			w.Errorf("pods %v; were %v", after, before)
		}
		if jobs, _ := w.cronJobs(); len(jobs) != 1 { // the last of the missed ones
			w.Errorf("%d jobs", len(jobs))
		}
	})
}
