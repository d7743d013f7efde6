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
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
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

// exploredProgram calls write when it starts and then until the program ends, once a second.
func exploredProgram(write func(ctx context.Context, client kubernetes.Interface) error) func(context.Context, *rest.Config) error {
	return func(ctx context.Context, cfg *rest.Config) error {
		client, err := kubernetes.NewForConfig(cfg)
		if err != nil {
			return err
		}
		for ctx.Err() == nil {
			if err := write(ctx, client); err == nil {
				break
			}
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
		}
		<-ctx.Done()
		return nil
	}
}

func createConfigMap(ctx context.Context, client kubernetes.Interface) error {
	_, err := client.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "made"}}, metav1.CreateOptions{})
	return err
}

// A program that never stops retrying must not keep the exploration from ending.
func TestAnExplorationOfEndlessRetriesFails(t *testing.T) {
	opts := apiserver.ExploreOptions{Limit: 10 * time.Minute}
	failed, report, _ := apiserver.ExploreQuietly(t, opts, func(t testing.TB, server *apiserver.Server) {
		server.Supervise(t, exploredProgram(createConfigMap)) // takes AlreadyExists for an error
		if err := server.WaitIdle(t.Context(), time.Minute); err != nil {
			t.Error(err)
		}
	})
	if failed != "kill-after:1" || !strings.Contains(report, "the test took longer than ExploreOptions.Limit, 10m0s") {
		t.Errorf("%s failed with\n%s", failed, report)
	}
}

// The report of a program that panics has the schedule and the stack.
func TestAProgramThatPanicsFailsItsRun(t *testing.T) {
	failed, report, _ := apiserver.ExploreQuietly(t, apiserver.ExploreOptions{}, func(t testing.TB, server *apiserver.Server) {
		server.Supervise(t, func(ctx context.Context, cfg *rest.Config) error {
			client, err := kubernetes.NewForConfig(cfg)
			if err != nil {
				return err
			}
			if err := createConfigMap(ctx, client); apierrors.IsAlreadyExists(err) {
				var made *corev1.ConfigMap
				made.Data = map[string]string{} // the planted bug
			}
			<-ctx.Done()
			return nil
		})
		<-time.After(time.Minute)
	})
	if failed != "kill-after:1" {
		t.Errorf("%s failed with\n%s", failed, report)
	}
	for _, want := range []string{
		"kill-after:1 (1: create configmaps default)", "the program panicked: runtime error: invalid memory address", "explore_test.go:",
		"start 2: the program returned: panic: runtime error",
	} {
		if !strings.Contains(report, want) {
			t.Errorf("no %q in\n%s", want, report)
		}
	}
}

// A program may panic on errors: a process that is killed cannot.
func TestAProgramThatPanicsWhenItIsKilledHasNotFailed(t *testing.T) {
	failed, report, _ := apiserver.ExploreQuietly(t, apiserver.ExploreOptions{}, func(t testing.TB, server *apiserver.Server) {
		server.Supervise(t, exploredProgram(func(ctx context.Context, client kubernetes.Interface) error {
			if err := createConfigMap(ctx, client); err != nil && !apierrors.IsAlreadyExists(err) {
				panic(err)
			}
			<-ctx.Done()
			return nil
		}))
		<-time.After(time.Minute)
	})
	if failed != "" {
		t.Errorf("%s failed with\n%s", failed, report)
	}
}

// A stalled write does not hold back the other writes of the process.
func TestOtherWritesGoOnWhileOneStalls(t *testing.T) {
	opts := apiserver.ExploreOptions{Faults: []apiserver.FaultKind{apiserver.Stall}}
	failed, report, runs := apiserver.ExploreQuietly(t, opts, func(t testing.TB, server *apiserver.Server) {
		program := func(ctx context.Context, client kubernetes.Interface) error {
			go func() { _ = createConfigMap(ctx, client) }() // stalls until the program ends
			<-time.After(time.Second)
			_, err := client.CoreV1().Namespaces().Create(ctx, namespace("made"), metav1.CreateOptions{})
			return err
		}
		server.Supervise(t, exploredProgram(program))
		<-time.After(time.Minute)
		if len(server.Dump()) == 0 {
			t.Error("both writes are missing")
		}
	})
	if failed != "" || runs != 3 {
		t.Errorf("%d runs, %s failed with\n%s", runs, failed, report)
	}
}

// A program may write in a webhook that it serves, while its own write waits for that webhook.
func TestAWebhookOfAnExploredProgramWrites(t *testing.T) {
	failed, report, runs := apiserver.ExploreQuietly(t, apiserver.ExploreOptions{}, func(t testing.TB, server *apiserver.Server) {
		if _, err := server.Create(mutating("own", nil)); err != nil {
			t.Fatal(err)
		}
		server.Supervise(t, exploredProgram(func(ctx context.Context, client kubernetes.Interface) error {
			server.HandleWebhook("hooks", "own", &hook{answer: func(*admissionv1.AdmissionRequest) admissionv1.AdmissionResponse {
				_, err := client.CoreV1().Namespaces().Create(ctx, namespace("made"), metav1.CreateOptions{})
				return admissionv1.AdmissionResponse{Allowed: err == nil || apierrors.IsAlreadyExists(err)}
			}})
			return createConfigMap(ctx, client)
		}))
		<-time.After(5 * time.Second) // the webhook's timeout is longer
		for _, kind := range []string{"configmaps", "namespaces"} {
			if dump := string(server.Dump(kind)); !strings.Contains(dump, "name: made\n") {
				t.Errorf("%s:\n%s", kind, dump)
			}
		}
	})
	if failed != "" || runs != 5 {
		t.Errorf("%d runs, %s failed with\n%s", runs, failed, report)
	}
}

// A run whose fault hit no write proves nothing, so it is skipped.
func TestASchedulePastTheLastWriteIsSkipped(t *testing.T) {
	runs, skipped := 0, 0
	opts := apiserver.ExploreOptions{Faults: []apiserver.FaultKind{apiserver.KillBefore}}
	t.Run("exploration", func(t *testing.T) {
		apiserver.Explore(t, opts, func(t testing.TB, server *apiserver.Server) {
			runs++
			twice := runs == 1 // only the run without faults has two writes
			server.Supervise(t, exploredProgram(func(ctx context.Context, client kubernetes.Interface) error {
				if err := createConfigMap(ctx, client); err != nil || !twice {
					return err
				}
				_, err := client.CoreV1().Namespaces().Create(ctx, namespace("made"), metav1.CreateOptions{})
				return err
			}))
			<-time.After(time.Minute)
			if runs == 3 && len(server.Dump("configmaps")) > 0 {
				skipped++ // kill-before:2 killed nothing
			}
		})
	})
	if runs != 3 || skipped != 1 {
		t.Errorf("%d runs, %d without a fault", runs, skipped)
	}
}

func TestATestThatSkipsItselfSkipsTheExploration(t *testing.T) {
	ok := t.Run("exploration", func(t *testing.T) {
		apiserver.Explore(t, apiserver.ExploreOptions{}, func(t testing.TB, _ *apiserver.Server) {
			t.Skip("not here")
		})
		panic("not skipped")
	})
	if !ok {
		t.Error("the exploration failed")
	}
}
