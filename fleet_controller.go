package tarn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/workqueue"
)

// FleetKey names an object in a cluster of a [Fleet].
type FleetKey struct {
	// Cluster is the name of the cluster in the fleet.
	Cluster string
	// Key names the object in that cluster.
	Key Key
}

// String returns "cluster:namespace/name".
func (k FleetKey) String() string { return k.Cluster + ":" + k.Key.String() }

// FleetController reconciles objects of all clusters of a [Fleet] with one queue and one pool of
// workers; see controller.Controller.
type FleetController = controller.Controller[FleetKey]

// NewFleetController returns a controller that the fleet's Run runs. For each cluster that is added,
// the fleet calls join, which declares the mirrors and what to reconcile there, as for one cluster:
//
//	tarn.NewFleetController(fleet, "audit", func(m *tarn.Member) error {
//		pods, err := tarn.MirrorOf[*corev1.Pod](m.Cluster)
//		if err != nil {
//			return err
//		}
//		client := pods.Client()
//		return m.Reconcile(func(ctx context.Context, key tarn.Key) (tarn.Result, error) {
//			pod, err := client.Get(ctx, key)
//			…
//		}, tarn.For(pods))
//	}, tarn.Workers(4))
//
// The options are those that are not sources: [Workers] and [WithControllerOptions]. Clusters that
// have keys to reconcile take turns. Objects that exist when a cluster has synced are reconciled
// with the priority controller.Initial. Call it before the first [Fleet.Add].
func NewFleetController(f *Fleet, name string, join func(m *Member) error, opts ...ControllerOption) (*FleetController, error) {
	fail := func(err error) (*FleetController, error) {
		return nil, fmt.Errorf("tarn: controller %s: %w", name, err)
	}
	d := declareController(opts)
	q := d.options.Queue
	switch {
	case join == nil:
		return fail(errors.New("no join function"))
	case len(d.sources)+len(d.owns) > 0:
		return fail(errors.New("For, Owns, Watches and From are options of Member.Reconcile"))
	case q.Limiter != nil || q.Group != nil || q.Dropped != nil || d.options.Claims:
		return fail(errors.New("a fleet has its own Limiter and Group, and no Dropped and no Claims"))
	}
	metrics := q.Metrics
	if metrics == nil {
		metrics = f.exporter.Queue(name)
	}
	own := fleetOptions(d.options)
	own.Queue.Group, own.Queue.Metrics = func(key FleetKey) string { return key.Cluster }, metrics
	own.Observers = slices.Concat([]controller.Observer{observeMember}, own.Observers)
	own.Logger = cmp.Or(own.Logger, slog.Default())
	ctl, err := controller.New(name, reconcileMember, own)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.members) > 0 {
		return fail(errors.New("create the fleet's controllers before its clusters are added"))
	}
	if err := f.work.add(ctl); err != nil {
		return nil, err
	}
	f.joining = append(f.joining, &fleetController{ctl, join})
	return ctl, nil
}

// fleetOptions returns the options that do not depend on the type of keys.
func fleetOptions(o controller.Options[Key]) controller.Options[FleetKey] {
	return controller.Options[FleetKey]{
		Queue:   workqueue.Options[FleetKey]{AgeAfter: o.Queue.AgeAfter, Times: o.Queue.Times, OnPanic: o.Queue.OnPanic},
		Workers: o.Workers, Attempts: o.Attempts, Timeout: o.Timeout, Rate: o.Rate, Burst: o.Burst,
		SyncTimeout: o.SyncTimeout, Grace: o.Grace, Errors: o.Errors, Recent: o.Recent,
		Observers: o.Observers, Logger: o.Logger,
	}
}

// fleetController is a controller and how clusters join it.
type fleetController struct {
	*FleetController
	join func(m *Member) error
}

// add adds the part of the controller that works on a cluster to that cluster.
func (fc *fleetController) add(to *member) error {
	m := &Member{Name: to.name, Cluster: to.cluster, controller: fc.FleetController}
	if err := fc.join(m); err != nil {
		return fmt.Errorf("controller %s: %w", fc.Name(), err)
	}
	switch {
	case m.reconcile == nil:
		return nil
	case to.cluster.group != nil:
		return fmt.Errorf("controller %s: a fleet's controllers cannot be sharded; connect %s without WithSharding", fc.Name(), to.name)
	}
	m.observe = controller.Observers(append(slices.Clone(to.cluster.opts.reconciles), to.cluster.exporter.Reconcile)...)
	return to.cluster.work.add(part{m})
}

// Member is a cluster of a fleet as one of its controllers joins it.
type Member struct {
	// Name is the name of the cluster in the fleet.
	Name string
	// Cluster is the cluster. The fleet runs it.
	Cluster *Cluster

	controller *FleetController
	reconcile  ReconcileFunc
	sources    []controller.Source[FleetKey]
	observe    controller.Observer
}

// Reconcile sets the reconcile function of the controller for this cluster, and with [For], [Owns],
// [Watches] and [From] what it reconciles. A join function calls it at most once; without it the
// controller ignores the cluster.
func (m *Member) Reconcile(reconcile ReconcileFunc, opts ...ControllerOption) error {
	d := declareController(opts)
	switch {
	case reconcile == nil:
		return errors.New("no reconcile function")
	case m.reconcile != nil:
		return errors.New("Member.Reconcile was called before")
	case d.tuned:
		return errors.New("Workers and WithControllerOptions are options of NewFleetController")
	}
	sources, err := d.allSources()
	if err != nil {
		return err
	}
	for _, s := range sources {
		m.sources = append(m.sources, controller.Map(s,
			func(key Key) FleetKey { return FleetKey{m.Name, key} },
			func(key FleetKey) Key { return key.Key }))
	}
	m.reconcile = reconcile
	return nil
}

// part is the part of a fleet's controller that works on one cluster. The cluster runs it, as it
// runs its own controllers.
type part struct{ *Member }

type partKey struct{}

// Name returns the name of the controller.
func (p part) Name() string { return p.controller.Name() }

// Run implements [controller.Runner].
func (p part) Run(ctx context.Context) error {
	return p.controller.Attach(context.WithValue(ctx, partKey{}, p.Member), p.Member.Name, p.sources...)
}

// reconcileMember calls the reconcile function of the key's cluster.
func reconcileMember(ctx context.Context, key FleetKey) (Result, error) {
	return ctx.Value(partKey{}).(*Member).reconcile(ctx, key.Key)
}

// observeMember calls the observers of the key's cluster.
func observeMember(ctx context.Context, start controller.ReconcileStart) (context.Context, func(controller.ReconcileEnd)) {
	return ctx.Value(partKey{}).(*Member).observe(ctx, start)
}
