package tarn

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"k8s.io/client-go/rest"

	"github.com/tarnproject/tarn/reflector"
	"github.com/tarnproject/tarn/wire"
)

// Cluster holds the mirrors of one API server and runs them. Create one with [Connect],
// declare mirrors with [Informer] and its variants, and start them with [Cluster.Run].
//
// Guarantees:
//
//   - All callers that request the same resource, scope and form share one mirror: one list,
//     one watch and one copy of each object.
//   - A mirror runs from its first request, or from Run if that comes later, until its last
//     [Handle] is closed.
//   - Run owns every goroutine and returns when the last one has ended.
//
// All methods are safe for concurrent use, before, during and after Run.
//
// Rejected: creating informers implicitly on the first Get, as controller-runtime's cache
// does. The resources that a program mirrors, and so its permissions and memory, would then
// be known only after it has run for a while; see [Cluster.RBAC].
type Cluster struct {
	client    *wire.Client
	config    *rest.Config
	namespace string
	opts      Options
	discovery *wire.Discovery
	budget    *reflector.Budget

	noticed chan struct{} // signals that a mirror found its resource not served

	mu      sync.Mutex // guards all below
	phase   phase
	run     context.Context // set by Run
	fail    context.CancelCauseFunc
	mirrors map[identity]*mirror
	order   []*mirror // the same, in the order in which they were declared
	running sync.WaitGroup
}

// phase is the stage of a cluster's lifecycle.
type phase uint8

const (
	fresh phase = iota
	running
	stopped
)

func newCluster(client *wire.Client, config *rest.Config, namespace string, opts Options) *Cluster {
	return &Cluster{
		client: client, config: config, namespace: namespace, opts: opts,
		discovery: wire.NewDiscovery(client),
		budget:    reflector.NewBudget(opts.Lists),
		noticed:   make(chan struct{}, 1),
		mirrors:   map[identity]*mirror{},
	}
}

// Client returns the REST client, for writes and for resources that are not mirrored; see
// also [Handle.API].
func (c *Cluster) Client() *wire.Client { return c.client }

// Discovery returns the cluster's discovery client, which caches the server's answers. It is
// shared.
func (c *Cluster) Discovery() *wire.Discovery { return c.discovery }

// Config returns a copy of the configuration, for client-go's own clients.
func (c *Cluster) Config() *rest.Config { return rest.CopyConfig(c.config) }

// Namespace returns the namespace of the kubeconfig's context, or that of the pod;
// "default" if there is none.
func (c *Cluster) Namespace() string { return c.namespace }

// Run runs all mirrors, including those declared later, until the context is done. It
// returns when the last goroutine has ended, so a subscriber's call that does not return
// blocks it. The error is nil after the context was done, and otherwise a panic in a source.
// A cluster runs once; a second call returns [ErrStarted].
func (c *Cluster) Run(ctx context.Context) error {
	run, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	if err := c.start(run, fail); err != nil {
		return err
	}
	<-run.Done()
	c.mu.Lock()
	c.phase = stopped
	c.mu.Unlock()
	c.running.Wait()
	c.client.CloseIdleConnections()
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("tarn: run: %w", context.Cause(run))
}

// start starts the goroutines that Run owns.
func (c *Cluster) start(run context.Context, fail context.CancelCauseFunc) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.phase != fresh {
		return ErrStarted
	}
	c.phase, c.run, c.fail = running, run, fail
	for _, m := range c.order {
		c.begin(m)
	}
	c.running.Go(func() { c.awaitServed(run) })
	return nil
}

// begin runs a mirror. The caller holds the lock, and the cluster is running.
func (c *Cluster) begin(m *mirror) {
	run, fail := c.run, c.fail
	c.running.Go(func() {
		ctx, cancel := context.WithCancel(run)
		defer cancel()
		defer context.AfterFunc(m.wanted, cancel)()
		if err := m.inf.Run(ctx); err != nil {
			fail(err)
		}
	})
}

// release removes a claim from a mirror. Removing the last one stops the mirror.
func (c *Cluster) release(m *mirror, cl *claim) {
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
	if i := slices.Index(c.order, m); i >= 0 {
		c.order = slices.Delete(c.order, i, i+1)
	}
	m.end()
}

// declared returns the mirrors in the order in which they were declared.
func (c *Cluster) declared() []*mirror {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.order)
}
