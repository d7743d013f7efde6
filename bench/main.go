// Command bench measures Tarn beside client-go, and its work queue also beside
// controller-runtime's, with the same objects in the same run, and prints one table: store and
// FIFO, work queue, lists and watches, informer, adapters.
//
// docs/benchmarks.md describes the objects and how each figure is made.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime"
	"runtime/pprof"
	"strings"
	"time"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// options are the parsed flags.
type options struct {
	objects, rounds int
	run             *regexp.Regexp
	benchstat       bool
	cpuprofile      string
	turn            time.Duration
	growth          string // a file for the plots
}

// Report is what a run has measured.
type Report struct {
	Go        string
	CPUs      int
	Objects   int
	Rounds    int
	TimerCost int64
	PodBytes  float64
	Rows      []Row
}

// run is the command. It returns 0 whether or not targets are met, 1 if a side failed, 2 for a
// usage error.
func run(args []string, stdout, stderr io.Writer) int {
	if len(args) > 0 {
		switch args[0] { // a child process of this program
		case childArg:
			return child(args[1:], stdout, stderr)
		case serveArg:
			return serve(args[1:], os.Stdin, stdout, stderr)
		case controllerServeArg:
			return controllerServe(args[1:], os.Stdin, stdout, stderr)
		}
	}
	opts, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	}
	if opts.growth != "" {
		if err := growth(opts, growthSizes, stdout, stderr); err != nil {
			fmt.Fprintln(stderr, "bench:", err)
			return 1
		}
		return 0
	}
	report, err := measured(opts, stderr)
	if err == nil {
		err = report.write(stdout, opts.benchstat)
	}
	if err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		return 1
	}
	return 0
}

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	var names []string
	for _, m := range measures {
		names = append(names, m.name)
	}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprintf(stderr, "Measures Tarn beside client-go and prints one table.\n\nUsage: go run . [flags]\n\n")
		flags.PrintDefaults()
		fmt.Fprintf(stderr, "\nMeasures: %s\n", strings.Join(names, ", "))
	}
	flags.IntVar(&o.objects, "objects", 100_000, "`number` of pods; the targets are for 100,000. Defaults to 1,000,000 for the measure million")
	flags.IntVar(&o.rounds, "rounds", 7, "`number` of rounds of each measure")
	flags.DurationVar(&o.turn, "turn", 100*time.Millisecond, "how long one side runs in a round, where that can be chosen")
	flags.BoolVar(&o.benchstat, "benchstat", false, "print the value of every round in the format of go test -bench, which benchstat compares, instead of the table")
	flags.StringVar(&o.cpuprofile, "cpuprofile", "", "write a CPU profile to `file`; samples have the label side=tarn or side=client-go. Measures in separate processes write to file.measure.side")
	flags.StringVar(&o.growth, "growth", "", "instead of the table, measure 1,000 to 1,000,000 pods and write plots to `file`; needs 11 GB of memory")
	pattern := flags.String("run", "", "only measures whose name matches the `regexp`")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	wrong := func(format string, args ...any) (options, error) {
		err := fmt.Errorf(format, args...)
		fmt.Fprintf(stderr, "bench: %v; see -help\n", err)
		return o, err
	}
	var err error
	if o.run, err = regexp.Compile(*pattern); err != nil {
		return wrong("-run: %v", err)
	}
	switch {
	case flags.NArg() > 0:
		return wrong("unexpected argument %q", flags.Arg(0))
	case o.objects < 1_000:
		return wrong("-objects is %d; want at least 1,000", o.objects)
	case o.rounds < 1:
		return wrong("-rounds is %d; want at least 1", o.rounds)
	case o.turn <= 0:
		return wrong("-turn is %v; want a positive duration", o.turn)
	}
	if of := selected(o.run); len(of) > 0 {
		given := false
		flags.Visit(func(f *flag.Flag) { given = given || f.Name == "objects" })
		if of[0].named && !given {
			o.objects = 1_000_000
		}
		return o, nil
	}
	return wrong("-run %q matches none of %s", *pattern, strings.Join(names, ", "))
}

// measured runs the selected measures. Progress goes to stderr.
func measured(opts options, stderr io.Writer) (report *Report, err error) {
	defer recovered(&err)
	l := newLab(opts, stderr)
	report = &Report{
		Go:        runtime.Version(),
		CPUs:      runtime.GOMAXPROCS(0),
		Objects:   opts.objects,
		Rounds:    opts.rounds,
		TimerCost: timerCost(),
	}
	var here, apart []measure
	for _, m := range selected(opts.run) {
		if m.apart {
			apart = append(apart, m)
		} else {
			here = append(here, m)
		}
	}
	each := func(of []measure) {
		for _, m := range of {
			l.progress("%s", m.name)
			rows := m.run(l)
			for _, r := range rows {
				fmt.Fprintf(stderr, "       %s\n", strings.Join(r.cells(), " | "))
			}
			report.Rows = append(report.Rows, rows...)
		}
	}
	stop, err := profile(opts.cpuprofile)
	if err != nil {
		return nil, err
	}
	defer stop()
	if len(here) > 0 {
		l.fill()
		report.PodBytes = l.podBytes
		each(here)
	}
	l.empty()
	defer l.close()
	each(apart)
	return report, nil
}

func profile(path string) (stop func(), err error) {
	if path == "" {
		return func() {}, nil
	}
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return func() {
		pprof.StopCPUProfile()
		_ = file.Close()
	}, nil
}

// write prints the report.
func (r *Report) write(w io.Writer, benchstat bool) error {
	if benchstat {
		return writeRounds(w, r.Rows)
	}
	if err := writeTable(w, r.Rows); err != nil {
		return err
	}
	size := ""
	if r.PodBytes > 0 {
		size = fmt.Sprintf(" of %s on the heap each", quantity(r.PodBytes, Bytes))
	}
	_, err := fmt.Fprintf(w, "\n%s pods%s, %d rounds, %s, %d processors, reading the clock %d ns.\n"+
		"Ratio: client-go (or the named peer) divided by tarn. See docs/benchmarks.md.\n",
		number(float64(r.Objects)), size, r.Rounds, r.Go, r.CPUs, r.TimerCost)
	return err
}
