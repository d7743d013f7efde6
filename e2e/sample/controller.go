package sample

import (
	"context"
	"errors"
	"fmt"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/runtime"
	appsinformers "k8s.io/client-go/informers/apps/v1"
	"k8s.io/client-go/kubernetes"
	appslisters "k8s.io/client-go/listers/apps/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// Ignored is a label; a Foo that has it gets nothing.
const Ignored = "samplecontroller.k8s.io/ignored"

// OwnerIndex is the index of Deployments by the Foo that they belong to.
const OwnerIndex = "foo"

// Controller keeps a Deployment for each [Foo], in the way of sample-controller: two
// informers, their listers, a queue, and workers. It deletes
// the Deployment of a deleted Foo itself, because the servers that it is tested on have no garbage collector.
type Controller struct {
	kube        kubernetes.Interface
	sample      Interface
	deployments appslisters.DeploymentLister
	owned       cache.Indexer
	foos        FooLister
	synced      []cache.InformerSynced
	queue       workqueue.TypedRateLimitingInterface[cache.ObjectName]
}

// NewController returns a controller. The informers are for its caller to start.
func NewController(kube kubernetes.Interface, sample Interface, deployments appsinformers.DeploymentInformer, foos *FooInformer,
	queue workqueue.TypedRateLimitingInterface[cache.ObjectName]) (*Controller, error) {
	if err := deployments.Informer().AddIndexers(cache.Indexers{OwnerIndex: ownerKeys}); err != nil {
		return nil, err
	}
	c := &Controller{
		kube: kube, sample: sample, queue: queue,
		deployments: deployments.Lister(), owned: deployments.Informer().GetIndexer(), foos: foos.Lister(),
		synced: []cache.InformerSynced{deployments.Informer().HasSynced, foos.Informer().HasSynced},
	}
	_, err := foos.Informer().AddEventHandler(cache.FilteringResourceEventHandler{
		FilterFunc: func(obj any) bool {
			foo, ok := alive(obj).(*Foo)
			return ok && foo.Labels[Ignored] == ""
		},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    c.enqueueFoo,
			UpdateFunc: func(_, obj any) { c.enqueueFoo(obj) },
			DeleteFunc: c.enqueueFoo,
		},
	})
	if err != nil {
		return nil, err
	}
	_, err = deployments.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: c.enqueueOwner,
		UpdateFunc: func(before, after any) {
			if before.(*appsv1.Deployment).ResourceVersion != after.(*appsv1.Deployment).ResourceVersion {
				c.enqueueOwner(after)
			}
		},
		DeleteFunc: c.enqueueOwner,
	})
	return c, err
}

// alive returns an object, or the last known state of one whose deletion was not observed.
func alive(obj any) any {
	if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		return tombstone.Obj
	}
	return obj
}

func ownerKeys(obj any) ([]string, error) {
	if name, ok := Owner(obj.(metav1.Object)); ok {
		return []string{name.String()}, nil
	}
	return nil, nil
}

// Owner returns the Foo that an object belongs to.
func Owner(object metav1.Object) (foo cache.ObjectName, ok bool) {
	owner := metav1.GetControllerOf(object)
	if owner == nil || owner.Kind != Kind.Kind {
		return cache.ObjectName{}, false
	}
	return cache.NewObjectName(object.GetNamespace(), owner.Name), true
}

func (c *Controller) enqueueFoo(obj any) {
	name, err := cache.DeletionHandlingObjectToName(obj)
	if err != nil {
		runtime.HandleError(err)
		return
	}
	c.queue.Add(name)
}

func (c *Controller) enqueueOwner(obj any) {
	object, ok := alive(obj).(metav1.Object)
	if !ok {
		runtime.HandleError(fmt.Errorf("unexpected object %T", obj))
		return
	}
	if name, ok := Owner(object); ok {
		c.queue.Add(name)
	}
}

// Run works until the context ends.
func (c *Controller) Run(ctx context.Context, workers int) error {
	defer c.queue.ShutDown()
	if !cache.WaitForCacheSync(ctx.Done(), c.synced...) {
		return errors.New("failed to wait for caches to sync")
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

func (c *Controller) processNext(ctx context.Context) bool {
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

func (c *Controller) sync(ctx context.Context, name cache.ObjectName) error {
	foo, err := c.foos.Foos(name.Namespace).Get(name.Name)
	if apierrors.IsNotFound(err) {
		return c.collect(ctx, name)
	} else if err != nil {
		return err
	}
	deployment, err := c.deployments.Deployments(foo.Namespace).Get(foo.Spec.DeploymentName)
	if apierrors.IsNotFound(err) {
		deployment, err = c.kube.AppsV1().Deployments(foo.Namespace).Create(ctx, DeploymentOf(foo), metav1.CreateOptions{})
	}
	if err != nil {
		return err
	}
	if !metav1.IsControlledBy(deployment, foo) {
		if owner, ok := Owner(deployment); ok && owner == name {
			return c.delete(ctx, deployment) // of an earlier Foo of this name
		}
		return fmt.Errorf("resource %q is not managed by Foo", deployment.Name)
	}
	if foo.Spec.Replicas != nil && *foo.Spec.Replicas != *deployment.Spec.Replicas {
		deployment, err = c.kube.AppsV1().Deployments(foo.Namespace).Update(ctx, DeploymentOf(foo), metav1.UpdateOptions{})
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

// collect deletes what belongs to a deleted Foo. Only the server knows that it is deleted: the
// cache may be behind.
func (c *Controller) collect(ctx context.Context, name cache.ObjectName) error {
	owned, err := c.owned.ByIndex(OwnerIndex, name.String())
	if err != nil || len(owned) == 0 {
		return err
	}
	_, err = c.sample.SamplecontrollerV1alpha1().Foos(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		return err
	}
	for _, obj := range owned {
		if err := c.delete(ctx, obj.(*appsv1.Deployment)); err != nil {
			return err
		}
	}
	return nil
}

func (c *Controller) delete(ctx context.Context, d *appsv1.Deployment) error {
	err := c.kube.AppsV1().Deployments(d.Namespace).Delete(ctx, d.Name, *metav1.NewPreconditionDeleteOptions(string(d.UID)))
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// DeploymentOf returns what a Foo asks for.
func DeploymentOf(foo *Foo) *appsv1.Deployment {
	labels := map[string]string{"controller": foo.Name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{
			Name: foo.Spec.DeploymentName, Namespace: foo.Namespace,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(foo, Kind)},
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
