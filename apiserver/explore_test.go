package apiserver_test

import (
	"context"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarnproject/tarn/apiserver"
	"k8s.io/client-go/rest"
)

// exploreFails makes TestExplorationThatFails run, in a process of its own.
const exploreFails = "TARN_EXPLORE_FAILS"

func TestExplorationThatFails(t *testing.T) {
	if os.Getenv(exploreFails) == "" {
		t.Skip("for TestExploreReportsTheScheduleThatFails")
	}
	p := plantedBugs[0]
	apiserver.Explore(t, apiserver.ExploreOptions{Pairs: true}, func(t testing.TB, server *apiserver.Server) {
		w := &world{records: map[string]bool{}}
		server.Supervise(t, p.program(true, w))
		p.test(&user{t, server, w})
	})
}

func TestExploreReportsTheScheduleThatFails(t *testing.T) {
	run := func(pattern string) string {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run", pattern)
		cmd.Env = append(os.Environ(), exploreFails+"=1")
		out, err := cmd.CombinedOutput()
		if err == nil {
			t.Errorf("%s did not fail", pattern)
		}
		return string(out)
	}
	out := run("^TestExplorationThatFails$")
	for _, want := range []string{
		"the test fails with kill-after:1 (1: create secrets default); repeat with", `annotation phase is "", want "ready"`,
		"create secrets default: no response, kill-after", "start 2: create secrets default: 409",
		"=== RUN   TestExplorationThatFails/kill-before:1\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if strings.Contains(out, "/kill-before:2") {
		t.Errorf("it did not stop at the first failure:\n%s", out)
	}
	repeat := regexp.MustCompile(`-run '(.*)'`).FindStringSubmatch(out)
	if repeat == nil {
		t.Fatal(out)
	}
	if out := run(repeat[1]); strings.Count(out, "=== RUN") != 2 || !strings.Contains(out, "the test fails with kill-after:1") {
		t.Errorf("%s ran\n%s", repeat[1], out)
	}
}

func TestAProgramThatReturnsIsStartedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apiserver.Start(t, apiserver.Options{})
		starts := make(chan time.Time, 10)
		server.Supervise(t, func(ctx context.Context, _ *rest.Config) error {
			starts <- time.Now()
			if len(starts) < 3 {
				return context.DeadlineExceeded // such as a lost lease
			}
			<-ctx.Done()
			return nil
		})
		<-time.After(time.Minute)
		if len(starts) != 3 {
			t.Fatalf("%d starts", len(starts))
		}
		if a, b := <-starts, <-starts; b.Sub(a) != time.Second {
			t.Errorf("started again after %v", b.Sub(a))
		}
	})
}

// The context of a run ends before its cleanups, which may wait for what the context ends, and a program
// may call Fatal.
func TestCleanupsAndFatalInAnExploration(t *testing.T) {
	p := plantedBugs[0]
	apiserver.Explore(t, apiserver.ExploreOptions{}, func(t testing.TB, server *apiserver.Server) {
		var informers sync.WaitGroup
		informers.Go(func() { <-t.Context().Done() })
		t.Cleanup(informers.Wait)
		server.Supervise(t, func(context.Context, *rest.Config) error {
			runtime.Goexit() // as t.FailNow does
			return nil
		})
		w := &world{records: map[string]bool{}}
		server.Supervise(t, p.program(false, w))
		p.test(&user{t, server, w})
	})
}
