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

At the end of --duration nothing is changed any more, and everything in the mirror is
compared with what the server has. Ctrl-C ends it at once, without that.

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
	if err := checkChurn(f.churn); err != nil {
		return err
	}
	switch {
	case f.objects < 1:
		return usagef("--objects must be at least 1")
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
	ran     time.Duration // how long things were changing, once that is over
	// striking is closed when faults may strike: not before there is something to see.
	striking chan struct{}
}

// settleTime is how long the end waits until the mirror has caught up.
const settleTime = time.Minute

// interrupted is what is said when nobody waited for the comparison.
const interrupted = "Interrupted; the mirror was not compared."

func runDemo(ctx context.Context, e *env, flags demoFlags) error {
	if err := flags.check(); err != nil {
		return err
	}
	faults, err := parseFaults(flags.faults)
	if err != nil {
		return err
	}
	d := &demo{flags: flags, faults: faults, view: newDemoView(e), started: time.Now(), striking: make(chan struct{})}
	d.view.say("Making up a cluster of about %s ...", counted(flags.objects, "object"))
	err = d.build(ctx, e)
	if ctx.Err() != nil {
		d.view.say(interrupted) // and there is nothing to sum up
		if err == nil {
			return d.server.Close()
		}
		return nil
	}
	if err != nil {
		return err
	}
	d.view.say("Made %s on a server in this process, in %s.", counted(d.churn.made, "object"), brief(time.Since(d.started)))
	if text := faults.String(); text != "" {
		d.view.say("Faults: %s.", text)
	}
	return d.run(ctx)
}

// build makes all parts; nothing runs yet.
func (d *demo) build(ctx context.Context, e *env) (err error) {
	if d.server, err = apiserver.New(apiserver.Options{CollectGarbage: true, Bookmarks: 5 * time.Second, Seed: max(d.flags.seed, 1), Logger: e.log}); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = d.server.Close() // what went wrong before is worth more
		}
	}()
	world, err := newDemoCluster(ctx, d.server, d.flags.objects, d.flags.seed)
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

// run has everything work until the context ends, or the duration is over, after which it
// looks whether the mirror is right.
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
	// The time ends the changes itself: the view may be busy with a slow terminal.
	began := time.Now()
	changing, rest := context.WithCancel(base)
	defer rest()
	if d.flags.duration > 0 {
		defer time.AfterFunc(d.flags.duration, rest).Stop()
	}
	calm := start(changing, d.churn.run)
	start(changing, d.trouble)
	start(base, d.control)

	d.show(ctx, base, changing)
	rest()
	calm()
	d.ran = time.Since(began)
	var found comparison
	if ctx.Err() == nil && base.Err() == nil {
		found = d.settle(ctx, base)
	}
	if ctx.Err() != nil && base.Err() == nil { // said before the parts end: somebody waits
		d.view.say(interrupted)
		d.view.conclude(d)
		d.view.suggest(d)
		end(nil)
		ended.Wait()
		return errors.Join(failed...)
	}
	end(nil)
	ended.Wait()
	if err := errors.Join(failed...); err != nil {
		return err
	}
	d.view.conclude(d)
	d.view.tell(found)
	if found.err == nil {
		d.view.suggest(d)
	}
	return found.err
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

// show shows what happens until nothing does: until the changes end, or one of the other
// contexts. Nothing is drawn then.
func (d *demo) show(ctx, base, changing context.Context) {
	began := time.Now()
	if err := d.awaitSync(ctx, base); err == nil {
		objects, _, _ := d.frame().totals()
		d.view.say("Mirrored %s of %d resources in %s.", counted(objects, "object"), len(d.mirrors.all), brief(time.Since(began)))
	}
	if ctx.Err() != nil {
		return
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
		f := d.frame()
		if ctx.Err() != nil {
			return
		}
		d.view.draw(f)
		if d.view.out.err() != nil {
			return // nothing of it can be seen
		}
		select {
		case <-ctx.Done():
			return
		case <-changing.Done():
			return
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
func (d *demo) settle(ctx, base context.Context) comparison {
	until, cancel := context.WithTimeout(base, settleTime)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	d.view.say("The time is over. Comparing the mirror with the server ...")
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
