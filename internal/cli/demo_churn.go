package cli

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/object"
)

// demoChurn keeps a generated cluster changing as users, controllers and kubelets would: it
// scales deployments and creates, starts, crashes and deletes pods. It writes through Go
// calls, so that faults affect only the watchers.
type demoChurn struct {
	*demoCluster
	rate float64 // writes per second
	busy []*demoApp
	// writes counts the writes. Other goroutines may read it.
	writes atomic.Int64
}

func newDemoChurn(c *demoCluster, rate float64) *demoChurn {
	return &demoChurn{demoCluster: c, rate: rate}
}

// run makes changes until ctx ends. A nil churn only waits.
func (c *demoChurn) run(ctx context.Context) error {
	if c == nil || c.rate <= 0 || len(c.apps) == 0 {
		<-ctx.Done()
		return nil
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	last, due := time.Now(), 0.0
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-tick.C:
			// Skip what a slow machine cannot do within a second instead of accumulating
			// it.
			due = min(due+c.rate*now.Sub(last).Seconds(), max(c.rate, 1))
			last = now
		}
		for due >= 1 && ctx.Err() == nil && len(c.apps) > 0 {
			n, err := c.step()
			if err != nil {
				return fmt.Errorf("changing the generated cluster: %w", err)
			}
			c.writes.Add(int64(n))
			due -= float64(max(n, 1))
		}
	}
}

// step performs the next change and returns its number of writes.
func (c *demoChurn) step() (writes int, err error) {
	app := c.apps[c.rand.IntN(len(c.apps))]
	if len(c.busy) > 0 && c.rand.IntN(4) > 0 {
		app = c.busy[c.rand.IntN(len(c.busy))]
	}
	writes, err = c.advance(app)
	switch {
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return writes, nil // conflict with another writer; retried later
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		// The app or its namespace was deleted.
		c.apps, c.busy = without(c.apps, app), without(c.busy, app)
		return writes, nil
	}
	return writes, err
}

func without[T comparable](list []T, item T) []T {
	if i := slices.Index(list, item); i >= 0 {
		return slices.Delete(list, i, i+1)
	}
	return list
}

// advance moves an app one step towards the state its deployment asks for, or disturbs it
// if it is there already.
func (c *demoChurn) advance(app *demoApp) (int, error) {
	deployment, err := fetch[*appsv1.Deployment](c.server, appsv1.SchemeGroupVersion.WithResource("deployments"), app.Key)
	if err != nil {
		return 0, err
	}
	wanted := 1
	if deployment.Spec.Replicas != nil {
		wanted = int(*deployment.Spec.Replicas)
	}
	ready := int32(len(app.pods) - len(app.starting))
	switch {
	case len(app.pods) < wanted:
		return c.start(app)
	case len(app.pods) > wanted:
		return c.stop(app, app.pods[len(app.pods)-1])
	case len(app.starting) > 0:
		return c.started(app)
	case deployment.Status.ReadyReplicas != ready:
		return c.report(app, deployment, ready)
	}
	c.busy = without(c.busy, app)
	return c.disturb(app, deployment)
}

func (c *demoChurn) attend(app *demoApp) {
	if !slices.Contains(c.busy, app) {
		c.busy = append(c.busy, app)
	}
}

func (c *demoChurn) start(app *demoApp) (int, error) {
	pod, err := c.newPod(app)
	if err != nil {
		return 0, err
	}
	if _, err := c.server.Create(pod); err != nil {
		return 0, err
	}
	app.pods, app.starting = append(app.pods, pod.Name), append(app.starting, pod.Name)
	c.attend(app)
	return 1, nil
}

// stop deletes a pod. Another client may have deleted it already.
func (c *demoChurn) stop(app *demoApp, name string) (int, error) {
	app.pods, app.starting = without(app.pods, name), without(app.starting, name)
	c.attend(app)
	err := c.server.Delete(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: name}})
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	return 1, err
}

// change updates a pod, or forgets it if it no longer exists.
func (c *demoChurn) change(app *demoApp, name string, f func(*corev1.Pod)) (int, error) {
	pod, err := fetch[*corev1.Pod](c.server, corev1.SchemeGroupVersion.WithResource("pods"), object.Key{Namespace: app.Namespace, Name: name})
	if apierrors.IsNotFound(err) {
		app.pods, app.starting = without(app.pods, name), without(app.starting, name)
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	f(pod)
	_, err = c.server.Update(pod)
	return 1, err
}

func (c *demoChurn) started(app *demoApp) (int, error) {
	name := app.starting[0]
	app.starting = app.starting[1:]
	return c.change(app, name, c.running)
}

// report updates the status of the deployment and its replica set.
func (c *demoChurn) report(app *demoApp, d *appsv1.Deployment, ready int32) (int, error) {
	n := int32(len(app.pods))
	d.Status = appsv1.DeploymentStatus{Replicas: n, UpdatedReplicas: n, ReadyReplicas: ready, AvailableReplicas: ready, ObservedGeneration: d.Generation}
	if _, err := c.server.Update(d); err != nil {
		return 0, err
	}
	set, err := fetch[*appsv1.ReplicaSet](c.server, appsv1.SchemeGroupVersion.WithResource("replicasets"), object.Key{Namespace: app.Namespace, Name: app.replicaSet})
	if err != nil {
		return 1, err
	}
	set.Spec.Replicas = &n
	set.Status = appsv1.ReplicaSetStatus{Replicas: n, ReadyReplicas: ready, AvailableReplicas: ready, ObservedGeneration: set.Generation}
	_, err = c.server.Update(set)
	return 2, err
}

// disturb makes a random change to an app that is in its desired state.
func (c *demoChurn) disturb(app *demoApp, d *appsv1.Deployment) (int, error) {
	switch dice := c.rand.IntN(20); {
	case dice < 4:
		replicas := int32(1 + c.rand.IntN(10))
		d.Spec.Replicas = &replicas
		c.attend(app)
		_, err := c.server.Update(d)
		return 1, err
	case dice < 7 && len(app.pods) > 0:
		return c.stop(app, app.pods[c.rand.IntN(len(app.pods))])
	case dice < 16 && len(app.pods) > 0:
		return c.change(app, app.pods[c.rand.IntN(len(app.pods))], c.crashOrRecover)
	case dice < 18:
		config, err := fetch[*corev1.ConfigMap](c.server, corev1.SchemeGroupVersion.WithResource("configmaps"), app.Key)
		if err != nil {
			return 0, err
		}
		if config.Data == nil {
			config.Data = map[string]string{}
		}
		config.Data["workers"] = fmt.Sprint(1 + c.rand.IntN(16))
		_, err = c.server.Update(config)
		return 1, err
	}
	node, err := fetch[*corev1.Node](c.server, corev1.SchemeGroupVersion.WithResource("nodes"), object.Key{Name: c.nodes[c.rand.IntN(len(c.nodes))]})
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	for i := range node.Status.Conditions {
		node.Status.Conditions[i].LastHeartbeatTime = metav1.Now()
	}
	_, err = c.server.Update(node)
	return 1, err
}

func (c *demoChurn) crashOrRecover(pod *corev1.Pod) {
	if len(pod.Status.ContainerStatuses) == 0 || !pod.Status.ContainerStatuses[0].Ready {
		c.running(pod)
		return
	}
	status := &pod.Status.ContainerStatuses[0]
	status.Ready = false
	status.RestartCount++
	status.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off 10s restarting failed container"}}
	for i := range pod.Status.Conditions {
		pod.Status.Conditions[i].Status = corev1.ConditionFalse
	}
}

// fetch returns a copy of an object on the server.
func fetch[T runtime.Object](server *apiserver.Server, resource schema.GroupVersionResource, key object.Key) (obj T, err error) {
	stored, err := server.Get(resource, key)
	if err != nil {
		return obj, err
	}
	obj, ok := stored.DeepCopyObject().(T)
	if !ok {
		return obj, fmt.Errorf("%s %s is a %T", resource.Resource, key, stored)
	}
	return obj, nil
}
