package tarn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/tarnproject/tarn/console/metrics"
	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/object"
)

// Controller reconciles the keys of objects; see controller.Controller.
type Controller = controller.Controller[object.Key]

// ReconcileFunc reconciles one key: it reads the current state and changes it towards the
// desired one. Several workers call it concurrently, but never for the same key.
type ReconcileFunc = controller.Func[object.Key]

// NewController returns a controller that the cluster's Run runs:
//
//	_, err := tarn.NewController(cluster, "website", reconcile, tarn.For(websites), tarn.Owns(deployments))
//
// It may be called before and during Run, and returns [ErrStopped] when Run is ending. With [WithLeaderElection] it works only while this
// process leads. The name appears in logs, metrics and Status and must be unique in the cluster.
func NewController(c *Cluster, name string, reconcile ReconcileFunc, opts ...ControllerOption) (*Controller, error) {
	d := declareController(opts)
	sources, err := d.allSources()
	if err != nil {
		return nil, fmt.Errorf("tarn: controller %s: %w", name, err)
	}
	if err := d.shard(c, name); err != nil {
		return nil, fmt.Errorf("tarn: controller %s: %w", name, err)
	}
	d.options.Logger = cmp.Or(d.options.Logger, c.opts.logger)
	d.options.Observers = slices.Concat(c.opts.reconciles, []controller.Observer{c.exporter.Reconcile}, d.options.Observers)
	if d.options.Queue.Metrics == nil {
		d.options.Queue.Metrics = c.exporter.Queue(name)
	}
	ctl, err := controller.New(name, reconcile, d.options, sources...)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	ending := c.phase == stopped || c.phase == running && c.working.Err() != nil
	c.mu.Unlock()
	if ending {
		return nil, ErrStopped
	}
	if err := c.work.add(ctl); err != nil {
		return nil, err
	}
	c.count(name, &d)
	return ctl, nil
}

// ControllerOption says what a controller reconciles, and how.
type ControllerOption func(*controllerDeclaration)

type controllerDeclaration struct {
	options controller.Options[object.Key]
	workers int // of Workers, which overrides the options
	sources []controller.Source[object.Key]
	owners  []controller.Owners // of For
	owns    []func(owners controller.Owners) controller.Source[object.Key]
	tuned   bool // an option other than a source was given
	shardBy func(Key) string
	// division identifies shardBy.
	division string
	counts   []countKeys // of For
}

func declareController(opts []ControllerOption) (d controllerDeclaration) {
	for _, opt := range opts {
		opt(&d)
	}
	d.options.Workers = cmp.Or(d.workers, d.options.Workers)
	return d
}

// allSources returns the declared sources, of which there is at least one.
func (d *controllerDeclaration) allSources() ([]controller.Source[object.Key], error) {
	sources := slices.Clone(d.sources)
	for _, owns := range d.owns {
		switch len(d.owners) {
		case 0:
			return nil, errors.New("Owns needs For, the owners")
		case 1:
			sources = append(sources, owns(d.owners[0]))
		default:
			return nil, errors.New("Owns with several For does not say whose objects it means; use From(controller.Owns(children, owners))")
		}
	}
	if len(sources) == 0 {
		return nil, errors.New("no sources; add For, Watches or From")
	}
	return sources, nil
}

// For reconciles the objects of a mirror, initially and whenever one changes or is deleted.
func For[T Object](objects *Mirror[T], when ...controller.Predicate[T]) ControllerOption {
	return func(d *controllerDeclaration) {
		d.owners = append(d.owners, objects)
		d.sources = append(d.sources, controller.For(objects, when...))
		d.counts = append(d.counts, countKeysOf(objects))
	}
}

// Owns reconciles the owner, one of the objects of [For], whenever an object that it owns
// changes. With several For, use [From] with controller.Owns, which names the owners.
func Owns[T Object](children *Mirror[T], when ...controller.Predicate[T]) ControllerOption {
	return func(d *controllerDeclaration) {
		d.owns = append(d.owns, func(owners controller.Owners) controller.Source[object.Key] {
			return controller.Owns(children, owners, when...)
		})
	}
}

// Watches reconciles the keys that the function returns for an object whenever that object
// changes. After an update it is called with the old and with the new object.
func Watches[T Object](objects *Mirror[T], keys func(obj T) []Key, when ...controller.Predicate[T]) ControllerOption {
	return From(controller.Watches(objects, func(obj T, add func(object.Key)) {
		for _, key := range keys(obj) {
			add(key)
		}
	}, when...))
}

// From reconciles the keys of any source, such as controller.Every.
func From(source controller.Source[object.Key]) ControllerOption {
	return func(d *controllerDeclaration) { d.sources = append(d.sources, source) }
}

// Workers is how many keys may be reconciled concurrently. Defaults to 1.
func Workers(n int) ControllerOption {
	return func(d *controllerDeclaration) { d.workers, d.tuned = n, true }
}

// WithControllerOptions sets all other options: timeouts, rates, back-off, shutdown. [Workers]
// overrides its Workers.
func WithControllerOptions(opts controller.Options[object.Key]) ControllerOption {
	return func(d *controllerDeclaration) { d.options, d.tuned = opts, true }
}

// runControllers runs the cluster's controllers until the context is done or one fails.
func (c *Cluster) runControllers(ctx context.Context) error {
	switch {
	case c.group != nil:
		return controller.Sharded(c.group, c.work).Run(ctx)
	case c.leadership != nil:
		return controller.WhileLeading(c.leadership, c.work).Run(ctx)
	}
	return c.work.Run(ctx)
}

// worker is a [Controller], a [FleetController], or the part of one in a cluster.
type worker interface {
	controller.Runner
	Name() string
}

// controllers are the controllers of a cluster or a fleet. They run whenever Run does.
type controllers struct {
	mu    sync.Mutex // guards all below
	all   []worker
	start func(worker) // while Run runs
	// claims has a function for each call of Claim, which claims its group in a controller that
	// was added later.
	claims map[string]func(worker)
}

// add adds a controller and starts it if the others run.
func (cs *controllers) add(ctl worker) error {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if slices.ContainsFunc(cs.all, func(other worker) bool { return other.Name() == ctl.Name() }) {
		return fmt.Errorf("tarn: there is a controller %s already", ctl.Name())
	}
	cs.all = append(cs.all, ctl)
	if cs.start != nil {
		cs.start(ctl)
	}
	for _, claim := range cs.claims {
		claim(ctl)
	}
	return nil
}

// Run implements [controller.Runner].
func (cs *controllers) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var (
		running sync.WaitGroup
		mu      sync.Mutex
		errs    []error
	)
	cs.mu.Lock()
	cs.start = func(ctl worker) {
		running.Go(func() {
			if err := ctl.Run(ctx); err != nil {
				mu.Lock()
				errs = append(errs, err)
				mu.Unlock()
				stop()
			}
		})
	}
	for _, ctl := range cs.all {
		cs.start(ctl)
	}
	cs.mu.Unlock()
	<-ctx.Done()
	cs.mu.Lock()
	cs.start = nil
	cs.mu.Unlock()
	running.Wait()
	return errors.Join(errs...)
}

// Controllers implements [metrics.Cluster].
func (cs *controllers) Controllers() (list []metrics.Controller) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for _, w := range cs.all {
		if ctl, ok := w.(metrics.Controller); ok {
			list = append(list, ctl)
		}
	}
	return list
}

// statuses returns the status of each controller.
func (cs *controllers) statuses() (all []controller.Status) {
	for _, ctl := range cs.Controllers() {
		all = append(all, ctl.Status())
	}
	return all
}
