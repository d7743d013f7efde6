package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/spf13/cobra"

	tarn "github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
)

// demoFlags are those of tarn demo.
type demoFlags struct {
	duration time.Duration
	objects  int
	churn    float64
	seed     uint64
	faults   []string
}

func newDemoCommand(e *env) *cobra.Command {
	var flags demoFlags
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "See Tarn at work; no cluster is needed",
		Long: `Run an API server in this process, fill it with a made-up cluster that keeps changing,
mirror it with indexes, have a controller keep a summary of each namespace, and show all
that as it happens. Nothing is installed, and nothing is left when it ends.

At the end, be it that of --duration or Ctrl-C, everything in the mirror is compared with
what the server has.

--faults lets requests fail meanwhile: one in ten, by chance, or whatever else the --faults
of tarn apiserver can say.`,
		Example: `  tarn demo                                # until Ctrl-C
  tarn demo --duration 10s --faults        # while requests fail
  tarn demo --faults=random:0.5:7          # more of them, always the same
  tarn demo --objects 50000 --churn 2000   # a larger cluster
  tarn demo --duration 5s | cat            # a line a second, for files`,
		Args: faultArgs(&flags.faults),
		RunE: func(cmd *cobra.Command, _ []string) error { return runDemo(cmd.Context(), e, flags) },
	}
	f := cmd.Flags()
	f.DurationVar(&flags.duration, "duration", 0, "how long to run (default until Ctrl-C)")
	f.IntVar(&flags.objects, "objects", 3000, "about how many objects the cluster has")
	f.Float64Var(&flags.churn, "churn", 100, "how many writes there are in a second")
	f.Uint64Var(&flags.seed, "seed", 1, "decides what the cluster looks like and what happens in it")
	addFaults(f, &flags.faults)
	return cmd
}

func (f *demoFlags) check() error {
	switch {
	case f.objects < 1:
		return usagef("--objects must be at least 1")
	case f.churn < 0:
		return usagef("--churn must not be negative")
	case f.duration < 0:
		return usagef("--duration must not be negative")
	}
	return nil
}

// demo is a running tarn demo.
type demo struct {
	flags   demoFlags
	faults  faultSpec
	server  *apiserver.Server
	cluster *tarn.Cluster
	mirrors *demoMirrors
	churn   *demoChurn
	summary *controller.Controller[object.Key]
	view    *demoView
	started time.Time
	// striking is closed when faults may strike: not before there is something to see.
	striking chan struct{}
}

// settleTime is how long the end waits until the mirror has caught up, and hastyTime how
// long after Ctrl-C.
const (
	settleTime = time.Minute
	hastyTime  = 3 * time.Second
)

func runDemo(ctx context.Context, e *env, flags demoFlags) error {
	if err := flags.check(); err != nil {
		return err
	}
	faults, err := parseFaults(flags.faults)
	if err != nil {
		return err
	}
	d := &demo{flags: flags, faults: faults, view: newDemoView(e), started: time.Now(), striking: make(chan struct{})}
	d.view.say("Making up a cluster of about %s objects ...", thousands(flags.objects))
	if err := d.build(e); err != nil {
		return err
	}
	d.view.say("Made %s objects on a server in this process, in %s.", thousands(d.churn.made), brief(time.Since(d.started)))
	if text := faults.String(); text != "" {
		d.view.say("Faults: %s.", text)
	}
	return d.run(ctx)
}

// build makes all parts; nothing runs yet.
func (d *demo) build(e *env) (err error) {
	if d.server, err = apiserver.New(apiserver.Options{CollectGarbage: true, Bookmarks: 5 * time.Second, Seed: max(d.flags.seed, 1), Logger: e.log}); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = d.server.Close() // what went wrong before is worth more
		}
	}()
	world, err := newDemoCluster(d.server, d.flags.objects, d.flags.seed)
	if err != nil {
		return err
	}
	d.churn = newDemoChurn(world, d.flags.churn)
	if d.cluster, err = tarn.Connect(tarn.Options{
		Config: d.server.Config(), Backoff: reflector.Backoff{Min: 100 * time.Millisecond, Max: 2 * time.Second}, Logger: e.log,
	}); err != nil {
		return err
	}
	if d.mirrors, err = newDemoMirrors(d.cluster); err != nil {
		return err
	}
	d.summary, err = newSummarizer(d.mirrors.namespaces, d.mirrors.pods, d.mirrors.configMaps)
	return err
}

// run has everything work until the context ends, or the duration is over, and then looks
// whether the mirror is right.
func (d *demo) run(ctx context.Context) error {
	// The server and the mirrors outlive what the user ends: they are looked at then.
	base, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(nil)
	var failed []error
	var ended sync.WaitGroup
	var mu sync.Mutex // guards failed
	start := func(ctx context.Context, run func(context.Context) error) (wait func()) {
		done := make(chan struct{})
		ended.Go(func() {
			defer close(done)
			if err := run(ctx); err != nil {
				mu.Lock()
				failed = append(failed, err)
				mu.Unlock()
				end(err)
			}
		})
		return func() { <-done }
	}
	start(base, d.server.Run)
	start(base, d.cluster.Run)
	changing, rest := context.WithCancel(base)
	defer rest()
	calm := start(changing, d.churn.run)
	start(changing, d.trouble)
	controlling, stop := context.WithCancel(base)
	defer stop()
	stopped := start(controlling, d.control)

	over := d.show(ctx, base)
	rest()
	calm()
	if !over {
		stop() // it may end in the middle of its work
		stopped()
	}
	found := d.settle(ctx, base, over)
	end(nil)
	ended.Wait()
	if err := errors.Join(failed...); err != nil {
		return err
	}
	d.view.conclude(d, found)
	if over {
		return found.err
	}
	return nil
}

// control runs the controller. Keys that are left at the end are no failure here.
func (d *demo) control(ctx context.Context) error {
	err := d.summary.Run(ctx)
	var left *controller.LeftError[object.Key]
	if errors.As(err, &left) {
		return nil
	}
	return err
}

// show shows what happens until there is a reason to end, and returns whether that was
// the end of the duration.
func (d *demo) show(ctx, base context.Context) (over bool) {
	var timeout <-chan time.Time
	if d.flags.duration > 0 {
		timer := time.NewTimer(d.flags.duration)
		defer timer.Stop()
		timeout = timer.C
	}
	began := time.Now()
	if err := d.awaitSync(ctx, base); err == nil {
		objects, _, _ := d.frame().totals()
		d.view.say("Mirrored %s objects of %d resources in %s.", thousands(objects), len(d.mirrors.all), brief(time.Since(began)))
	}
	if err := d.faults.inject(d.server); err != nil {
		d.view.say("%v", err)
	}
	if d.faults.any() {
		d.server.Cut("") // faults strike requests, and watches make none while they go well
	}
	close(d.striking)
	tick := time.NewTicker(d.view.period())
	defer tick.Stop()
	defer d.view.erase()
	for {
		d.view.draw(d.frame())
		select {
		case <-ctx.Done():
			return false
		case <-base.Done():
			return false
		case <-timeout:
			return true
		case <-tick.C:
		}
	}
}

// awaitSync waits for the first lists, but not for long: the view shows what is wrong.
func (d *demo) awaitSync(ctx, base context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	defer context.AfterFunc(base, cancel)()
	return d.cluster.WaitSynced(ctx)
}

// trouble breaks connections from time to time, if faults are to strike at random: a
// watch that goes well sends one request an hour, and chance would hardly ever meet it.
func (d *demo) trouble(ctx context.Context) error {
	if d.faults.rate == 0 {
		return nil
	}
	select {
	case <-ctx.Done():
		return nil
	case <-d.striking:
	}
	chance := rand.New(rand.NewPCG(d.faults.seed, 3))
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if n%10 == 0 {
			d.server.Compact(0) // whoever lost a connection is told 410
		}
		d.server.Cut(demoResources[chance.IntN(len(demoResources))])
	}
}

// settle waits until the mirror is what the server has, and says what was found. Faults
// are over: what they broke is to be mended.
func (d *demo) settle(ctx, base context.Context, over bool) comparison {
	patience, why := settleTime, "The time is over."
	if !over {
		patience, why = hastyTime, "Interrupted."
	}
	until, cancel := context.WithTimeout(base, patience)
	defer cancel()
	if over { // Ctrl-C ends the wait
		defer context.AfterFunc(ctx, cancel)()
	}
	d.view.say("%s Comparing the mirror with the server ...", why)
	if d.faults.any() {
		d.server.Clear()
		d.server.Cut("") // also those that are stalled
	}
	for {
		if found := d.mirrors.compare(until, d.server); found.err == nil && d.idle() || until.Err() != nil {
			return found
		}
		select {
		case <-until.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// idle reports whether the controller has nothing to do.
func (d *demo) idle() bool {
	s := d.summary.Status()
	return s.Queue.Waiting+s.Queue.Again+s.Queue.Processing == 0
}

func brief(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return fmt.Sprintf("%d µs", d.Microseconds())
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}
