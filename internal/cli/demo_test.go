package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"syscall"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/object"
)

// status matches a status line. On a busy machine the lag may be anything.
var status = regexp.MustCompile(` events/s  lag [0-9]+ events?  `)

func TestDemoMirrorEqualsTheServerAtTheEnd(t *testing.T) {
	t.Parallel() // it waits most of the time
	for name, args := range map[string][]string{
		"calm":    nil,
		"faults":  {"--faults=random:0.3:5"},
		"certain": {"--faults=stall,resource=pods,verb=watch,times=1", "--faults=gone-event,after=3,times=5"},
	} {
		t.Run(name, func(t *testing.T) {
			r := call(t.Context(), append([]string{"demo", "--duration", "700ms", "--objects", "100", "--churn", "200"}, args...)...)
			if r.code != exitDone || r.err != "" {
				t.Fatal(r)
			}
			if !status.MatchString(r.out) {
				t.Errorf("no line of figures in\n%s", r.out)
			}
			for _, want := range []string{"Generating a cluster of about 100 objects", "Done. Comparing", "The mirrors equal the server: "} {
				if !strings.Contains(r.out, want) {
					t.Errorf("no %q in\n%s", want, r.out)
				}
			}
			if strings.Contains(r.out, "\x1b") {
				t.Errorf("there are control sequences in what is not a terminal:\n%q", r.out)
			}
			if args == nil && !strings.Contains(r.out, ", no faults.\n") {
				t.Errorf("unrequested faults were counted:\n%s", r.out)
			}
		})
	}
}

func TestDemoReportsInjectedFaults(t *testing.T) {
	t.Parallel() // it waits most of the time
	for _, faults := range []string{"--faults=random:0.5:3", "--faults=gone-event", "--faults=stall,resource=pods,verb=watch"} {
		b := inBackground(t, "demo", "--objects", "100", faults)
		for wait := regexp.MustCompile(` [1-9][0-9]* faults? injected`); ; {
			b.out.mu.Lock()
			all, more := b.out.text.String(), b.out.more
			b.out.mu.Unlock()
			if wait.MatchString(all) {
				break
			}
			select {
			case <-more:
			case <-b.ended:
				t.Fatalf("%s: it ended:\n%s%s", faults, all, b.err)
			}
		}
		b.stop()
		if text := b.out.String(); b.code != exitDone || !strings.Contains(text, interrupted) || !strings.Contains(text, " injected: ") {
			t.Errorf("%s: exit %d\n%s%s", faults, b.code, text, b.err)
		}
	}
}

func TestDemoInputErrorsAreOneSentence(t *testing.T) {
	var all strings.Builder
	for _, args := range [][]string{
		{"please"}, {"--objects", "0"}, {"--churn=-1"}, {"--churn", "NaN"}, {"--churn", "+Inf"}, {"--duration=-1s"}, {"--duration", "soon"}, {"--faults=earthquake"}, {"--faults", "random:0.5"}, {"--faults", "bogus"},
	} {
		r := call(t.Context(), append([]string{"demo"}, args...)...)
		if r.code != exitUsage || strings.Count(r.err, "\n") != 1 || r.out != "" {
			t.Errorf("%v: %v", args, r)
		}
		fmt.Fprintf(&all, "%s: %s", strings.Join(args, " "), r.err)
	}
	golden(t, "demo-input", all.String())
}

func TestHelpOfDemoMirrorAndApiserver(t *testing.T) {
	for _, name := range []string{"demo", "apiserver"} {
		r := call(t.Context(), name, "--help")
		if r.code != exitDone || !strings.Contains(r.out, "Examples:") || r.err != "" {
			t.Errorf("%s: %v", name, r)
		}
		golden(t, "help-"+name, r.out)
	}
}

// colours are sequences that colour text; others move the cursor.
var colours = regexp.MustCompile(`\x1b\[[0-9;]*m`)

func TestTheDemoBinaryStopsOnCtrlC(t *testing.T) {
	cmd := command(t, "demo", "--objects", "300", "--faults")
	out := newHeard()
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // the exit code is checked
	}()
	out.until(t, "events/s", ended)
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	<-ended
	if text := out.String(); cmd.ProcessState.ExitCode() != exitDone || !strings.Contains(text, interrupted) || !strings.Contains(text, "Ran for ") || strings.Contains(text, "Comparing") {
		t.Errorf("exit %d:\n%s", cmd.ProcessState.ExitCode(), text)
	}
}

func TestDemoInterruptedDuringStartupStopsImmediately(t *testing.T) {
	b := inBackground(t, "demo", "--objects", "1000000")
	b.out.until(t, "Generating", b.ended)
	b.stop()
	if text := b.out.String(); b.code != exitDone || !strings.HasSuffix(text, "\n"+interrupted+"\n") || strings.Contains(text, "Created ") {
		t.Errorf("exit %d:\n%s%s", b.code, text, b.err)
	}
}

// drawing counts frames that were drawn after an interrupt.
type drawing struct {
	ctx  context.Context
	stop func()
	late int
}

func (d *drawing) Write(p []byte) (int, error) {
	switch {
	case !strings.Contains(string(p), "events/s"):
	case d.ctx.Err() != nil:
		d.late++
	default:
		d.stop() // in the middle of the first frame
	}
	return len(p), nil
}

func TestDemoDrawsNothingAfterTheInterrupt(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := &drawing{ctx: ctx, stop: cancel}
	if code := run(ctx, wholeRoot, []string{"demo", "--objects", "50"}, strings.NewReader(""), out, io.Discard); code != exitDone || ctx.Err() == nil || out.late > 0 {
		t.Errorf("exit %d, interrupted: %v, %d frames after that", code, ctx.Err() != nil, out.late)
	}
}

func TestThousands(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1000: "-1,000", -100: "-100"} {
		if got := thousands(n); got != want {
			t.Errorf("%d: %s", n, got)
		}
	}
}

func TestDemoKeepsItsFiguresInTheLastLineOfATerminal(t *testing.T) {
	for _, env := range []string{"A=b", "NO_COLOR=1", "TERM=dumb"} {
		t.Run(env, func(t *testing.T) {
			cmd := command(t, "demo", "--objects", "50")
			cmd.Env = append(cmd.Env, env)
			l, terminal := startTerminal(t, cmd, 60)
			l.out.count(t, "events/s", 1)
			if _, err := terminal.WriteString("\x03"); err != nil { // Ctrl-C
				t.Fatal(err)
			}
			r := l.finish(t)
			if r.code != exitDone {
				t.Errorf("exit %d:\n%s", r.code, r.out)
			}
			if got := colours.MatchString(r.out); got != (env == "A=b") {
				t.Errorf("colours: %v\n%q", got, r.out)
			}
			left := emulate(colours.ReplaceAllString(r.out, ""))
			if live := env != "TERM=dumb"; strings.Contains(left, "\x1b") || !strings.Contains(left, interrupted) || !strings.Contains(left, "Ran for ") || strings.Contains(left, "events/s") == live {
				t.Errorf("left on the terminal:\n%q", left)
			}
		})
	}
}

func TestTheSimulatedClusterStaysPlausible(t *testing.T) {
	server, err := apiserver.New(apiserver.Options{Seed: 1, CollectGarbage: true})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	world, err := newDemoCluster(t.Context(), server, 500, 3)
	if err != nil {
		t.Fatal(err)
	}
	if world.made < 500 || world.made > 520 {
		t.Errorf("%d objects were made, not about 500", world.made)
	}
	gone, lost := world.apps[0], world.apps[1].pods[0]
	for i := range 1000 {
		if i == 300 { // another client deletes an app with everything it owns, and a pod
			d := &appsv1.Deployment{}
			d.Namespace, d.Name = gone.Namespace, gone.Name
			p := &corev1.Pod{}
			p.Namespace, p.Name = world.apps[1].Namespace, lost
			if err := errors.Join(server.Delete(d), server.Delete(p)); err != nil && !apierrors.IsNotFound(err) {
				t.Fatal(err)
			}
		}
		if err := world.step(); err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
	}
	if wrote := world.writes.Load(); wrote < 500 {
		t.Errorf("1000 steps made %d writes", wrote)
	}
	pods, running := 0, 0
	for _, app := range world.apps {
		if app == gone {
			t.Error("an app that was deleted is still changed")
		}
		for _, name := range app.pods {
			pods++
			if name == lost { // not found out yet
				continue
			}
			stored, err := server.Get(podResource, object.Key{Namespace: app.Namespace, Name: name})
			if err != nil {
				t.Fatal(err)
			}
			pod := stored.(*corev1.Pod)
			if pod.Status.Phase == corev1.PodRunning {
				running++
				if pod.Spec.NodeName == "" || pod.Status.PodIP == "" {
					t.Errorf("%s runs nowhere", name)
				}
			}
			if _, err := server.Get(replicaSetResource, object.Key{Namespace: app.Namespace, Name: pod.OwnerReferences[0].Name}); err != nil {
				t.Errorf("%s: its owner: %v", name, err)
			}
		}
	}
	if running == 0 || running < pods/2 {
		t.Errorf("%d of %d pods run", running, pods)
	}
}
