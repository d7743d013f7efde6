// Package before is a controller that is written for client-go. It prints the phase of each pod
// that changes, and retries up to five times where the phase is unknown. The function that makes its
// informer is a parameter, so that the same program runs on client-go's informer and on Tarn's.
package before

import (
	"context"
	"fmt"
	"io"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

const maxRetries = 5

type controller struct {
	queue workqueue.TypedRateLimitingInterface[string]
	pods  cache.Store
	out   io.Writer
}

// NewInformer makes an informer: cache.NewInformerWithOptions, or the function of that name in package clientgo.
type NewInformer func(cache.InformerOptions) (cache.Store, cache.Controller)

// Run runs the controller for a namespace until the context is done.
func (newInformer NewInformer) Run(ctx context.Context, config *rest.Config, namespace string, out io.Writer) error {
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	enqueue := func(obj any) {
		if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj); err == nil {
			queue.Add(key)
		}
	}
	pods, informer := newInformer(cache.InformerOptions{
		ListerWatcher: cache.NewListWatchFromClient(clientset.CoreV1().RESTClient(), "pods", namespace, fields.Everything()),
		ObjectType:    &corev1.Pod{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    enqueue,
			UpdateFunc: func(_, obj any) { enqueue(obj) },
			DeleteFunc: enqueue,
		},
	})

	var running sync.WaitGroup
	defer running.Wait()
	defer queue.ShutDown()
	running.Go(func() { informer.RunWithContext(ctx) })
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return nil // the context is done
	}
	c := &controller{queue, pods, out}
	running.Go(func() {
		for c.processNext() {
		}
	})
	<-ctx.Done()
	return nil
}

// processNext processes the next key of the queue. It returns false when the queue is shut down.
func (c *controller) processNext() bool {
	key, shutdown := c.queue.Get()
	if shutdown {
		return false
	}
	defer c.queue.Done(key)
	if err := c.reconcile(key); err != nil && c.queue.NumRequeues(key) < maxRetries {
		c.queue.AddRateLimited(key)
	} else {
		c.queue.Forget(key)
	}
	return true
}

func (c *controller) reconcile(key string) error {
	obj, exists, err := c.pods.GetByKey(key)
	if err != nil {
		return err
	}
	if !exists {
		fmt.Fprintln(c.out, key, "is deleted")
		return nil
	}
	phase := obj.(*corev1.Pod).Status.Phase
	fmt.Fprintln(c.out, key, "is", phase)
	if phase == corev1.PodUnknown {
		return fmt.Errorf("the phase of pod %s is unknown", key)
	}
	return nil
}
