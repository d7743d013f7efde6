package cli

import (
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
)

// transcript collects the output of a running command and lets a test wait for text.
type transcript struct {
	mu    sync.Mutex // guards what follows
	text  strings.Builder
	ended bool
	more  chan struct{} // closed at the next change
}

// listen reads until EOF.
func listen(r io.Reader) *transcript {
	tr := &transcript{more: make(chan struct{})}
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := r.Read(buf)
			tr.mu.Lock()
			tr.text.Write(buf[:n])
			tr.ended = err != nil
			close(tr.more)
			tr.more = make(chan struct{})
			tr.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return tr
}

func (tr *transcript) String() string {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return tr.text.String()
}

// count waits until text has appeared n times.
func (tr *transcript) count(t *testing.T, text string, n int) {
	t.Helper()
	tr.wait(t, func(all string, _ bool) bool { return strings.Count(all, text) >= n }, text)
}

// end waits for EOF and returns everything.
func (tr *transcript) end(t *testing.T) string {
	t.Helper()
	tr.wait(t, func(_ string, ended bool) bool { return ended }, "the end")
	return tr.String()
}

func (tr *transcript) wait(t *testing.T, done func(all string, ended bool) bool, what string) {
	t.Helper()
	late := almostLate(t)
	for {
		tr.mu.Lock()
		all, ended, more := tr.text.String(), tr.ended, tr.more
		tr.mu.Unlock()
		switch {
		case done(all, ended):
			return
		case ended:
			t.Fatalf("it ended without %q:\n%s", what, all)
		}
		select {
		case <-more:
		case <-late:
			t.Fatalf("%q did not come:\n%s", what, all)
		}
	}
}

// almostLate fires shortly before the test deadline. Until then a test keeps waiting,
// however busy the machine is.
func almostLate(t *testing.T) <-chan time.Time {
	deadline, ok := t.Deadline()
	if !ok {
		return nil
	}
	return time.After(time.Until(deadline) - 5*time.Second)
}

// eventually polls until a condition holds.
func eventually(t *testing.T, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	late := almostLate(t)
	for !holds() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatal("it never held")
		}
	}
}

// live is a running command.
type live struct {
	*exec.Cmd
	out, err *transcript
	tty      *os.File // the command's end of its terminal, if it has one
}

// start starts a command with pipes.
func start(t *testing.T, cmd *exec.Cmd) *live {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	errs, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return &live{cmd, listen(out), listen(errs), nil}
}

// startTerminal starts a command on a terminal, which is its standard input, output and error.
func startTerminal(t *testing.T, cmd *exec.Cmd, columns uint16) (*live, *os.File) {
	t.Helper()
	terminal, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tty.Close(); terminal.Close() })
	if err := pty.Setsize(terminal, &pty.Winsize{Rows: 30, Cols: columns}); err != nil {
		t.Fatal(err)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	out := listen(terminal)
	return &live{cmd, out, out, tty}, terminal
}

// interrupt sends SIGINT and returns the result.
func (l *live) interrupt(t *testing.T) result {
	t.Helper()
	if err := l.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	return l.finish(t)
}

// finish waits for the command to exit.
func (l *live) finish(t *testing.T) result {
	t.Helper()
	var r result
	if l.tty != nil {
		l.Wait() // the status is checked
		// A terminal that nothing has open any more may lose its last output, so this end
		// stays open until all of it was read.
		const last = "<end of the output>"
		if _, err := l.tty.WriteString(last); err != nil {
			t.Fatal(err)
		}
		l.out.count(t, last, 1)
		r.out, _, _ = strings.Cut(l.out.String(), last)
		r.err = r.out
	} else {
		r.out, r.err = l.out.end(t), l.err.end(t)
		l.Wait() // the status is checked
	}
	r.code = l.ProcessState.ExitCode()
	return r
}
