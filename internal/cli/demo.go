package cli

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	tarn "github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/console"
	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/internal/hostcheck"
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
}

func newDemoCommand(e *env) *cobra.Command {
	var flags demoFlags
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run a demo; no cluster needed",
		Long: `Run an API server in this process with a generated cluster that keeps changing, mirror the
cluster, run a controller that writes a summary of each namespace, and show how far the mirrors
are. Nothing is installed and nothing is left behind.

The console at the printed address shows all of it in a browser.

After --duration the changes stop and the mirrors are compared with the server. Ctrl-C stops
immediately, without the comparison.

--faults makes 10 % of requests fail at random. It takes the same values as for tarn
apiserver.`,
		Example: `  tarn demo                                # until Ctrl-C
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
	changed *demoCluster
	summary *tarn.Controller
	console net.Listener
	screen  *screen
	started time.Time
	shown   demoFigures
}

// demoTime is how long the demo waits for the first lists, and at the end for the mirrors to catch up.
const demoTime = time.Minute

const interrupted = "Interrupted; the mirrors were not compared with the server."

func runDemo(ctx context.Context, e *env, flags demoFlags) error {
	if err := flags.check(); err != nil {
		return err
	}
	faults, err := parseFaults(flags.faults)
	if err != nil {
		return err
	}
	d := &demo{flags: flags, faults: faults, screen: newScreen(e), started: time.Now()}
	defer d.screen.close()
	d.say("Generating a cluster of about %s ...", counted(flags.objects, "object"))
	err = d.build(ctx, e)
	if ctx.Err() != nil {
		d.say(interrupted) // nothing to summarize
		if err == nil {
			return errors.Join(d.console.Close(), d.server.Close())
		}
		return nil
	}
	if err != nil {
		return err
	}
	d.say("Created %s on an in-process server in %s.", counted(d.changed.made, "object"), short(time.Since(d.started)))
	if text := faults.String(); text != "" {
		d.say("Faults: %s.", text)
	}
	d.say("Console: http://%s/debug/tarn/", hostcheck.Reachable(flags.listen, d.console.Addr()))
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
	if d.changed, err = newDemoCluster(ctx, d.server, d.flags.objects, d.flags.seed); err != nil {
		return err
	}
	if d.cluster, err = tarn.Connect(tarn.WithConfig(d.server.Config()), tarn.WithLogger(e.log), tarn.WithTuning(tarn.Tuning{Backoff: reflector.Backoff{Min: 100 * time.Millisecond, Max: 2 * time.Second}})); err != nil {
		return err
	}
	if d.summary, err = newSummarizer(d.cluster); err != nil {
		return err
	}
	if d.console, err = net.Listen("tcp", d.flags.listen); err != nil {
		return listenError(d.flags.listen, err)
	}
	return nil
}

// run runs all parts until ctx or the duration ends. After the duration it compares the mirrors
// with the server.
func (d *demo) run(ctx context.Context) error {
	// The server and the mirrors outlive ctx, so that they can be compared.
	base, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	parts, base := errgroup.WithContext(base)
	parts.Go(func() error { return d.server.Run(base) })
	parts.Go(func() error { return d.runCluster(base) })
	parts.Go(func() error { return (&console.Server{Listener: d.console, Handler: d.cluster.Handler()}).Run(base) })

	changing, stop := context.WithCancel(base)
	defer context.AfterFunc(ctx, stop)()
	changes, changing := errgroup.WithContext(changing)
	changes.Go(func() error { return d.changed.churn(changing, d.flags.churn) })
	changes.Go(func() error { return d.show(changing, stop) })
	err := changes.Wait()
	stop()
	ran := time.Since(d.started)
	if err == nil && base.Err() == nil && ctx.Err() == nil {
		var text string
		if text, err = d.compare(ctx, base); err == nil {
			d.conclude(ran)
			d.say("%s", text)
		}
	}
	if ctx.Err() != nil && base.Err() == nil { // print this before shutdown, which takes a moment
		err = nil
		d.say(interrupted)
		d.conclude(ran)
	}
	end()
	return errors.Join(err, parts.Wait())
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

// show prints figures until ctx ends: in the last line of a terminal, otherwise as a line per
// second. It calls stop when the mirrors have been live for the duration. Random faults also cut connections and
// compact the history, because a healthy watch sends about one request per hour.
func (d *demo) show(ctx context.Context, stop func()) error {
	began := time.Now()
	waiting, cancel := context.WithTimeout(ctx, demoTime)
	err := d.cluster.WaitSynced(waiting)
	cancel()
	if ctx.Err() != nil {
		return nil
	} else if err != nil {
		return err
	}
	d.say("Mirrored %s in %s.", counted(d.figures().objects, "object"), short(time.Since(began)))
	if err := d.faults.inject(d.server); err != nil {
		return err
	}
	if d.faults.any() {
		d.server.Cut("") // faults affect new requests; healthy watches send none
	}
	chance := rand.New(rand.NewPCG(d.faults.seed, 3))
	mirrors := d.cluster.Status().Mirrors
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	if d.flags.duration > 0 {
		defer time.AfterFunc(d.flags.duration, stop).Stop()
	}
	for n := 0; ctx.Err() == nil && d.screen.out.err() == nil; n++ {
		switch line := d.line(); {
		case d.screen.tty:
			d.screen.status(line)
		case n%2 == 0:
			d.say("%s", line)
		}
		if d.faults.rate > 0 {
			if n%10 == 9 {
				d.server.Compact(0) // resuming watches get 410
			}
			d.server.Cut(mirrors[chance.IntN(len(mirrors))].Resource.String())
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
	return d.screen.out.err() // without output, the demo ends
}

// say prints a line.
func (d *demo) say(format string, args ...any) {
	p := d.screen.blank()
	p.put(plain(fmt.Sprintf(format, args...)) + "\n")
	_ = d.screen.print(p) // the printer keeps the error
}

// demoFigures are figures of all mirrors.
type demoFigures struct {
	at           time.Time
	objects, lag int
	events       int64
	states       string // of those that are not live
}

func (d *demo) figures() demoFigures {
	f := demoFigures{at: time.Now()}
	for _, m := range d.cluster.Status().Mirrors {
		f.objects += m.Objects
		for _, src := range m.Informer.Sources {
			f.events += src.Reflector.Counts.Events
		}
		for _, sub := range m.Informer.Subscribers {
			f.lag += sub.Lag
		}
		if m.State != tarn.Live {
			f.states += "  " + m.Name + " " + m.State.String()
		}
	}
	if f.states == "" {
		f.states = "  all live"
	}
	return f
}

// line returns the present figures, with rates since the last call.
func (d *demo) line() string {
	now, before, s := d.figures(), d.shown, d.summary.Status()
	rate := 0.0
	if !before.at.IsZero() {
		rate = float64(now.events-before.events) / now.at.Sub(before.at).Seconds()
	}
	d.shown = now
	return fmt.Sprintf("%5.1fs  %s  %.0f events/s  lag %s  queue %d  %s, %d failed  %s%s", now.at.Sub(d.started).Seconds(), counted(now.objects, "object"), rate,
		counted(now.lag, "event"), s.Queue.Waiting+s.Queue.Dirty, counted(int(s.Reconciles), "reconcile"), s.Failed, faultCount(d.server), now.states)
}

// faultCount describes the faults that the server has injected.
func faultCount(server *apiserver.Server) string {
	total := 0
	var kinds []string
	for _, kind := range faultKinds {
		if n := server.Injected(kind); n > 0 {
			total += n
			kinds = append(kinds, fmt.Sprintf("%d %s", n, kind))
		}
	}
	if total == 0 {
		return "no faults"
	}
	return fmt.Sprintf("%s injected: %s", counted(total, "fault"), strings.Join(kinds, ", "))
}

// compare ends all faults and compares the mirrors with the server.
func (d *demo) compare(ctx, base context.Context) (string, error) {
	base, cancel := context.WithTimeout(base, demoTime)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	d.say("Done. Comparing the mirrors with the server ...")
	d.server.Clear()
	d.server.Cut("") // including stalled watches
	results, err := d.cluster.Audit(base)
	if err != nil {
		return "", fmt.Errorf("the mirrors could not be compared with the server: %w", err)
	}
	objects := 0
	for name, result := range results {
		if objects += result.Objects; result.Count() > 0 {
			return "", fmt.Errorf("%d %s differ from the server, such as %s", result.Count(), name, result.Differences[0])
		}
	}
	return fmt.Sprintf("The mirrors equal the server: %s of %d resources, each compared at one exact version.", counted(objects, "object"), len(results)), nil
}

// conclude prints the totals.
func (d *demo) conclude(ran time.Duration) {
	s := d.summary.Status()
	d.say("Ran for %s: %s, %s mirrored, %s, %d failed and retried, %s.", short(ran), counted(int(d.changed.writes.Load()), "write"),
		counted(int(d.figures().events), "event"), counted(int(s.Reconciles), "reconcile"), s.Failed, faultCount(d.server))
}
