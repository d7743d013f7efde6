package metrics

import (
	"fmt"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/controller/shard"
	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/workqueue"
)

// Cluster lists what [Exporter.AddCluster] exports. Its methods are called on each scrape, from
// several goroutines, so the lists may change at any time.
type Cluster interface {
	// Informers returns the present informers. The caller does not change the slice.
	Informers() []Informer
	// Controllers returns the present controllers. The caller does not change the slice.
	Controllers() []Controller
}

// Informer is what a [Cluster] lists; every *informer.Informer is one.
type Informer interface {
	// Name returns the informer's name.
	Name() string
	// Status returns the present figures.
	Status() informer.Status
}

// Controller is what a [Cluster] lists; every *controller.Controller is one.
type Controller interface {
	// Name returns the controller's name.
	Name() string
	// Status returns the present figures.
	Status() controller.Status
}

// Shards is what AddShards needs; every *shard.Group is one.
type Shards interface {
	// Status returns the present figures.
	Status() shard.Status
}

// Static returns a [Cluster] whose informers and controllers do not change.
func Static(informers []Informer, controllers []Controller) Cluster {
	return &static{informers, controllers}
}

type static struct {
	informers   []Informer
	controllers []Controller
}

func (s *static) Informers() []Informer     { return s.informers }
func (s *static) Controllers() []Controller { return s.controllers }

// Exporter exports metrics to Prometheus. Create one with [New]. All methods are safe for
// concurrent use. A scrape reads each Status outside of the exporter's lock, so a slow one delays
// the scrape and nothing else.
type Exporter struct {
	reg     prometheus.Registerer
	vectors *vectors

	mu       sync.Mutex // guards all below
	clusters []*Cluster
	queues   []*namedQueue
	shards   []*Shards
	leaders  map[string]controller.Fence // nil while another process leads
}

type namedQueue struct {
	name  string
	stats func() workqueue.Stats
}

// New creates an exporter and registers it.
func New(reg prometheus.Registerer) (*Exporter, error) {
	x := &Exporter{reg: reg, vectors: newVectors(), leaders: map[string]controller.Fence{}}
	if err := reg.Register(x); err != nil {
		return nil, fmt.Errorf("metrics: register: %w", err)
	}
	return x, nil
}

// Close unregisters the exporter.
func (x *Exporter) Close() { x.reg.Unregister(x) }

// AddCluster exports the informers and controllers that c lists at the time of each scrape, with
// the controllers' queues. The returned function removes c.
func (x *Exporter) AddCluster(c Cluster) (remove func()) { return addTo(x, &x.clusters, &c) }

// AddQueue exports the figures of a queue that is not a controller's, such as a *workqueue.Queue.
// The returned function removes them.
func (x *Exporter) AddQueue(name string, q interface{ Stats() workqueue.Stats }) (remove func()) {
	return addTo(x, &x.queues, &namedQueue{name, q.Stats})
}

// AddShards exports the figures of a membership. The returned function removes them.
func (x *Exporter) AddShards(s Shards) (remove func()) { return addTo(x, &x.shards, &s) }

func addTo[V any](x *Exporter, list *[]*V, v *V) (remove func()) {
	x.mu.Lock()
	defer x.mu.Unlock()
	*list = append(*list, v)
	return func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		*list = slices.DeleteFunc(slices.Clone(*list), func(e *V) bool { return e == v })
	}
}

// Describe implements [prometheus.Collector].
func (x *Exporter) Describe(to chan<- *prometheus.Desc) {
	for _, v := range x.vectors.all() {
		v.Describe(to)
	}
	for _, f := range families {
		to <- f.desc
	}
}

// Collect implements [prometheus.Collector].
func (x *Exporter) Collect(to chan<- prometheus.Metric) {
	found := samples{}
	x.mu.Lock()
	clusters, queues, shards := x.clusters, x.queues, x.shards
	for name, fence := range x.leaders {
		found.add(leaderStatus, flag(fence != nil && fence.Check() == nil), name)
	}
	x.mu.Unlock()
	for _, q := range queues {
		found.queue(q.name, q.stats())
	}
	for _, s := range shards {
		status := (*s).Status()
		add(found, shardFigures, status, status.Group)
	}
	for _, c := range clusters {
		for _, inf := range (*c).Informers() {
			found.informer(inf.Name(), inf.Status())
		}
		for _, ctl := range (*c).Controllers() {
			x.vectors.controller(ctl.Name())
			found.controller(ctl.Name(), ctl.Status())
		}
	}
	for _, v := range x.vectors.all() {
		v.Collect(to)
	}
	found.send(to)
}
