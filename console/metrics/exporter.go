package metrics

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/workqueue"
)

// ErrTaken is wrapped by the error of an Add method if the name is already in use.
var ErrTaken = errors.New("metrics: shown already")

// Queue is what AddQueue needs; every *workqueue.Queue is one.
type Queue interface {
	// Stats returns the present figures.
	Stats() workqueue.Stats
}

// Informer is what AddInformer needs; every *informer.Informer is one.
type Informer interface {
	// Name returns the informer's name.
	Name() string
	// Status returns the present figures.
	Status() informer.Status
}

// Controller is what AddController needs; every *controller.Controller is one.
type Controller interface {
	// Name returns the controller's name.
	Name() string
	// Status returns the present figures.
	Status() controller.Status
}

// Options configure an Exporter. The zero Options is ready to use.
type Options struct {
	// Buckets are the upper bounds, in seconds, of the histograms of queues.
	// Defaults to client-go's: twelve from 10 nanoseconds on, each ten times the last.
	Buckets []float64
}

// Exporter exports what was added to it to Prometheus. Create one with [New].
//
// All methods may be called from any goroutine. A scrape reads the status of everything
// that was added outside of the exporter's lock: a slow one delays the scrape, but not an
// Add.
type Exporter struct {
	reg    prometheus.Registerer
	queued *queued

	mu          sync.Mutex // guards the maps
	queues      map[string]Queue
	informers   map[string]Informer
	controllers map[string]*tally
}

// New creates an exporter and registers it.
func New(reg prometheus.Registerer, opts Options) (*Exporter, error) {
	if opts.Buckets == nil {
		opts.Buckets = prometheus.ExponentialBuckets(10e-9, 10, 12)
	}
	x := &Exporter{
		reg: reg, queued: newQueued(opts.Buckets),
		queues: map[string]Queue{}, informers: map[string]Informer{}, controllers: map[string]*tally{},
	}
	if err := reg.Register(x); err != nil {
		return nil, fmt.Errorf("metrics: registering: %w", err)
	}
	return x, nil
}

// Close unregisters the exporter.
func (x *Exporter) Close() { x.reg.Unregister(x) }

// Queue returns the counters of the queue with this name, for the Metrics of its Options.
// Later calls with the same name return the same counters. [Exporter.AddQueue] exports the
// depth, and [Exporter.AddController] that of a controller's queue.
func (x *Exporter) Queue(name string) workqueue.Metrics { return x.queued.of(name) }

// AddQueue exports the depth of a queue under a name. The error wraps [ErrTaken].
func (x *Exporter) AddQueue(name string, q Queue) error {
	return add(x, x.queues, "a queue", name, q)
}

// RemoveQueue removes a queue and its counters.
func (x *Exporter) RemoveQueue(name string) {
	x.mu.Lock()
	delete(x.queues, name)
	x.mu.Unlock()
	x.queued.forget(name)
}

// AddInformer exports an informer, its reflectors and its subscribers. The error wraps
// [ErrTaken] if there is one of that name already.
func (x *Exporter) AddInformer(inf Informer) error {
	return add(x, x.informers, "an informer", inf.Name(), inf)
}

// RemoveInformer removes an informer.
func (x *Exporter) RemoveInformer(name string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.informers, name)
}

// AddController exports a controller and the depth of its queue. The error wraps
// [ErrTaken] if there is a controller, or a queue, of that name already.
func (x *Exporter) AddController(c Controller) error {
	name := c.Name()
	if err := add(x, x.controllers, "a controller", name, &tally{Controller: c}); err != nil {
		return err
	}
	if err := x.AddQueue(name, queueOf{c}); err != nil {
		x.mu.Lock()
		defer x.mu.Unlock()
		delete(x.controllers, name)
		return err
	}
	return nil
}

// RemoveController removes a controller and its queue.
func (x *Exporter) RemoveController(name string) {
	x.mu.Lock()
	delete(x.controllers, name)
	x.mu.Unlock()
	x.RemoveQueue(name)
}

// queueOf is the queue of a controller.
type queueOf struct{ Controller }

// Stats implements [Queue].
func (q queueOf) Stats() workqueue.Stats { return q.Status().Queue }

func add[V any](x *Exporter, to map[string]V, what, name string, v V) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if _, ok := to[name]; ok {
		return fmt.Errorf("%w: %s called %q", ErrTaken, what, name)
	}
	to[name] = v
	return nil
}

// Describe implements [prometheus.Collector].
func (x *Exporter) Describe(to chan<- *prometheus.Desc) {
	x.queued.describe(to)
	for _, group := range [][]*prometheus.Desc{queueDescs, informerDescs, reflectorDescs, controllerDescs} {
		for _, d := range group {
			to <- d
		}
	}
}

// Collect implements [prometheus.Collector].
func (x *Exporter) Collect(to chan<- prometheus.Metric) {
	x.mu.Lock()
	queues, informers := maps.Clone(x.queues), slices.Collect(maps.Values(x.informers))
	controllers := slices.Collect(maps.Values(x.controllers))
	x.mu.Unlock()
	x.queued.collect(to)
	for name, q := range queues {
		collectQueue(to, name, q.Stats())
	}
	for _, inf := range informers {
		collectInformer(to, inf.Name(), inf.Status())
	}
	for _, c := range controllers {
		c.collect(to)
	}
}

// family creates descriptions and keeps a list of them.
func family(list *[]*prometheus.Desc) func(name, help string, labels ...string) *prometheus.Desc {
	return func(name, help string, labels ...string) *prometheus.Desc {
		d := prometheus.NewDesc(name, help, labels, nil)
		*list = append(*list, d)
		return d
	}
}

func gauge(to chan<- prometheus.Metric, d *prometheus.Desc, v float64, labels ...string) {
	to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

func counter(to chan<- prometheus.Metric, d *prometheus.Desc, v float64, labels ...string) {
	to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
}

func flag(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
