// Command scale measures Tarn beside client-go on a real control plane with very many
// objects: 100,000 pods and 50,000 custom resources, by default. They are
// written directly to etcd, in the form in which the API server stores them, because creating
// that many through the API server takes too long.
//
// Each side mirrors both resources in a separate process, with a handler on each, and goes
// through the same steps:
//
//   - sync: from nothing until the handlers have received everything.
//   - relist: both watches are answered with 410, so that everything is listed again,
//     though nothing has changed.
//   - churn: objects are changed as fast as etcd accepts it, until the handlers have
//     received the last change.
//   - restart: the API server is killed and started again. Time counts from when it is
//     ready, and processor time from when it was killed.
//
// In the end each side must hold what the server has, at the same versions.
//
// With -managers the sides are the cache of controller-runtime, and in its place controllerruntime.NewCache, compact and
// decoded. Their handlers are a predicate and a queue, and the steps are sync, churn and reads: what each read costs
// through the manager's client. Then a manager with controllers of 30 small kinds is started with each.
//
//	cd e2e && go run ./scale
//	cd e2e && go run ./scale -pods 10000 -widgets 5000
//	cd e2e && go run ./scale -managers
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/tarnproject/tarn/e2e/controlplane"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var err error
	if len(os.Args) == 2 && os.Args[1] == childArg {
		err = child(ctx, os.Stdin, os.Stdout)
	} else {
		err = run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(1)
	}
}

// settings are the flags.
type settings struct {
	pods, widgets, churn, rounds int
	managers                     bool
	kinds                        int
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("scale", flag.ContinueOnError)
	flags.SetOutput(stderr)
	var s settings
	flags.IntVar(&s.pods, "pods", 100_000, "how many pods")
	flags.IntVar(&s.widgets, "widgets", 50_000, "how many custom resources")
	flags.IntVar(&s.churn, "churn", 30_000, "how many changes")
	flags.IntVar(&s.rounds, "rounds", 1, "how often each side has its turn; the least of each figure counts")
	flags.BoolVar(&s.managers, "managers", false, "measure the cache of controller-runtime, and in its place that of package controllerruntime")
	flags.IntVar(&s.kinds, "kinds", 30, "with -managers: how many kinds, of 100 objects each, a manager has controllers of")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if !s.managers {
		s.kinds = 0
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if s.churn > s.pods*3/2 || s.churn > s.widgets*3 {
		return fmt.Errorf("%d changes are more than one for each object; -churn has to be less", s.churn)
	}
	if s.pods < 1 || s.widgets < 1 || s.churn < 0 || s.rounds < 1 {
		return errors.New("less than one object or round")
	}
	began := time.Now()
	tell := func(format string, args ...any) {
		fmt.Fprintf(stderr, "%6s  %s\n", time.Since(began).Round(time.Second), fmt.Sprintf(format, args...))
	}
	tell("starting a control plane")
	plane, err := controlplane.New(ctx, controlplane.Options{StartTimeout: 10 * time.Minute})
	if err != nil {
		return err
	}
	defer plane.Close()
	lab := &lab{settings: s, plane: plane, writer: newWriter(plane), tell: tell}
	if err := lab.furnish(ctx); err != nil {
		return err
	}
	results, err := lab.measure(ctx)
	if err != nil {
		return err
	}
	return table(stdout, s, results)
}
