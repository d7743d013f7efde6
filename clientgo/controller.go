package clientgo

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
)

// NewInformer is client-go's constructor of that name; see [NewInformerWithOptions].
func NewInformer(lw cache.ListerWatcher, objType runtime.Object, resyncPeriod time.Duration, h cache.ResourceEventHandler) (cache.Store, cache.Controller) {
	return NewTransformingInformer(lw, objType, resyncPeriod, h, nil)
}

// NewIndexerInformer is client-go's constructor of that name; see [NewInformerWithOptions].
func NewIndexerInformer(lw cache.ListerWatcher, objType runtime.Object, resyncPeriod time.Duration, h cache.ResourceEventHandler, indexers cache.Indexers) (cache.Indexer, cache.Controller) {
	return NewTransformingIndexerInformer(lw, objType, resyncPeriod, h, indexers, nil)
}

// NewTransformingInformer is client-go's constructor of that name; see [NewInformerWithOptions].
func NewTransformingInformer(lw cache.ListerWatcher, objType runtime.Object, resyncPeriod time.Duration, h cache.ResourceEventHandler, transformer cache.TransformFunc) (cache.Store, cache.Controller) {
	return NewTransformingIndexerInformer(lw, objType, resyncPeriod, h, nil, transformer)
}

// NewTransformingIndexerInformer is client-go's constructor of that name; see
// [NewInformerWithOptions].
func NewTransformingIndexerInformer(lw cache.ListerWatcher, objType runtime.Object, resyncPeriod time.Duration, h cache.ResourceEventHandler, indexers cache.Indexers, transformer cache.TransformFunc) (cache.Indexer, cache.Controller) {
	return newController(cache.InformerOptions{
		ListerWatcher: lw, ObjectType: objType, Handler: h, ResyncPeriod: resyncPeriod, Indexers: indexers, Transform: transformer,
	})
}

// NewInformerWithOptions is client-go's constructor of that name: a store and the controller
// that keeps it, with one handler. The handler has a goroutine of its own, so the store may be
// ahead of what the handler was called for. The controller has synced when the handler has been
// called for the initial state.
func NewInformerWithOptions(options cache.InformerOptions) (cache.Store, cache.Controller) {
	return newController(options)
}

func newController(options cache.InformerOptions) (cache.Indexer, cache.Controller) {
	inf := newInformer(options.ListerWatcher, options.ObjectType, cache.SharedIndexInformerOptions{
		ResyncPeriod: options.ResyncPeriod, Indexers: options.Indexers,
		Identifier: options.Identifier, InformerMetricsProvider: options.InformerMetricsProvider,
	}, max(options.MinWatchTimeout, minWatchTimeout))
	inf.transform, inf.everySync = options.Transform, true
	reg := must(inf.AddEventHandlerWithOptions(options.Handler, cache.HandlerOptions{Logger: options.Logger}))
	return inf.mirror, soleController{controller{inf}, reg}
}

// soleController is the cache.Controller of an informer with one handler, which it runs.
type soleController struct {
	controller
	handler cache.ResourceEventHandlerRegistration
}

func (c soleController) Run(stopCh <-chan struct{})          { c.inf.Run(stopCh) }
func (c soleController) RunWithContext(ctx context.Context)  { c.inf.RunWithContext(ctx) }
func (c soleController) HasSynced() bool                     { return c.handler.HasSynced() }
func (c soleController) HasSyncedChecker() cache.DoneChecker { return c.handler.HasSyncedChecker() }
func (c soleController) LastSyncResourceVersion() string     { return c.inf.LastSyncResourceVersion() }
