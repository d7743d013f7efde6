package controllerruntime

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/tarnproject/tarn"
)

// mirrorCache is a cache.Cache on the mirrors of a cluster.
type mirrorCache struct {
	cluster  *tarn.Cluster
	config   *rest.Config
	opts     cache.Options
	settings *settings
	log      logr.Logger
	started  chan struct{} // closed by Start

	making sync.Mutex // held while a view is made or removed; mu may be taken inside it
	bases  map[baseKey]*base

	mu    sync.RWMutex // guards all below
	ran   bool
	views map[viewKey]*view
	// written are the kinds to which the program writes with the client of NewClient.
	written map[schema.GroupVersionKind]bool
}

// representation is the Go type of the objects of a view.
type representation uint8

const (
	typed representation = iota
	tree                 // unstructured.Unstructured
	partialMetadata
)

// viewKey identifies a view.
type viewKey struct {
	gvk schema.GroupVersionKind
	as  representation
}

// newCache implements [NewCache].
func (o Options) newCache(config *rest.Config, opts cache.Options) (cache.Cache, error) {
	if opts.NewInformer != nil {
		// The program brings informers of its own, and with them what holds the objects.
		return cache.New(config, opts)
	}
	config = rest.CopyConfig(config)
	if config.UserAgent == "" {
		config.UserAgent = rest.DefaultKubernetesUserAgent()
	}
	var err error
	if opts.HTTPClient == nil {
		if opts.HTTPClient, err = rest.HTTPClientFor(config); err != nil {
			return nil, fmt.Errorf("could not create HTTP client from config: %w", err)
		}
	}
	if opts.Scheme == nil {
		opts.Scheme = scheme.Scheme
	}
	if opts.Mapper == nil {
		if opts.Mapper, err = apiutil.NewDynamicRESTMapper(config, opts.HTTPClient); err != nil {
			return nil, fmt.Errorf("could not create RESTMapper from config: %w", err)
		}
	}
	c := &mirrorCache{
		config: config, opts: opts, log: log.Log.WithName("cache"), started: make(chan struct{}),
		bases: map[baseKey]*base{}, views: map[viewKey]*view{}, written: map[schema.GroupVersionKind]bool{},
	}
	if c.settings, err = newSettings(o, opts); err != nil {
		return nil, err
	}
	if c.cluster, err = c.connect(o.Connect); err != nil {
		return nil, err
	}
	return c, nil
}

// connect returns a cluster that sends its requests with the HTTP client of the options.
func (c *mirrorCache) connect(options []tarn.ConnectOption) (*tarn.Cluster, error) {
	transport, err := over(c.config, c.opts.HTTPClient)
	if err != nil {
		return nil, err
	}
	own := []tarn.ConnectOption{
		tarn.WithConfig(transport),
		tarn.WithLogger(slog.New(logr.ToSlogHandler(c.log))),
	}
	if handler := c.opts.DefaultWatchErrorHandler; handler != nil {
		own = append(own, tarn.WithWatchErrors(func(mirror string, err error) {
			// The reflector is what client-go's own handlers take the name of the resource from.
			r := toolscache.NewReflectorWithOptions(&toolscache.ListWatch{}, nil, nil, toolscache.ReflectorOptions{Name: mirror, TypeDescription: mirror})
			handler(logr.NewContext(context.Background(), c.log), r, err)
		}))
	}
	return tarn.Connect(append(own, options...)...)
}

// over returns a configuration for the same server whose requests an HTTP client sends, with its
// credentials.
func over(config *rest.Config, client *http.Client) (*rest.Config, error) {
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, err
	}
	return &rest.Config{
		Host: base.String(), Transport: client.Transport, Timeout: client.Timeout,
		UserAgent: config.UserAgent, DisableCompression: config.DisableCompression,
		QPS: config.QPS, Burst: config.Burst, RateLimiter: config.RateLimiter,
		WarningHandler: config.WarningHandler, WarningHandlerWithContext: config.WarningHandlerWithContext,
	}, nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: the cache runs before this process leads.
func (c *mirrorCache) NeedLeaderElection() bool { return false }

// Start implements cache.Informers.
func (c *mirrorCache) Start(ctx context.Context) error {
	c.mu.Lock()
	ran := c.ran
	c.ran = true
	c.mu.Unlock()
	if ran {
		return errors.New("informer already started")
	}
	close(c.started)
	return c.cluster.Run(ctx)
}

func (c *mirrorCache) isStarted() bool { return isClosed(c.started) }

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// WaitForCacheSync implements cache.Informers. It logs what it waits for.
func (c *mirrorCache) WaitForCacheSync(ctx context.Context) bool {
	select {
	case <-c.started:
	case <-ctx.Done():
		return false
	}
	if err := c.patiently(ctx, c.cluster.WaitSynced); err != nil {
		c.log.Error(err, "The cache has not synced")
		return false
	}
	return true
}

// patience is how often a wait for a mirror logs what it waits for.
const patience = 10 * time.Second

// patiently calls wait, and logs why that takes long.
func (c *mirrorCache) patiently(ctx context.Context, wait func(context.Context) error) error {
	for {
		some, cancel := context.WithTimeout(ctx, patience)
		err := wait(some)
		cancel()
		if err == nil || ctx.Err() != nil || some.Err() == nil {
			return err
		}
		c.log.Info("Waiting for the cache", "cause", err.Error())
	}
}

// RemoveInformer implements cache.Informers. The mirrors of the view stop, unless another view shares them.
func (c *mirrorCache) RemoveInformer(_ context.Context, obj client.Object) error {
	key, err := c.keyOf(obj)
	if err != nil {
		return err
	}
	c.making.Lock()
	defer c.making.Unlock()
	c.mu.Lock()
	v := c.views[key]
	delete(c.views, key)
	c.mu.Unlock()
	if v != nil {
		v.close()
	}
	return nil
}

// GetInformer implements cache.Informers.
func (c *mirrorCache) GetInformer(ctx context.Context, obj client.Object, opts ...cache.InformerGetOption) (cache.Informer, error) {
	key, err := c.keyOf(obj)
	if err != nil {
		return nil, err
	}
	return c.informer(ctx, key, opts)
}

// GetInformerForKind implements cache.Informers.
func (c *mirrorCache) GetInformerForKind(ctx context.Context, gvk schema.GroupVersionKind, opts ...cache.InformerGetOption) (cache.Informer, error) {
	if _, err := c.opts.Scheme.New(gvk); err != nil {
		return nil, err
	}
	return c.informer(ctx, viewKey{gvk, typed}, opts)
}

func (c *mirrorCache) informer(ctx context.Context, key viewKey, opts []cache.InformerGetOption) (cache.Informer, error) {
	options := cache.InformerGetOptions{}
	for _, opt := range opts {
		opt(&options)
	}
	v, made, err := c.view(key)
	if err != nil {
		return nil, err
	}
	if options.BlockUntilSynced == nil || *options.BlockUntilSynced {
		if err := v.ready(ctx, made); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// IndexField implements client.FieldIndexer.
func (c *mirrorCache) IndexField(_ context.Context, obj client.Object, field string, extract client.IndexerFunc) error {
	key, err := c.keyOf(obj)
	if err != nil {
		return err
	}
	v, _, err := c.view(key)
	if err != nil {
		return err
	}
	return v.AddIndexers(toolscache.Indexers{fieldIndex(field): func(obj any) ([]string, error) {
		of := obj.(client.Object)
		values := extract(of)
		keys := make([]string, 0, 2*len(values))
		for _, value := range values {
			keys = append(keys, fieldValue("", value))
			if ns := of.GetNamespace(); ns != "" {
				keys = append(keys, fieldValue(ns, value))
			}
		}
		return keys, nil
	}})
}

// fieldIndex and fieldValue are the names and the values of the indexes of controller-runtime, so that
// indexes of Informer.AddIndexers work as there.
func fieldIndex(field string) string { return "field:" + field }

func fieldValue(namespace, value string) string {
	if namespace == "" {
		namespace = "__all_namespaces"
	}
	return namespace + "/" + value
}

// keyOf returns the key of the view for an object or a list.
func (c *mirrorCache) keyOf(obj runtime.Object) (viewKey, error) {
	gvk, err := apiutil.GVKForObject(obj, c.opts.Scheme)
	if err != nil {
		return viewKey{}, err
	}
	if _, isList := obj.(client.ObjectList); isList {
		gvk.Kind = strings.TrimSuffix(gvk.Kind, "List")
	}
	switch obj.(type) {
	case runtime.Unstructured:
		return viewKey{gvk, tree}, nil
	case *metav1.PartialObjectMetadata, *metav1.PartialObjectMetadataList:
		return viewKey{gvk, partialMetadata}, nil
	}
	return viewKey{gvk, typed}, nil
}

// existing returns a view if there is one.
func (c *mirrorCache) existing(key viewKey) *view {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.views[key]
}

// view returns a view, which it makes if there is none.
func (c *mirrorCache) view(key viewKey) (v *view, made bool, err error) {
	if v = c.existing(key); v != nil {
		return v, false, nil
	}
	c.making.Lock()
	defer c.making.Unlock()
	if v = c.existing(key); v != nil {
		return v, false, nil
	}
	if v, err = c.newView(key); err != nil {
		return nil, false, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.views[key] = v
	return v, true, nil
}

// noteWritten records that the program has written objects of a kind.
func (c *mirrorCache) noteWritten(gvk schema.GroupVersionKind) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.written[gvk] = true
}

func (c *mirrorCache) wasWritten(gvk schema.GroupVersionKind) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.written[gvk]
}

// viewsOf returns the views of a kind.
func (c *mirrorCache) viewsOf(gvk schema.GroupVersionKind) (views []*view) {
	for as := range partialMetadata + 1 {
		if v := c.existing(viewKey{gvk, as}); v != nil {
			views = append(views, v)
		}
	}
	return views
}

// reader returns the view to read from, once it is synced.
func (c *mirrorCache) reader(ctx context.Context, obj runtime.Object) (v *view, err error) {
	key, err := c.keyOf(obj)
	if err != nil {
		return nil, err
	}
	made := false
	if v = c.existing(key); v == nil {
		if c.opts.ReaderFailOnMissingInformer {
			return nil, &cache.ErrResourceNotCached{GVK: key.gvk}
		}
		if v, made, err = c.view(key); err != nil {
			return nil, err
		}
	}
	if !c.isStarted() {
		return nil, &cache.ErrCacheNotStarted{}
	}
	return v, v.ready(ctx, made)
}

// ready waits until the view is synced, if the cache has been started. A caller that made the view and whose
// context is done gets an error in any case, as in controller-runtime, where no list is that fast.
func (v *view) ready(ctx context.Context, made bool) error {
	if !v.cache.isStarted() || v.HasSynced() && (!made || ctx.Err() == nil) {
		return nil
	}
	err := v.cache.patiently(ctx, func(ctx context.Context) error {
		for _, p := range v.parts {
			if err := p.mirror.WaitSynced(ctx); err != nil {
				return err
			}
		}
		return nil
	})
	if made && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		timeout := apierrors.NewTimeoutError(fmt.Sprintf("failed waiting for the informer of %s to sync: %v", v.key.gvk, err), 0)
		return &notSyncedError{timeout, err}
	}
	return nil
}

// notSyncedError is the timeout that controller-runtime returns, with the causes.
type notSyncedError struct {
	*apierrors.StatusError
	cause error
}

// Unwrap returns the timeout and why the view has not synced.
func (e *notSyncedError) Unwrap() []error { return []error{e.StatusError, e.cause} }

// example returns an empty object of a view.
func (c *mirrorCache) example(key viewKey) (tarn.Object, error) {
	switch key.as {
	case tree:
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(key.gvk)
		return u, nil
	case partialMetadata:
		return &metav1.PartialObjectMetadata{}, nil
	}
	obj, err := c.opts.Scheme.New(key.gvk)
	if err != nil {
		return nil, err
	}
	o, ok := obj.(tarn.Object)
	if !ok {
		return nil, fmt.Errorf("%T, the type of %s, has no metadata", obj, key.gvk)
	}
	return o, nil
}

// mapping returns the resource of a kind.
func (c *mirrorCache) mapping(gvk schema.GroupVersionKind) (*meta.RESTMapping, error) {
	return c.opts.Mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
}
