package cli

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/goleak"
	"k8s.io/client-go/rest"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/apiserver/crd"
	"github.com/tarnproject/tarn/apiserver/workloads"
)

var update = flag.Bool("update", false, "update the golden files")

// commandName is the name under which the test binary runs as the command; see command.
const commandName = "tarn"

func TestMain(m *testing.M) {
	if os.Args[0] == commandName {
		execute(wholeRoot)
	}
	goleak.VerifyTestMain(m)
}

// wholeRoot is the command tarn with the API server in the same process.
func wholeRoot(e *env) *cobra.Command {
	return newRootWith(e, newApiserverCommand(e, ServerParts{Schemas: crd.Schemas(), Workloads: func(cfg *rest.Config, log *slog.Logger) (interface{ Run(context.Context) error }, error) {
		return workloads.New(cfg, workloads.Options{Logger: log})
	}}))
}

// command returns the command as a separate process. It is the test binary under another name,
// so it needs no build and uses the race detector if the tests do, without that detector's
// second of sleep at exit. Its environment has no
// kubeconfig.
func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), path)
	cmd.Args = append([]string{commandName}, args...)
	cmd.Env = []string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH"), "TERM=xterm-256color", "GORACE=atexit_sleep_ms=0"}
	cmd.WaitDelay = time.Minute
	return cmd
}

// result is the outcome of a command.
type result struct {
	out, err string
	code     int
}

// String returns the form used in golden files.
func (r result) String() string {
	return fmt.Sprintf("exit %d\n-- stdout --\n%s-- stderr --\n%s", r.code, r.out, r.err)
}

// finish runs the command until it exits.
func finish(t *testing.T, cmd *exec.Cmd) result {
	t.Helper()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return result{out.String(), unhurried(errs.String()), cmd.ProcessState.ExitCode()}
}

// call runs a command line in this process until it ends.
func call(ctx context.Context, args ...string) result {
	var out, errs bytes.Buffer
	code := run(ctx, wholeRoot, args, strings.NewReader(""), &out, &errs)
	return result{out.String(), unhurried(errs.String()), code}
}

// unhurried removes the notices of slow commands, which depend on the speed of the machine.
func unhurried(text string) (kept string) {
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "tarn: still ") {
			kept += line
		}
	}
	return kept
}

// golden compares text with a golden file, or writes it with -update. replace holds pairs
// for values that differ between runs.
func golden(t *testing.T, name, got string, replace ...string) {
	t.Helper()
	got = strings.NewReplacer(replace...).Replace(got)
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; go test ./internal/cli -update writes it", err)
	}
	if got != string(want) {
		t.Errorf("%s is not what it was; -update accepts it.\n--- got\n%s\n--- want\n%s", path, got, want)
	}
}

// serve starts an API server on a TCP port, and returns it with a kubeconfig for it.
func serve(t *testing.T, opts apiserver.Options) (*apiserver.Server, string) {
	t.Helper()
	opts.Address = "127.0.0.1:0"
	if opts.Seed == 0 {
		opts.Seed = 1
	}
	server := apiserver.Start(t, opts)
	return server, kubeconfigFor(t, "http://"+server.Addr().String())
}

// kubeconfigFor writes a kubeconfig with one context, "test", and returns its path.
func kubeconfigFor(t *testing.T, server string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: test, cluster: {server: %q}}]
users: [{name: test, user: {}}]
contexts: [{name: test, context: {cluster: test, user: test}}]
current-context: test
`, server)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
