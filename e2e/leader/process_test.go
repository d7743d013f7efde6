package leader

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tarnproject/tarn/e2e/controlplane"
	"github.com/tarnproject/tarn/e2e/patience"
	"k8s.io/client-go/rest"
)

// process is a replica that runs.
type process struct {
	identity string
	proxy    *controlplane.Proxy
	cmd      *exec.Cmd
	stdin    io.Closer
	stderr   bytes.Buffer
	read     chan struct{} // closed when its last line has been read

	pauses []span // written by the test alone
}

// span is a time during which a process was paused: from before it was stopped until after
// it went on.
type span struct{ from, to time.Time }

// journal is the lines of all replicas.
type journal struct {
	mu      sync.Mutex // guards what follows
	of      map[*process][]line
	changed chan struct{} // closed and replaced with each line
}

func newJournal() *journal {
	return &journal{of: map[*process][]line{}, changed: make(chan struct{})}
}

func (j *journal) add(p *process, l line) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.of[p] = append(j.of[p], l)
	close(j.changed)
	j.changed = make(chan struct{})
}

// leader returns who has begun to work last.
func (j *journal) leader() *process {
	j.mu.Lock()
	defer j.mu.Unlock()
	var who *process
	var latest time.Time
	for p, lines := range j.of {
		for _, l := range lines {
			if l.What == reconciled && l.At.After(latest) {
				who, latest = p, l.At
			}
		}
	}
	return who
}

// await waits for a line that is not before a time, of any replica but one, or of a
// certain one.
func (j *journal) await(t *testing.T, what string, since time.Time, matches func(p *process, l line) bool) (*process, line) {
	t.Helper()
	late := time.NewTimer(patience.Limit)
	defer late.Stop()
	for {
		j.mu.Lock()
		changed := j.changed
		for p, lines := range j.of {
			for i := len(lines) - 1; i >= 0 && !lines[i].At.Before(since); i-- {
				if matches(p, lines[i]) {
					j.mu.Unlock()
					return p, lines[i]
				}
			}
		}
		j.mu.Unlock()
		select {
		case <-changed:
		case <-late.C:
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// launch starts a replica, on a proxy of its own.
func launch(t *testing.T, plane *controlplane.Plane, config *rest.Config, j *journal, identity, namespace string) *process {
	t.Helper()
	p := &process{identity: identity, proxy: controlplane.StartProxy(t, plane.Address()), read: make(chan struct{})}
	config = p.proxy.Config(config)
	first, err := json.Marshal(task{
		Identity: identity, Namespace: namespace, Host: config.Host, CA: config.CAData, Cert: config.CertData, Key: config.KeyData,
	})
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p.cmd = exec.Command(self, replicaArg)
	p.cmd.Stderr = &p.stderr
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.stdin = stdin
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.end(syscall.SIGKILL) })
	if _, err := stdin.Write(append(first, '\n')); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.read)
		for sc := bufio.NewScanner(stdout); sc.Scan(); {
			var l line
			if err := json.Unmarshal(sc.Bytes(), &l); err != nil {
				return // cut off with the process
			}
			j.add(p, l)
		}
	}()
	return p
}

// end ends the replica by a signal and waits for that. Ending it again does nothing.
func (p *process) end(sig syscall.Signal) error {
	if p.cmd.ProcessState != nil {
		return nil
	}
	if err := p.cmd.Process.Signal(sig); err != nil {
		return err
	}
	<-p.read
	err := p.cmd.Wait()
	_ = p.stdin.Close()
	if err != nil && sig == syscall.SIGTERM {
		return fmt.Errorf("%s: %w\n%s", p.identity, err, p.stderr.String())
	}
	return nil
}

// pause stops the replica where it stands.
func (p *process) pause(t *testing.T) {
	t.Helper()
	p.pauses = append(p.pauses, span{from: time.Now()})
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
}

// resume lets it go on.
func (p *process) resume(t *testing.T) time.Time {
	t.Helper()
	now := time.Now()
	if err := p.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	p.pauses[len(p.pauses)-1].to = time.Now()
	return now
}
