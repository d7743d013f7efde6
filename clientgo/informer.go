package clientgo

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/features"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

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

// NewSharedIndexInformerWithOptions is client-go's constructor of that name. A lw that
// [NewListWatch] made is read by way of the wire; any other by its own List and Watch.
func NewSharedIndexInformerWithOptions(lw cache.ListerWatcher, exampleObject runtime.Object, options cache.SharedIndexInformerOptions) cache.SharedIndexInformer {
	return NewSharedIndexInformerWithBehaviour(lw, exampleObject, options, Behaviour{})
}

// Behaviour is what an informer does better than client-go's, and therefore differently.
// The zero Behaviour is client-go's.
type Behaviour struct {
	// SplitLives tells handlers of an object with a new UID under an old name as what it
	// is, a deletion and an addition. Defaults to one Update.
	SplitLives bool
	// OnlyChanges tells handlers nothing of an object that a list, or an event, has at the
	// UID and version that is held already. Defaults to an Update.
	OnlyChanges bool
	// SurvivePanics has a handler that panics lose that one event and go on at once, and
	// its registration become synced all the same. The panic goes to apimachinery's panic
	// handlers, which log it. Defaults to client-go's way: the program ends, unless
	// runtime.ReallyCrash is off, and then the handler pauses for a second.
	SurvivePanics bool
	// FoldBacklog bounds what is queued for a handler that does not keep up by the number
	// of objects, instead of by that of changes, which is not bounded. Of what it has not
	// been told yet it is told the outcome: several updates are one, from the first old to
	// the last new; an update of an addition is an addition; what came and went is nothing;
	// and what went and came again is both, or an update if the UID is the same.
	// A handler that keeps up is told each change as before, but for those of one object
	// that the server sent at once. Defaults to every change, one by one.
	FoldBacklog bool
	// ShareParts has the objects that come by way of the wire share the parts that are
	// encoded alike, such as the containers of the pods of one template, which saves most
	// of their memory and of the time to decode them. A handler or reader that writes to an
	// object, or to a shallow copy of one, then changes other objects too; only a
	// DeepCopy may be written to. A transform gets objects that share nothing all the
	// same. Defaults to false: as in client-go, no object shares a part with another.
	ShareParts bool
}

// NewSharedIndexInformer is the function of that name with this behaviour, for whoever
// wants such a function, as controller-runtime's cache.Options does.
func (b Behaviour) NewSharedIndexInformer(lw cache.ListerWatcher, exampleObject runtime.Object, defaultEventHandlerResyncPeriod time.Duration, indexers cache.Indexers) cache.SharedIndexInformer {
	return NewSharedIndexInformerWithBehaviour(lw, exampleObject, cache.SharedIndexInformerOptions{
		ResyncPeriod: defaultEventHandlerResyncPeriod, Indexers: indexers,
	}, b)
}

// NewSharedIndexInformerWithBehaviour is [NewSharedIndexInformerWithOptions] with some of
// client-go's behaviour improved.
func NewSharedIndexInformerWithBehaviour(lw cache.ListerWatcher, exampleObject runtime.Object, options cache.SharedIndexInformerOptions, behaviour Behaviour) cache.SharedIndexInformer {
	return newSharedIndexInformer(lw, exampleObject, options, behaviour)
}

func newSharedIndexInformer(lw cache.ListerWatcher, exampleObject runtime.Object, options cache.SharedIndexInformerOptions, behaviour Behaviour) *informer {
	inf := &informer{
		indexer:     newIndexer(cache.DeletionHandlingMetaNamespaceKeyFunc, options.Indexers),
		lw:          lw,
		example:     exampleObject,
		description: options.ObjectDescription,
		behaviour:   behaviour,
		detector:    cache.NewCacheMutationDetector(fmt.Sprintf("%T", exampleObject)),
		metrics:     metricsFor(options.Identifier, options.InformerMetricsProvider),
		synced:      make(chan struct{}),
		watched:     make(chan struct{}),
		checkPeriod: options.ResyncPeriod,
		period:      options.ResyncPeriod,
	}
	if options.Identifier.Reserved() {
		inf.indexer.gauge = cache.NewStore(cache.MetaNamespaceKeyFunc, cache.WithStoreMetrics(options.Identifier, options.InformerMetricsProvider))
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

// informer is a cache.SharedIndexInformer. Its reflector feeds the store without a queue
// in between, see [feed], and appends what it says to that of every handler, which has a
// goroutine of its own.
//
// informer.Informer is not under it. Its store reports what changed, while client-go's handlers
// are called for every delta: for what a list has at the version held, and for the deletion of
// what is not held. Its store also lists and updates more slowly than client-go's.
type informer struct {
	indexer     *indexer
	lw          cache.ListerWatcher
	example     runtime.Object
	description string
	behaviour   Behaviour
	detector    cache.MutationDetector
	metrics     *queueMetrics
	synced      chan struct{} // closed when the first list has been processed
	watched     chan struct{} // closed when the first watch has been answered, or it has stopped
	watchedOnce sync.Once
	// everySync makes handlers hear of every object that a list or an event has at the version
	// held, whether or not they are due for a resync. Written before it runs.
	everySync       bool
	minWatchTimeout time.Duration // of watches; 0 for the default. Written before it runs

	mu               sync.Mutex // guards what follows; taken before deltas
	started, stopped bool
	transform        cache.TransformFunc
	onError          cache.WatchErrorHandlerWithContext
	reflector        *reflector.Reflector[record]
	checkPeriod      time.Duration // how often to look whether a handler wants a resync
	period           time.Duration // of handlers that do not say

	// deltas is held while a batch is applied and told, and while handlers come and go:
	// a handler that comes is told the store's state, and then what happens after it.
	deltas    sync.Mutex
	running   bool        // listeners have goroutines; guarded by deltas
	listeners []*listener // guarded by deltas
	batch     batch       // what a batch says; guarded by deltas
	handlers  sync.WaitGroup
}

// SetWatchErrorHandler implements cache.SharedInformer.
func (inf *informer) SetWatchErrorHandler(handler cache.WatchErrorHandler) error {
	return inf.SetWatchErrorHandlerWithContext(func(_ context.Context, r *cache.Reflector, err error) { handler(r, err) })
}

var errStarted = errors.New("informer has already started")

// SetWatchErrorHandlerWithContext implements cache.SharedInformer.
func (inf *informer) SetWatchErrorHandlerWithContext(handler cache.WatchErrorHandlerWithContext) error {
	inf.mu.Lock()
	defer inf.mu.Unlock()
	if inf.started {
		return errStarted
	}
	inf.onError = handler
	return nil
}

// SetTransform implements cache.SharedInformer.
func (inf *informer) SetTransform(handler cache.TransformFunc) error {
	inf.mu.Lock()
	defer inf.mu.Unlock()
	if inf.started {
		return errStarted
	}
	inf.transform = handler
	return nil
}

// Run implements cache.SharedInformer.
func (inf *informer) Run(stopCh <-chan struct{}) { inf.RunWithContext(wait.ContextForChannel(stopCh)) }

// RunWithContext implements cache.SharedInformer. All goroutines have ended when it
// returns.
func (inf *informer) RunWithContext(ctx context.Context) {
	defer utilruntime.HandleCrashWithContext(ctx)
	r, period, ok := inf.start(ctx)
	if !ok {
		klog.FromContext(ctx).Info("Warning: the sharedIndexInformer has started, run more than once is not allowed")
		return
	}
	defer inf.noteWatch()

	var workers, detecting sync.WaitGroup
	stopDetecting := make(chan struct{})
	detecting.Go(func() { inf.detector.Run(stopDetecting) })
	workers.Go(func() { runReflector(ctx, r) })
	if period > 0 {
		workers.Go(func() { inf.resyncEvery(ctx, r, period) })
	}
	workers.Wait()
	inf.mu.Lock()
	inf.stopped = true // no more handlers
	inf.mu.Unlock()
	inf.stopHandlers()
	inf.handlers.Wait()
	close(stopDetecting)
	detecting.Wait()
}

// start makes the reflector and gives the handlers their goroutines. It returns how often
// to look for resyncs; ok is false if the informer was started before.
func (inf *informer) start(ctx context.Context) (r *reflector.Reflector[record], period time.Duration, ok bool) {
	inf.mu.Lock()
	defer inf.mu.Unlock()
	if inf.started {
		return nil, 0, false
	}
	inf.started = true
	opts := reflectorOptions(inf.lw, "")
	opts.OnError = errorHandler(ctx, inf.lw, inf.example, opts.Name, inf.description, inf.onError)
	opts.Transform = transforming(inf.transform)
	opts.MinWatchTimeout = max(inf.minWatchTimeout, minWatchTimeout)
	src := recordsOf(inf.lw, inf.example)
	if !inf.behaviour.ShareParts {
		src = owned{src}
	}
	src = answered{src, inf.noteWatch}
	inf.reflector = must(reflector.New(src, &feed{inf: inf, ctx: ctx}, opts))

	inf.deltas.Lock()
	defer inf.deltas.Unlock()
	inf.running = true
	for _, l := range inf.listeners {
		inf.serve(l)
	}
	return inf.reflector, inf.checkPeriod, true
}

// serve gives a handler its goroutines.
func (inf *informer) serve(l *listener) {
	inf.handlers.Go(l.run)
	inf.handlers.Go(func() {
		select {
		case <-inf.synced:
			l.tracker.UpstreamHasSynced()
		case <-l.quit:
		}
	})
}

// runReflector runs a reflector until the context is done. A source that panics is a crash,
// as in client-go; if the program survives it, nothing more comes.
func runReflector(ctx context.Context, r *reflector.Reflector[record]) {
	func() {
		defer utilruntime.HandleCrashWithContext(ctx)
		if thrown := (*object.PanicError)(nil); errors.As(r.Run(ctx), &thrown) {
			panic(thrown.Value)
		}
	}()
	<-ctx.Done()
}

// WatchStarted returns a channel that is closed when the server, or a fake, has answered the first
// request for a watch, for better or worse, or the informer has stopped. A factory's WaitForCacheSync
// waits for it: a fake client has no history, so what a program deletes between the list and the
// watch would never be reported.
func (inf *informer) WatchStarted() <-chan struct{} { return inf.watched }

func (inf *informer) noteWatch() { inf.watchedOnce.Do(func() { close(inf.watched) }) }

// HasSynced implements cache.SharedInformer.
func (inf *informer) HasSynced() bool { return isClosed(inf.synced) }

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// HasSyncedChecker implements cache.SharedInformer.
func (inf *informer) HasSyncedChecker() cache.DoneChecker {
	return done{fmt.Sprintf("SharedIndexInformer %T", inf.example), inf.synced}
}

// done is a cache.DoneChecker.
type done struct {
	name string
	done <-chan struct{}
}

// Name implements cache.DoneChecker.
func (d done) Name() string { return d.name }

// Done implements cache.DoneChecker.
func (d done) Done() <-chan struct{} { return d.done }

// LastSyncResourceVersion implements cache.SharedInformer.
func (inf *informer) LastSyncResourceVersion() string {
	inf.mu.Lock()
	defer inf.mu.Unlock()
	if inf.reflector == nil {
		return ""
	}
	return string(inf.reflector.Status().Mark.Version)
}

// GetStore implements cache.SharedInformer.
func (inf *informer) GetStore() cache.Store { return inf.indexer }

// GetIndexer implements cache.SharedIndexInformer.
func (inf *informer) GetIndexer() cache.Indexer { return inf.indexer }

// AddIndexers implements cache.SharedIndexInformer.
func (inf *informer) AddIndexers(indexers cache.Indexers) error {
	inf.mu.Lock()
	defer inf.mu.Unlock()
	if inf.stopped {
		return errors.New("indexer was not added because it has stopped already")
	}
	return inf.indexer.AddIndexers(indexers)
}

// IsStopped implements cache.SharedInformer.
func (inf *informer) IsStopped() bool {
	inf.mu.Lock()
	defer inf.mu.Unlock()
	return inf.stopped
}

// GetController implements cache.SharedInformer. As in client-go, what it returns can be
// asked and not run.
func (inf *informer) GetController() cache.Controller { return controller{inf} }

type controller struct{ inf *informer }

// Run implements cache.Controller and does nothing.
func (c controller) Run(<-chan struct{}) {}

// RunWithContext implements cache.Controller and does nothing.
func (c controller) RunWithContext(context.Context) {}

// HasSynced implements cache.Controller.
func (c controller) HasSynced() bool { return c.inf.HasSynced() }

// HasSyncedChecker implements cache.Controller.
func (c controller) HasSyncedChecker() cache.DoneChecker { return c.inf.HasSyncedChecker() }

// LastSyncResourceVersion implements cache.Controller.
func (c controller) LastSyncResourceVersion() string {
	if !features.FeatureGates().Enabled(features.InformerResourceVersion) {
		return ""
	}
	return c.inf.LastSyncResourceVersion()
}
