package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "upstream:", err)
		os.Exit(1)
	}
}

const (
	clientGo = "k8s.io/client-go/"
	tarn     = "github.com/tarnproject/tarn/"
	standins = tarn + "e2e/upstream/standin"
	document = "../docs/clientgo-behaviours.md"
)

// adapters are the packages whose tests are run, and what they run over.
var adapters = map[string]string{
	clientGo + "tools/cache":               tarn + "clientgo",
	clientGo + "dynamic/dynamicinformer":   tarn + "clientgo/factory/dynamicinformer",
	clientGo + "metadata/metadatainformer": tarn + "clientgo/factory/metadatainformer",
}

// interfaces are used in place of pointers to these structs.
var interfaces = map[string]string{
	"sharedIndexInformer": theirs + "SharedIndexInformer",
	"threadSafeMap":       theirs + "ThreadSafeStoreWithTransaction",
	"Type":                theirs + "Interface",
}

// scenery is what a stand-in has although no adapter is under it.
var scenery = map[string]bool{"sharedProcessorRunHook": true}

// leftOut are tests that would run, and would not show what they are for.
var leftOut = map[string]string{
	"TestListenerResyncPeriodsDelayed": "delays client-go's internals",
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("upstream", flag.ContinueOnError)
	control := flags.Bool("control", false, "run the same tests over client-go itself")
	verbose := flags.Bool("v", false, "print what failing tests print")
	only := flags.String("run", "", "run the tests that match this regular expression")
	left := flags.Bool("left", false, "only print the tests that are left out, and why")
	keep := flags.String("keep", "", "leave the generated files in this folder, which exists")
	suites := flags.Bool("suites", false, "run the suites of operators against tarn apiserver; -run selects suites")
	onlyReal := flags.Bool("real", false, "with -suites: against kube-apiserver")
	both := flags.Bool("compare", false, "with -suites: against both, and list the specs that end differently")
	if err := flags.Parse(args); err != nil {
		return err
	}
	wanted, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	if *suites {
		sides := []string{embedded}
		switch {
		case *both:
			sides = []string{embedded, genuine}
		case *onlyReal:
			sides = []string{genuine}
		}
		return runSuites(ctx, sides, *verbose, wanted, *keep)
	}
	expected, err := expectedFailures(document)
	if err != nil {
		return err
	}
	tests, world, err := load(ctx)
	if err != nil {
		return err
	}
	b, err := newBench(*keep, *control)
	if err != nil {
		return err
	}
	defer b.clean()

	began := time.Now()
	var counts counts
	for _, s := range tests {
		r, err := rulesFor(s.path, world)
		if err != nil {
			return err
		}
		sel := s.chosen(r)
		tests := counts.sort(sel, wanted)
		if len(tests) > 0 && !*left {
			if err := b.add(ctx, sel, tests); err != nil {
				return err
			}
			counts.dropped += sel.removed
		}
	}
	if *left {
		for _, name := range slices.Sorted(slices.Values(counts.left)) {
			fmt.Println(name)
		}
		return nil
	}
	results := b.run(ctx, func(r result) bool { return expected[r.name] != "" && !*control })
	if err := ctx.Err(); err != nil {
		return err
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	wrong := 0
	for _, r := range results {
		verdict, why := "pass", ""
		switch id := expected[r.name]; {
		case *control && !r.passed:
			verdict = "FAIL"
		case !r.passed && id != "":
			verdict, why = "fail", "expected: "+id
		case !r.passed:
			verdict, why = "FAIL", "not listed in "+document
		case id != "" && !*control:
			verdict, why = "PASS", "listed as "+id+" in "+document
		case r.tries > 1:
			why = fmt.Sprintf("at try %d", r.tries)
		}
		if strings.ToLower(verdict) != verdict {
			wrong++
		}
		if r.passed {
			counts.passed++
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%.1fs\t%s\n", verdict, strings.TrimPrefix(r.path, clientGo), r.name, r.took.Seconds(), why)
		if *verbose && !r.passed {
			fmt.Printf("---- %s\n%s\n", r.name, r.output)
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Printf("\n%d of %d passed in %s, without %d statements about private state; left out: %d private, %d no adapter\n",
		counts.passed, len(results), time.Since(began).Round(time.Second), counts.dropped, counts.private, counts.none)
	if wrong > 0 {
		return fmt.Errorf("%d tests did not end as expected", wrong)
	}
	return nil
}

// counts says what became of the tests.
type counts struct {
	passed, private, none int
	dropped               int      // statements of the tests that run
	left                  []string // why and which
}

// sort returns the tests that run and counts the others.
func (c *counts) sort(sel *selection, wanted *regexp.Regexp) (tests []*group) {
	for _, g := range sel.groups {
		switch {
		case !g.isTest() || !wanted.MatchString(g.name):
		case g.private || leftOut[g.name] != "":
			c.private++
			c.left = append(c.left, "private\t"+g.name)
		case !g.redirected:
			c.none++
			c.left = append(c.left, "no adapter\t"+g.name)
		default:
			tests = append(tests, g)
		}
	}
	return tests
}

// rulesFor returns the rules for the tests of a package.
func rulesFor(path string, w world) (rules, error) {
	r := rules{adapter: adapters[path], redirect: map[string]string{}, members: map[string]bool{}, inter: interfaces}
	pkg, err := w.Import(r.adapter)
	if err != nil {
		return r, err
	}
	for _, name := range pkg.Scope().Names() {
		r.redirect[name] = ours + name
	}
	if !strings.HasSuffix(path, "/cache") {
		return r, nil
	}
	standin, err := w.check(w[standins], w[standins].GoFiles, nil)
	if err != nil {
		return r, err
	}
	scope := standin.under.Scope()
	for _, name := range scope.Names() {
		r.redirect[name] = name
		for _, member := range membersOf(scope.Lookup(name)) {
			r.members[name+"."+member.Name()] = true
		}
	}
	return r, nil
}

// expectedFailures reads the tests that are listed as failing, and the ids of the reasons:
// rows with an id and a test.
func expectedFailures(name string) (map[string]string, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	expected := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^\| (D\d+) \| (Test\w+) \|`).FindAllStringSubmatch(string(text), -1) {
		expected[m[2]] = m[1]
	}
	return expected, nil
}
