package clientgo

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/features"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/internal/callsite"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
)

// NewSharedInformer is client-go's constructor of that name.
func NewSharedInformer(lw cache.ListerWatcher, exampleObject runtime.Object, defaultEventHandlerResyncPeriod time.Duration) cache.SharedInformer {
	return NewSharedIndexInformer(lw, exampleObject, defaultEventHandlerResyncPeriod, cache.Indexers{})
}

// NewSharedIndexInformer is client-go's constructor of that name.
func NewSharedIndexInformer(lw cache.ListerWatcher, exampleObject runtime.Object, defaultEventHandlerResyncPeriod time.Duration, indexers cache.Indexers) cache.SharedIndexInformer {
	return NewSharedIndexInformerWithOptions(lw, exampleObject, cache.SharedIndexInformerOptions{
		ResyncPeriod: defaultEventHandlerResyncPeriod, Indexers: indexers,
	})
}

// NewSharedIndexInformerWithOptions is client-go's constructor of that name. If [NewListWatch] made
// lw, the informer reads through Tarn's client; otherwise through lw's List and Watch.
func NewSharedIndexInformerWithOptions(lw cache.ListerWatcher, exampleObject runtime.Object, options cache.SharedIndexInformerOptions) cache.SharedIndexInformer {
	return newInformer(lw, exampleObject, options, minWatchTimeout)
}

// newInformer makes an informer whose watches last at least as long as a timeout says.
func newInformer(lw cache.ListerWatcher, exampleObject runtime.Object, options cache.SharedIndexInformerOptions, timeout time.Duration) *sharedInformer {
	inf := &sharedInformer{
		lw:          lw,
		example:     exampleObject,
		description: options.ObjectDescription,
		detector:    cache.NewCacheMutationDetector(fmt.Sprintf("%T", exampleObject)),
		metrics:     metricsFor(options.Identifier, options.InformerMetricsProvider),
		watched:     make(chan struct{}),
		checkPeriod: options.ResyncPeriod,
		period:      options.ResyncPeriod,
	}
	src := transformed{recordsOf(lw, exampleObject), func() cache.TransformFunc { return inf.transform }, inf.noteWatch}
	refl := reflectorOptions(lw)
	inf.name = callsite.Outside("github.com/tarnproject/tarn/clientgo")
	refl.MinWatchTimeout = timeout
	refl.OnError = func(err error) { inf.report(err) }
	mirror := &mirror{}
	inf.core = must(informer.New(src, boxed, informer.Options[record]{
		Name:         inf.name,
		Verbatim:     true,
		Pending:      math.MaxInt,
		Around:       inf.process,
		OnIndexError: mirror.indexFailed,
		Reflector:    refl,
	}))
	mirror.core, inf.mirror = inf.core, mirror
	if options.Identifier.Reserved() {
		mirror.gauge = cache.NewStore(cache.MetaNamespaceKeyFunc, cache.WithStoreMetrics(options.Identifier, options.InformerMetricsProvider))
	}
	if err := mirror.AddIndexers(options.Indexers); err != nil {
		panic(err) // there were none to be in conflict with
	}
	return inf
}

// must is for constructors whose arguments are constant.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// sharedInformer is a cache.SharedIndexInformer: an informer.Informer that applies every change
// as the source sends it, whose subscribers are client-go's handlers and whose store is read
// through a [mirror].
type sharedInformer struct {
	core        *informer.Informer[record]
	mirror      *mirror
	name        string
	lw          cache.ListerWatcher
	example     runtime.Object
	description string
	detector    cache.MutationDetector
	metrics     *queueMetrics
	watched     chan struct{} // closed when the first watch has been answered, or it has stopped
	watchedOnce sync.Once
	// everySync reports every object that a list or an event has at the version held to all
	// handlers, whether or not they are due for a resync. Written before it runs.
	everySync bool

	mu        sync.Mutex // guards what follows; transform and report do not change once it has started
	started   bool
	transform cache.TransformFunc
	onError   cache.WatchErrorHandlerWithContext
	report    func(error)     // of the reflector's errors
	run       context.Context // of the run, once it has started
	listeners []*listener

	checkPeriod time.Duration // how often to look whether a handler wants a resync
	period      time.Duration // of handlers that do not say
}

func (inf *sharedInformer) SetWatchErrorHandler(handler cache.WatchErrorHandler) error {
	return inf.SetWatchErrorHandlerWithContext(func(_ context.Context, r *cache.Reflector, err error) { handler(r, err) })
}

var errStarted = errors.New("informer has already started")

func (inf *sharedInformer) SetWatchErrorHandlerWithContext(handler cache.WatchErrorHandlerWithContext) error {
	inf.mu.Lock()
	defer inf.mu.Unlock()
	if inf.started {
		return errStarted
	}
	inf.onError = handler
	return nil
}

func (inf *sharedInformer) SetTransform(handler cache.TransformFunc) error {
	inf.mu.Lock()
	defer inf.mu.Unlock()
	if inf.started {
		return errStarted
	}
	inf.transform = handler
	return nil
}

func (inf *sharedInformer) Run(stopCh <-chan struct{}) {
	inf.RunWithContext(wait.ContextForChannel(stopCh))
}

// RunWithContext implements cache.SharedInformer. All goroutines have ended when it
// returns.
func (inf *sharedInformer) RunWithContext(ctx context.Context) {
	defer utilruntime.HandleCrashWithContext(ctx)
	period, ok := inf.start(ctx)
	if !ok {
		klog.FromContext(ctx).Info("Warning: the sharedIndexInformer has started, run more than once is not allowed")
		return
	}
	defer inf.noteWatch()
	var workers, detecting sync.WaitGroup
	stopDetecting := make(chan struct{})
	detecting.Go(func() { inf.detector.Run(stopDetecting) })
	if period > 0 {
		workers.Go(func() { inf.resyncEvery(ctx, period) })
	}
	runUntil(ctx, inf.core.Run)
	workers.Wait()
	close(stopDetecting)
	detecting.Wait()
}

// start returns how often to look for resyncs; ok is false if the informer was started before.
func (inf *sharedInformer) start(ctx context.Context) (period time.Duration, ok bool) {
	inf.mu.Lock()
	defer inf.mu.Unlock()
	if inf.started {
		return 0, false
	}
	inf.started, inf.run = true, ctx
	inf.report = errorHandler(ctx, inf.lw, inf.example, inf.name, inf.description, inf.onError)
	return inf.checkPeriod, true
}

// runUntil runs an informer until the context is done. A source that panics is a
// crash, as in client-go; if the program survives it, nothing more comes.
func runUntil(ctx context.Context, run func(context.Context) error) {
	func() {
		defer utilruntime.HandleCrashWithContext(ctx)
		if thrown := (*object.PanicError)(nil); errors.As(run(ctx), &thrown) {
			panic(thrown.Value)
		}
	}()
	<-ctx.Done()
}

// process has the core apply a batch, and does what client-go does around that.
func (inf *sharedInformer) process(b *object.Batch[record], apply func(*object.Batch[record])) {
	n := 0
	for i := range b.Changes {
		c := &b.Changes[i]
		n++
		switch {
		case c.List != nil:
			for j := range c.List.Items {
				if r := c.List.Items[j].Object; r != nil {
					inf.detector.AddObject(r.obj)
				}
			}
		case c.Kind != object.Deleted && c.Kind != object.Quarantined:
			inf.detector.AddObject(c.Value.Object.obj)
		}
	}
	done := inf.metrics.processing(n)
	apply(b)
	done()
	inf.mirror.applied(inf.run, b)
}

// WatchStarted returns a channel that is closed when the server, or a fake, has accepted or refused
// the first watch, or the informer has stopped. A factory's WaitForCacheSync
// waits for it: a fake client has no history, so what a program deletes between the list and the
// watch would never be reported.
func (inf *sharedInformer) WatchStarted() <-chan struct{} { return inf.watched }
func (inf *sharedInformer) noteWatch()                    { inf.watchedOnce.Do(func() { close(inf.watched) }) }
func (inf *sharedInformer) HasSynced() bool               { return isClosed(inf.core.Synced()) }

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func (inf *sharedInformer) HasSyncedChecker() cache.DoneChecker {
	return done{fmt.Sprintf("SharedIndexInformer %T", inf.example), inf.core.Synced()}
}

// done is a cache.DoneChecker.
type done struct {
	name string
	done <-chan struct{}
}

func (d done) Name() string          { return d.name }
func (d done) Done() <-chan struct{} { return d.done }

func (inf *sharedInformer) LastSyncResourceVersion() string {
	return string(inf.Status().Mark.Version)
}

// Status returns the state of the informer's list and watch.
func (inf *sharedInformer) Status() reflector.Status  { return inf.core.Sources()[0].Reflector }
func (inf *sharedInformer) GetStore() cache.Store     { return inf.mirror }
func (inf *sharedInformer) GetIndexer() cache.Indexer { return inf.mirror }

func (inf *sharedInformer) AddIndexers(indexers cache.Indexers) error {
	if inf.IsStopped() {
		return errors.New("indexer was not added because it has stopped already")
	}
	return inf.mirror.AddIndexers(indexers)
}

func (inf *sharedInformer) IsStopped() bool {
	inf.mu.Lock()
	defer inf.mu.Unlock()
	// The core also stops when the source panics.
	return isClosed(inf.core.Stopped()) && inf.run.Err() != nil
}

// GetController implements cache.SharedInformer. As in client-go, the Run methods of the result do
// nothing.
func (inf *sharedInformer) GetController() cache.Controller { return controller{inf} }

type controller struct{ inf *sharedInformer }

// Run implements cache.Controller and does nothing.
func (c controller) Run(<-chan struct{}) {}

// RunWithContext implements cache.Controller and does nothing.
func (c controller) RunWithContext(context.Context)      {}
func (c controller) HasSynced() bool                     { return c.inf.HasSynced() }
func (c controller) HasSyncedChecker() cache.DoneChecker { return c.inf.HasSyncedChecker() }

func (c controller) LastSyncResourceVersion() string {
	if !features.FeatureGates().Enabled(features.InformerResourceVersion) {
		return ""
	}
	return c.inf.LastSyncResourceVersion()
}
