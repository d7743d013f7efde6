package tarn

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"github.com/tarnproject/tarn/console/metrics"
	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/controller/leader"
	"github.com/tarnproject/tarn/controller/shard"
	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/journal"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
	"github.com/tarnproject/tarn/wire"
)

// Cluster holds the mirrors of one API server and runs them. Create one with [Connect],
// declare mirrors with [MirrorOf] and its variants and controllers with [NewController], and
// start everything with [Cluster.Run].
//
// Guarantees:
//
//   - All callers that request the same resource, scope and form share one mirror: one list,
//     one watch and one copy of each object.
//   - A mirror runs from its first request, or from Run if that comes later, until its last
//     [Mirror] is closed.
//   - Run owns every goroutine and returns when the last one has ended.
//
// All methods are safe for concurrent use, before, during and after Run.
//
// Rejected: creating informers implicitly on the first Get, as controller-runtime's cache
// does. The resources that a program mirrors, and so its permissions and memory, would then
// be known only after it has run for a while; see [Cluster.RBAC].
type Cluster struct {
	client    *wire.Client
	leases    *wire.Client // for leader election and sharding; has no rate limit
	config    *rest.Config
	namespace string
	opts      options
	discovery *wire.Discovery
	budget    *reflector.Budget
	registry  *prometheus.Registry
	exporter  *metrics.Exporter
	work      *controllers
	journal   *journal.Journal // nil without one
	// Both are nil without leader election.
	elector    *leader.Elector
	leadership controller.Leadership     // elector, with metrics
	group      *shard.Group              // nil without sharding
	keys       [shard.Slots]atomic.Int64 // of the controllers, with sharding; the subscriptions of count add to them
	part       *Shard                    // what the mirrors have; nil for everything; group sets it

	noticed chan struct{} // signals that a mirror found its resource not served

	mu        sync.Mutex // guards all below
	phase     phase
	divisions []string        // those of the controllers with ShardBy
	run       context.Context // set by Run, as working
	working   context.Context // done when the controllers have to stop
	started   time.Time       // set by Run
	fail      context.CancelCauseFunc
	mirrors   map[identity]*shared
	masks     map[object.Resource]*masks  // by group and resource
	order     []*shared                   // the same, in the order in which they were declared
	clients   map[*shared]map[string]bool // the verbs of their clients
	recorders map[string]*Recorder
	running   sync.WaitGroup
}

// phase is the stage of a cluster's lifecycle.
type phase uint8

const (
	fresh phase = iota
	running
	stopped
)

func newCluster(client *wire.Client, config *rest.Config, namespace string, opts options, registry *prometheus.Registry, exporter *metrics.Exporter) (*Cluster, error) {
	c := &Cluster{
		client: client, config: config, namespace: namespace, opts: opts,
		discovery: wire.NewDiscovery(client),
		budget:    reflector.NewBudget(opts.tuning.Lists),
		noticed:   make(chan struct{}, 1),
		mirrors:   map[identity]*shared{},
		masks:     map[object.Resource]*masks{},
		clients:   map[*shared]map[string]bool{},
		recorders: map[string]*Recorder{},
		work:      &controllers{},
		registry:  registry,
		exporter:  exporter,
	}
	if opts.journal != nil {
		var err error
		if c.journal, err = opts.journal(); err != nil {
			return nil, fmt.Errorf("tarn: connect: %w", err)
		}
	}
	exporter.AddCluster(observed{c.work, c})
	if opts.group == "" && opts.lease == "" {
		return c, nil
	}
	if err := c.connectLeases(); err != nil {
		return nil, err
	}
	if opts.group != "" {
		return c, c.join()
	}
	election := opts.election
	if election.Logger == nil {
		election.Logger = opts.logger
	}
	election.Caches = func() (all []leader.Cache) {
		for _, m := range c.declared() {
			switch {
			case m.missing.Load():
			case m.ofLeader:
				all = append(all, unjudged{m.inf})
			default:
				all = append(all, m.inf)
			}
		}
		return all
	}
	elector, err := leader.New(c.leases, Key{Namespace: namespace, Name: opts.lease}, election)
	if err != nil {
		return nil, fmt.Errorf("tarn: connect: %w", err)
	}
	c.elector, c.leadership = elector, exporter.Leadership(opts.lease, elector)
	return c, nil
}

// unjudged is a mirror whose state does not decide which process leads. A leader that gave up the lease for a
// mirror that only leaders declare would hand it to and fro: the mirrors of a standby are live without it.
type unjudged struct{ leader.Cache }

// Sources implements [leader.Cache].
func (unjudged) Sources() []informer.SourceStatus { return nil }

// connectLeases creates the client for leases. Controllers that use up the rate limit, or wait for an
// overloaded server, must not delay a renewal until the lease has lapsed.
func (c *Cluster) connectLeases() (err error) {
	config := rest.CopyConfig(c.config)
	config.RateLimiter, config.QPS = nil, 0
	c.leases, err = wire.New(config, wire.Options{
		UserAgent: c.opts.userAgent, Logger: c.opts.logger, Observers: append(slices.Clone(c.opts.requests), c.exporter.Request),
	})
	if err != nil {
		return fmt.Errorf("tarn: connect: %w", err)
	}
	return nil
}

// Client returns the REST client, for writes and for resources that are not mirrored; see
// also [Mirror.API].
func (c *Cluster) Client() *wire.Client { return c.client }

// Discovery returns the cluster's discovery client, which caches the server's answers. It is
// shared.
func (c *Cluster) Discovery() *wire.Discovery { return c.discovery }

// Config returns a copy of the configuration, for client-go's own clients.
func (c *Cluster) Config() *rest.Config { return rest.CopyConfig(c.config) }

// Namespace returns the namespace of [WithNamespace], of the kubeconfig's context, or of the
// pod; "default" if there is none.
func (c *Cluster) Namespace() string { return c.namespace }

// Run runs all mirrors and controllers, including those declared later, until the context is
// done. Then the controllers stop, and when they have ended the mirrors. It returns when the
// last goroutine has ended, so a subscriber's call that does not return blocks it. The error is
// nil after the context was done, and otherwise what ended Run: the error of a controller, or a
// panic in a source. A cluster runs once; a second call returns [ErrStarted].
func (c *Cluster) Run(ctx context.Context) error {
	run, fail := context.WithCancelCause(context.WithoutCancel(ctx))
	defer fail(nil)
	working, stop := context.WithCancel(ctx)
	defer stop()
	if err := c.start(run, working, fail); err != nil {
		return err
	}
	defer context.AfterFunc(run, stop)()
	err := c.runControllers(working)
	if err != nil {
		fail(err)
	} else {
		fail(context.Cause(ctx))
	}
	c.mu.Lock()
	c.phase = stopped
	c.mu.Unlock()
	c.running.Wait()
	if c.journal != nil {
		_ = c.journal.Close()
	}
	c.client.CloseIdleConnections()
	if c.leases != nil {
		c.leases.CloseIdleConnections()
	}
	switch cause := context.Cause(run); {
	case err != nil:
		return fmt.Errorf("tarn: run: %w", err)
	case ctx.Err() != nil:
		return nil
	default:
		return fmt.Errorf("tarn: run: %w", cause)
	}
}

// start starts the goroutines that Run owns.
func (c *Cluster) start(run, working context.Context, fail context.CancelCauseFunc) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.phase != fresh {
		return ErrStarted
	}
	c.phase, c.started, c.run, c.working, c.fail = running, time.Now(), run, working, fail
	for _, m := range c.order {
		c.begin(m)
	}
	for _, r := range c.recorders {
		c.record(r)
	}
	c.running.Go(func() { c.awaitServed(run) })
	if c.opts.audit > 0 {
		c.running.Go(func() { c.auditEvery(run, c.opts.audit) })
	}
	return nil
}

// begin runs a mirror. The caller holds the lock, and the cluster is running.
func (c *Cluster) begin(m *shared) {
	run, fail := c.run, c.fail
	c.running.Go(func() {
		ctx, cancel := context.WithCancel(run)
		defer cancel()
		defer context.AfterFunc(m.wanted, cancel)()
		if m.log != nil {
			defer c.write(m)()
		}
		if err := m.inf.Run(ctx); err != nil {
			fail(err)
		}
	})
}

// record runs a recorder. The caller holds the lock, and the cluster is running.
func (c *Cluster) record(r *Recorder) {
	run, fail := c.run, c.fail
	c.running.Go(func() {
		if err := r.Run(run); err != nil {
			fail(err)
		}
	})
}

// release removes a claim from a mirror. Removing the last one stops the mirror.
func (c *Cluster) release(m *shared, cl *claim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.Index(m.claims, cl)
	if i < 0 {
		return
	}
	m.claims = slices.Delete(m.claims, i, i+1)
	if len(m.claims) > 0 {
		return
	}
	delete(c.mirrors, m.id)
	delete(c.clients, m)
	if m.id.shard != nil {
		m.id.shard.unfollow(m.inf)
	}
	if i := slices.Index(c.order, m); i >= 0 {
		c.order = slices.Delete(c.order, i, i+1)
	}
	m.end()
}

// noteClient records that the program writes to the mirror's resource, with some verbs or with all, for
// as long as it is mirrored: the record of a closed mirror would keep its objects alive.
func (c *Cluster) noteClient(m *shared, verbs []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(m.claims) == 0 {
		return
	}
	if c.clients[m] == nil {
		c.clients[m] = map[string]bool{}
	}
	for verb := range clientVerbs {
		// Not every type has a status.
		if slices.Contains(verbs, verb) || len(verbs) == 0 && (clientVerbs[verb].subresource != "/status" || hasStatus(m.id.object)) {
			c.clients[m][verb] = true
		}
	}
}

// isFresh returns nil if Run has not been called.
func (c *Cluster) isFresh() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.phase != fresh {
		return ErrStarted
	}
	return nil
}

// declared returns the mirrors in the order in which they were declared.
func (c *Cluster) declared() []*shared {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.order)
}
