package cli

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/internal/soak"
)

// TestASeedThatIsNotAFileIsRejected uses a FIFO, which would block, and a device, which
// never ends.
func TestASeedThatIsNotAFileIsRejected(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo.yaml")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Skip(err)
	}
	zero := filepath.Join(t.TempDir(), "zero.yaml")
	if err := os.Symlink("/dev/zero", zero); err != nil {
		t.Skip(err)
	}
	socket := filepath.Join(t.TempDir(), "s.yaml")
	if l, err := net.Listen("unix", socket); err == nil {
		defer l.Close()
	}
	for _, path := range []string{fifo, dir, zero, filepath.Dir(zero), "/dev/zero", socket} {
		if r := call(t.Context(), "apiserver", "--seed", path); r.code != exitUsage || !strings.Contains(r.err, "not a regular file") {
			t.Errorf("%s: %v", path, r)
		}
	}
}

func TestSeedsHaveALimit(t *testing.T) {
	soak.Measures(t)
	dir := t.TempDir()
	if err := os.Truncate(write(t, filepath.Join(dir, "a.yaml"), ""), seedLimit); err != nil {
		t.Fatal(err)
	}
	if _, err := readFile(filepath.Join(dir, "a.yaml"), seedLimit); err != nil {
		t.Error(err)
	}
	if _, err := readFile(filepath.Join(dir, "a.yaml"), 1<<20); !errors.Is(err, errTooLarge) {
		t.Error(err)
	}
	large := write(t, filepath.Join(t.TempDir(), "large.yaml"), "")
	if err := os.Truncate(large, seedLimit+1); err != nil {
		t.Fatal(err)
	}
	if r := call(t.Context(), "apiserver", "--seed", large); r.code != exitUsage || !strings.Contains(r.err, "exceed 64.0 MiB in total") {
		t.Error(r)
	}
}

// TestOneSignalEndsEveryCommand interrupts each command while it waits.
func TestOneSignalEndsEveryCommand(t *testing.T) {
	t.Parallel() // it waits most of the time
	server, kubeconfig := serve(t, apiserver.Options{})
	if _, err := server.Inject(apiserver.Fault{Kind: apiserver.Stall, Resource: "pods"}); err != nil {
		t.Fatal(err)
	}
	fifo := filepath.Join(t.TempDir(), "kubeconfig")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Skip(err)
	}
	cases := []struct {
		args, wait string // until this is on standard output or error
		code       int
	}{
		{"watch pods --kubeconfig " + kubeconfig, "still waiting to list", exitDone},
		{"watch pods --once --kubeconfig " + kubeconfig, "still waiting to list", exitFailed},
		{"doctor pods --kubeconfig " + kubeconfig, "still examining", exitFailed},
		{"apiserver", "Serving", exitDone},
		{"demo --objects 50", "Mirrored", exitDone},
		{"watch pods --kubeconfig " + fifo, "", exitFailed},
	}
	var started []*live
	for _, c := range cases {
		started = append(started, start(t, command(t, strings.Fields(c.args)...)))
	}
	for i, c := range cases {
		l := started[i]
		if c.wait == "" { // the command opens the pipe
			f, err := os.OpenFile(fifo, os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
		}
		eventually(t, func() bool { return strings.Contains(l.out.String()+l.err.String(), c.wait) })
		if err := l.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if r := l.finish(t); r.code != c.code {
			t.Errorf("%s: %v", c.args, r)
		}
	}
}

func TestAllCommandsReportWriteErrors(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("this system has no /dev/full")
	}
	defer full.Close()
	for _, args := range []string{"version", "help", "watch --help", "completion bash", "apiserver", "demo --objects 10"} {
		var errs strings.Builder
		if code := run(t.Context(), wholeRoot, strings.Fields(args), strings.NewReader(""), full, &errs); code != exitFailed || !strings.HasSuffix(errs.String(), "tarn: cannot write output: no space left on device\n") {
			t.Errorf("%s: exit %d, %s", args, code, errs.String())
		}
	}
}
