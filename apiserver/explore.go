package apiserver

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarnproject/tarn/apiserver/internal/dump"
	"github.com/tarnproject/tarn/apiserver/internal/kinds"
	"github.com/tarnproject/tarn/apiserver/internal/recorded"
	"github.com/tarnproject/tarn/apiserver/internal/request"
)

// ExploreOptions configures [Explore]. The zero value is usable.
type ExploreOptions struct {
	// Server configures the server of each run. Its Seed defaults to 1; its Address is
	// ignored.
	Server Options
	// Faults are the kinds of faults that hit a write, each in a run of its own. With Conflict another
	// writer changes the object just before the write: it adds an annotation, which must still be there
	// at the end. The server then responds as it always does, with 409 if the write has a resource
	// version. Defaults to KillBefore and KillAfter.
	Faults []FaultKind
	// Pairs adds runs with two faults. Their number grows with the square of the number of
	// writes. Defaults to false.
	Pairs bool
	// StaleCache adds runs in which the program's watches are behind by this time, with and
	// without another fault. Defaults to none.
	StaleCache time.Duration
	// SameState requires that the state of the server at the end of the test is that of the
	// run without faults, as returned by [Server.Dump]. Defaults to false.
	SameState bool
	// Limit ends the context of the test after this virtual time in each run, so that a run
	// with a program that retries forever fails. Defaults to one hour.
	Limit time.Duration
	// Ignore lists resources, such as "pods" or "deployments.apps", whose writes are not
	// counted. Defaults to leases and events.
	Ignore []string
}

// Explore checks that a controller reaches its goal wherever it crashes. It runs a test
// without faults to find the writes of the programs that the test passes to
// [Server.Supervise], and then once for each write that changed something and kind of fault:
// by default the program is killed just before and just after the write is stored, and
// started again.
//
// The test acts as the users of the cluster, waits, and checks the result. Each run has a new
// server and a testing/synctest bubble, so waiting costs nothing; wait long enough for a
// restart and for what the controller waits for then, such as a lease.
//
// Each run is a subtest named after its schedule: "kill-after:3" kills the program after its
// third write, counting also writes that the server rejects. Explore stops at the first
// schedule that fails and reports it with the requests of the run. Smaller schedules run
// first, so no part of it fails alone. To repeat it, select the subtest, as in
//
//	go test -run '^TestWebsite$/^kill-after:3$'
//
// A program with several workers may send its writes in another order each time. A subtest
// whose faults hit no write is skipped, and a kind of fault that no write of the program accepts
// fails the test.
func Explore(t *testing.T, opts ExploreOptions, test func(t testing.TB, server *Server)) {
	t.Helper()
	for _, kind := range opts.Faults {
		if err := (Fault{Kind: kind}).Validate(); err != nil {
			t.Fatal(err)
		}
	}
	x := newExploration(opts, test)
	first := x.run(t, nil)
	if first.skipped != "" {
		t.Skip(first.skipped)
	}
	if first.failure != "" {
		t.Fatalf("apiserver: the test fails without faults: %s", first.failure)
	}
	if len(first.stored) == 0 {
		t.Fatal("apiserver: no program of Server.Supervise wrote anything, so there is nothing to explore")
	}
	runs := 1
	tried := x.explore(first, func(s schedule) (result outcome, ok bool) {
		ok = t.Run(s.String(), func(t *testing.T) {
			runs++
			if result = x.run(t, s); result.failure != "" {
				t.Errorf("apiserver: the test fails with %s; repeat with -run '%s'\n%s", result.explain(s), pattern(t.Name()), result.failure)
			} else if result.skipped != "" {
				t.Skip(result.skipped)
			}
		})
		return result, ok
	})
	for _, kind := range x.Faults {
		if !t.Failed() && !slices.Contains(tried, kind) {
			t.Errorf("apiserver: no write of the program accepts the fault %s", kind)
		}
	}
	t.Logf("apiserver: %d writes, %d runs", len(first.stored), runs)
}

// pattern returns the value of -run that selects one subtest.
func pattern(name string) string {
	return "^" + strings.ReplaceAll(regexp.QuoteMeta(name), "/", "$/^") + "$"
}

// exploration is a test with its options and defaults.
type exploration struct {
	ExploreOptions
	test   func(testing.TB, *Server)
	wanted string // state at the end of the run without faults
}

func newExploration(opts ExploreOptions, test func(testing.TB, *Server)) *exploration {
	opts.Server.Seed, opts.Server.Address = cmp.Or(opts.Server.Seed, 1), ""
	opts.Limit = cmp.Or(opts.Limit, time.Hour)
	if len(opts.Faults) == 0 {
		opts.Faults = []FaultKind{KillBefore, KillAfter}
	}
	if opts.Ignore == nil {
		opts.Ignore = []string{"leases.coordination.k8s.io", "events", "events.events.k8s.io"}
	}
	return &exploration{ExploreOptions: opts, test: test}
}

// explore calls try with each schedule, smaller ones first, until it returns false. It returns
// the kinds of the faults that it tried.
func (x *exploration) explore(first outcome, try func(schedule) (outcome, bool)) (kinds []FaultKind) {
	x.wanted = first.dump
	type tried struct {
		schedule
		outcome
	}
	level := []tried{{nil, first}}
	if x.StaleCache > 0 {
		stale := schedule{{kind: StaleCache, wait: x.StaleCache}}
		result, ok := try(stale)
		if !ok {
			return nil
		}
		level = append(level, tried{stale, result})
	}
	sizes := 1
	if x.Pairs {
		sizes = 2
	}
	for range sizes {
		var next []tried
		for _, base := range level {
			for _, w := range base.candidates(base.schedule, first.writes) {
				for _, kind := range x.Faults {
					if w.known && !w.accepts(kind, false) {
						continue
					}
					longer := append(slices.Clone(base.schedule), step{kind: kind, write: w.n})
					result, ok := try(longer)
					if !result.ran || result.skipped == "" {
						kinds = append(kinds, kind)
					}
					if !ok {
						return kinds
					}
					if result.skipped == "" {
						next = append(next, tried{longer, result})
					}
				}
			}
		}
		level = next
	}
	return kinds
}

// schedule lists the faults of one run.
type schedule []step

// step is a fault that hits a write, counted from 1, or the delay of StaleCache.
type step struct {
	kind  FaultKind
	write int
	wait  time.Duration
}

// String returns the schedule as the name of a subtest.
func (s schedule) String() string {
	var parts []string
	for _, step := range s {
		if step.kind == StaleCache {
			parts = append(parts, fmt.Sprintf("%s:%v", step.kind, step.wait))
		} else {
			parts = append(parts, fmt.Sprintf("%s:%d", step.kind, step.write))
		}
	}
	return strings.Join(parts, ",")
}

// writes returns the number of faults that must hit a write.
func (s schedule) writes() (n int) {
	for _, step := range s {
		if step.kind != StaleCache {
			n++
		}
	}
	return n
}

// storedWrite is a write that changed something, counted from 1.
type storedWrite struct {
	target
	n     int
	known bool // the target is known
}

// outcome is the result of one run. It is zero if the subtest was not selected.
type outcome struct {
	ran     bool
	writes  int // requests, including those that were rejected
	stored  []storedWrite
	hit     []string // the writes that faults hit, in the order of the schedule
	failure string   // empty if the run succeeded
	skipped string   // why the run proves nothing, if it does not
	dump    string
}

// candidates returns the writes at which a schedule can be extended: those after its last
// fault that changed something or, if it did not run, as many as the program makes at most.
func (o outcome) candidates(s schedule, writes int) (found []storedWrite) {
	last := 0
	for _, step := range s {
		last = max(last, step.write)
	}
	if o.ran {
		return slices.DeleteFunc(slices.Clone(o.stored), func(w storedWrite) bool { return w.n <= last })
	}
	for n := range writes {
		found = append(found, storedWrite{n: last + n + 1})
	}
	return found
}

// explain returns the schedule with the writes that it hit.
func (o outcome) explain(s schedule) string {
	if len(o.hit) == 0 {
		return s.String()
	}
	return fmt.Sprintf("%s (%s)", s, strings.Join(o.hit, "; "))
}

// run runs the test once in a bubble. It does not fail t.
func (x *exploration) run(t *testing.T, s schedule) (result outcome) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		recorded := recorded.New(t, x.Limit)
		server := Start(recorded, x.Server)
		run := &explored{exploration: x, server: server, schedule: s}
		server.plan = run.plan
		recorded.Do(func() { x.test(recorded, server) })
		for _, c := range run.overwritten() {
			recorded.Errorf("the change of another writer to %s %s, before write %d, was lost: it set the annotation %s. "+
				"An update must have the resource version of the object that it was made from, and after a conflict the object must be read again",
				c.kind, c.key, c.write, anotherWriter)
		}
		result.dump = string(server.Dump())
		if s != nil && x.SameState && !recorded.Failed() && result.dump != x.wanted {
			recorded.Errorf("the state is not that of the run without faults (-without +with):\n%s", dump.Diff(x.wanted, result.dump))
		}
		recorded.End() // stops the programs and the server, so run is no longer used
		if recorded.Stuck {
			panic(recorded.Text()) // the bubble cannot end
		}
		result.ran, result.writes, result.stored, result.hit, result.failure = true, run.writes, run.stored, run.hit, recorded.Text()
		result.skipped = recorded.SkipReason()
		if planned := s.writes(); result.skipped == "" && len(run.hit) < planned {
			result.skipped = fmt.Sprintf("apiserver: %d of %d faults hit a write; the run made %d writes", len(run.hit), planned, run.writes)
		}
	})
	return result
}

// explored is one run.
type explored struct {
	*exploration
	server   *Server
	schedule schedule

	mu     sync.Mutex // guards the rest
	writes int
	stored []storedWrite
	hit    []string

	competing []competingChange
}

// plan counts the writes of the programs and adds the faults of the schedule.
func (x *explored) plan(r *request.Request, faults *requestFaults) (answered func()) {
	target := targetOf(r)
	counts := target.writes() && !r.Kind.Review && !r.DryRun() &&
		!slices.ContainsFunc(x.Ignore, func(resource string) bool { return kinds.Named(resource)(r.Kind) })
	x.mu.Lock()
	defer x.mu.Unlock()
	if counts {
		x.writes++
	}
	for _, step := range x.schedule {
		switch {
		case step.kind == StaleCache && target.accepts(StaleCache, false):
		case counts && step.write == x.writes && target.accepts(step.kind, false):
			x.hit = append(x.hit, fmt.Sprintf("%d: %v", x.writes, titleOf(r)))
			if step.kind == Conflict {
				if c, ok := x.server.compete(r, x.writes); ok {
					x.competing = append(x.competing, c)
				}
				faults.add(Fault{Kind: anotherWriterFirst}, nil) // for the log of requests
				continue
			}
		default:
			continue
		}
		faults.add(Fault{Kind: step.kind, Wait: cmp.Or(step.wait, time.Second)}, nil)
	}
	n, before := x.writes, x.server.Version()
	return func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		if counts && x.server.Version() != before {
			x.stored = append(x.stored, storedWrite{target, n, true})
		}
	}
}
