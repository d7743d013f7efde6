package factory_test

import (
	"context"
	"fmt"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/runtime"
	appsinformers "k8s.io/client-go/informers/apps/v1"
	"k8s.io/client-go/kubernetes"
	appslisters "k8s.io/client-go/listers/apps/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// fooController keeps a Deployment for each Foo, in the way of sample-controller: two
// informers, their listers, a queue, and workers. It has no line that is Tarn's.
type fooController struct {
	kube              kubernetes.Interface
	sample            sampleClientset
	deploymentsLister appslisters.DeploymentLister
	foosLister        fooLister
	synced            []cache.InformerSynced
	queue             workqueue.TypedRateLimitingInterface[cache.ObjectName]
}

func newFooController(kube kubernetes.Interface, sample sampleClientset, deployments appsinformers.DeploymentInformer, foos *fooInformer,
	queue workqueue.TypedRateLimitingInterface[cache.ObjectName]) (*fooController, error) {
	c := &fooController{
		kube: kube, sample: sample, queue: queue,
		deploymentsLister: deployments.Lister(), foosLister: foos.Lister(),
		synced: []cache.InformerSynced{deployments.Informer().HasSynced, foos.Informer().HasSynced},
	}
	_, err := foos.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    c.enqueueFoo,
		UpdateFunc: func(_, obj any) { c.enqueueFoo(obj) },
	})
	if err != nil {
		return nil, err
	}
	_, err = deployments.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: c.handleObject,
		UpdateFunc: func(before, after any) {
			if before.(*appsv1.Deployment).ResourceVersion != after.(*appsv1.Deployment).ResourceVersion {
				c.handleObject(after)
			}
		},
		DeleteFunc: c.handleObject,
	})
	return c, err
}

func (c *fooController) enqueueFoo(obj any) {
	name, err := cache.ObjectToName(obj)
	if err != nil {
		runtime.HandleError(err)
		return
	}
	c.queue.Add(name)
}

// handleObject finds the Foo that a Deployment belongs to, also when it was deleted while
// nobody looked.
func (c *fooController) handleObject(obj any) {
	object, ok := obj.(metav1.Object)
	if !ok {
		tombstone, ok := obj.(cache.DeletedFinalStateUnknown)
		if !ok {
			runtime.HandleError(fmt.Errorf("unexpected object %T", obj))
			return
		}
		if object, ok = tombstone.Obj.(metav1.Object); !ok {
			return
		}
	}
	owner := metav1.GetControllerOf(object)
	if owner == nil || owner.Kind != "Foo" {
		return
	}
	if foo, err := c.foosLister.Foos(object.GetNamespace()).Get(owner.Name); err == nil {
		c.enqueueFoo(foo)
	}
}

func (c *fooController) Run(ctx context.Context, workers int) error {
	defer c.queue.ShutDown()
	if !cache.WaitForCacheSync(ctx.Done(), c.synced...) {
		return fmt.Errorf("failed to wait for caches to sync")
	}
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for c.processNext(ctx) {
			}
		})
	}
	<-ctx.Done()
	c.queue.ShutDown()
	wg.Wait()
	return nil
}

func (c *fooController) processNext(ctx context.Context) bool {
	name, shutdown := c.queue.Get()
	if shutdown {
		return false
	}
	defer c.queue.Done(name)
	if err := c.sync(ctx, name); err != nil {
		c.queue.AddRateLimited(name)
		return true
	}
	c.queue.Forget(name)
	return true
}

func (c *fooController) sync(ctx context.Context, name cache.ObjectName) error {
	foo, err := c.foosLister.Foos(name.Namespace).Get(name.Name)
	if errors.IsNotFound(err) {
		return nil
	} else if err != nil {
		return err
	}
	deployment, err := c.deploymentsLister.Deployments(foo.Namespace).Get(foo.Spec.DeploymentName)
	if errors.IsNotFound(err) {
		deployment, err = c.kube.AppsV1().Deployments(foo.Namespace).Create(ctx, deploymentOf(foo), metav1.CreateOptions{})
	}
	if err != nil {
		return err
	}
	if !metav1.IsControlledBy(deployment, foo) {
		return fmt.Errorf("resource %q is not managed by Foo", deployment.Name)
	}
	if foo.Spec.Replicas != nil && *foo.Spec.Replicas != *deployment.Spec.Replicas {
		deployment, err = c.kube.AppsV1().Deployments(foo.Namespace).Update(ctx, deploymentOf(foo), metav1.UpdateOptions{})
		if err != nil {
			return err
		}
	}
	if foo.Status.AvailableReplicas == deployment.Status.AvailableReplicas {
		return nil
	}
	changed := foo.DeepCopy()
	changed.Status.AvailableReplicas = deployment.Status.AvailableReplicas
	_, err = c.sample.SamplecontrollerV1alpha1().Foos(foo.Namespace).UpdateStatus(ctx, changed, metav1.UpdateOptions{})
	return err
}

func deploymentOf(foo *Foo) *appsv1.Deployment {
	labels := map[string]string{"controller": foo.Name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{
			Name: foo.Spec.DeploymentName, Namespace: foo.Namespace,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(foo, fooKind)},
		},
		Spec: appsv1.DeploymentSpec{
			Replicas: foo.Spec.Replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "nginx", Image: "nginx:latest"}}},
			},
		},
	}
}
