package cli

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/spf13/cobra"

	tarn "github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/console"
	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
)

type demoFlags struct {
	duration time.Duration
	objects  int
	churn    float64
	seed     uint64
	faults   []string
	listen   string
	open     bool
}

func newDemoCommand(e *env) *cobra.Command {
	var flags demoFlags
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run a demo; no cluster needed",
		Long: `Run an API server in this process with a generated cluster that keeps changing, mirror the
cluster with indexes, run a controller that writes a summary of each namespace, and show the
live state. Nothing is installed and nothing is left behind.

The console at the printed address shows the same in a browser, and everything behind it.

After --duration the changes stop and the mirror is compared with the server. Ctrl-C, or q on
a terminal, stops immediately, without the comparison.

--faults makes 10 % of requests fail at random. It takes the same values as for tarn
apiserver.`,
		Example: `  tarn demo                                # until q or Ctrl-C
  tarn demo --open                         # with the console in a browser
  tarn demo --duration 10s --faults        # with random faults
  tarn demo --faults=random:0.5:7          # a fixed rate and seed
  tarn demo --objects 50000 --churn 2000   # a larger cluster
  tarn demo --duration 5s | cat            # one line per second`,
		Args: faultArgs(&flags.faults),
		RunE: func(cmd *cobra.Command, _ []string) error { return runDemo(cmd.Context(), e, flags) },
	}
	f := cmd.Flags()
	f.DurationVar(&flags.duration, "duration", 0, "how long to run (default until interrupted)")
	f.IntVar(&flags.objects, "objects", 3000, "the approximate number of objects in the cluster")
	f.Float64Var(&flags.churn, "churn", 100, "writes per second")
	f.Uint64Var(&flags.seed, "seed", 1, "the seed of the generated cluster and its changes")
	f.StringVar(&flags.listen, "listen", "127.0.0.1:0", "the `address` of the console; port 0 picks a free port")
	f.BoolVar(&flags.open, "open", false, "open the console in a browser")
	addFaults(cmd, &flags.faults)
	return cmd
}

func (f *demoFlags) check() error {
	if err := checkListen(f.listen, false, "127.0.0.1:8484"); err != nil {
		return err
	}
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

type demo struct {
	flags   demoFlags
	faults  faultSpec
	server  *apiserver.Server
	cluster *tarn.Cluster
	mirrors *demoMirrors
	churn   *demoChurn
	summary *tarn.Controller
	console net.Listener
	view    *demoView
	started time.Time
	ran     time.Duration // how long the cluster was changing, set at the end
	// faultsOn is closed when faults may start, once there is something to see.
	faultsOn chan struct{}
}

// settleTime is how long the end waits for the mirror to catch up.
const settleTime = time.Minute

const interrupted = "Interrupted; the mirror was not compared with the server."

func runDemo(ctx context.Context, e *env, flags demoFlags) error {
	if err := flags.check(); err != nil {
		return err
	}
	faults, err := parseFaults(flags.faults)
	if err != nil {
		return err
	}
	ctx, restore := quitOnKey(ctx, e)
	defer restore()
	d := &demo{flags: flags, faults: faults, view: newDemoView(e), started: time.Now(), faultsOn: make(chan struct{})}
	d.view.say("Generating a cluster of about %s ...", counted(flags.objects, "object"))
	err = d.build(ctx, e)
	if ctx.Err() != nil {
		d.view.say(interrupted) // nothing to summarize
		if err == nil {
			return errors.Join(d.console.Close(), d.server.Close())
		}
		return nil
	}
	if err != nil {
		return err
	}
	d.view.say("Created %s on an in-process server in %s.", counted(d.churn.made, "object"), brief(time.Since(d.started)))
	if text := faults.String(); text != "" {
		d.view.say("Faults: %s.", text)
	}
	address := consoleAddress(flags.listen, d.console)
	d.view.say("Console: %s", address)
	if flags.open {
		if err := openBrowser(address); err != nil {
			d.view.say("%v", err)
		}
	}
	return d.run(ctx)
}

// build creates all parts without starting them.
func (d *demo) build(ctx context.Context, e *env) (err error) {
	if d.server, err = apiserver.New(apiserver.Options{CollectGarbage: true, Bookmarks: 5 * time.Second, Seed: max(d.flags.seed, 1), Logger: e.log}); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = d.server.Close() // the earlier error matters more
		}
	}()
	world, err := newDemoCluster(ctx, d.server, d.flags.objects, d.flags.seed)
	if err != nil {
		return err
	}
	d.churn = newDemoChurn(world, d.flags.churn)
	if d.cluster, err = tarn.Connect(tarn.WithConfig(d.server.Config()), tarn.WithLogger(e.log), tarn.WithTuning(tarn.Tuning{Backoff: reflector.Backoff{Min: 100 * time.Millisecond, Max: 2 * time.Second}})); err != nil {
		return err
	}
	if d.mirrors, err = newDemoMirrors(d.cluster); err != nil {
		return err
	}
	if d.summary, err = newSummarizer(d.cluster, d.mirrors); err != nil {
		return err
	}
	if d.console, err = net.Listen("tcp", d.flags.listen); err != nil {
		return listenError(d.flags.listen, err)
	}
	return nil
}

// run runs all parts until ctx or the duration ends. After the duration it compares the
// mirror with the server.
func (d *demo) run(ctx context.Context) error {
	// The server and the mirrors outlive ctx, so that they can be compared.
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
	start(base, d.runCluster)
	start(base, (&console.Server{Listener: d.console, Handler: d.cluster.Handler()}).Run)
	// The timer ends the changes itself, since a slow terminal may block the view.
	began := time.Now()
	changing, rest := context.WithCancel(base)
	defer rest()
	if d.flags.duration > 0 {
		defer time.AfterFunc(d.flags.duration, rest).Stop()
	}
	calm := start(changing, d.churn.run)
	start(changing, d.breakConnections)

	d.show(ctx, base, changing)
	rest()
	calm()
	d.ran = time.Since(began)
	var found comparison
	if ctx.Err() == nil && base.Err() == nil {
		found = d.settle(ctx, base)
	}
	if ctx.Err() != nil && base.Err() == nil { // print this before shutdown, which takes a moment
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
	d.view.printComparison(found)
	if found.err == nil {
		d.view.suggest(d)
	}
	return found.err
}

// runCluster runs the mirrors and the controller. Keys left in its queue at the end are not an
// error.
func (d *demo) runCluster(ctx context.Context) error {
	err := d.cluster.Run(ctx)
	var left *controller.UnfinishedError[object.Key]
	if errors.As(err, &left) {
		return nil
	}
	return err
}

// show draws frames until the changes or one of the contexts end.
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
		d.server.Cut("") // faults affect new requests; healthy watches send none
	}
	close(d.faultsOn)
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
			return // the output is lost
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

// awaitSync waits briefly for the initial lists; the view shows problems.
func (d *demo) awaitSync(ctx, base context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	defer context.AfterFunc(base, cancel)()
	return d.cluster.WaitSynced(ctx)
}

// breakConnections cuts connections from time to time if random faults are on. Healthy
// watches send about one request per hour, so random faults would rarely hit one.
func (d *demo) breakConnections(ctx context.Context) error {
	if d.faults.rate == 0 {
		return nil
	}
	select {
	case <-ctx.Done():
		return nil
	case <-d.faultsOn:
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
			d.server.Compact(0) // resuming watches get 410
		}
		d.server.Cut(demoResources[chance.IntN(len(demoResources))])
	}
}

// settle ends all faults, waits until the mirror has caught up, and compares it with the
// server.
func (d *demo) settle(ctx, base context.Context) comparison {
	until, cancel := context.WithTimeout(base, settleTime)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	d.view.say("Done. Comparing the mirror with the server ...")
	if d.faults.any() {
		d.server.Clear()
		d.server.Cut("") // including stalled watches
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

// idle reports whether the controller has no work.
func (d *demo) idle() bool {
	s := d.summary.Status()
	return s.Queue.Waiting+s.Queue.Dirty+s.Queue.Processing == 0
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
