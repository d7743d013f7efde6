package controlplane

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// State is what a [Part] is doing.
type State string

// The states of a part.
const (
	Stopped State = "stopped"
	Running State = "running"
	Paused  State = "paused"
)

// ErrState means that a part cannot do this in its present state.
var ErrState = errors.New("controlplane: not in this state")

// Part is one process of a control plane. It keeps its port and its data from one start to
// the next. Its process ends with the process of the test, even when that is killed (on
// Linux; elsewhere Close has to be called).
//
// All methods may be called from any goroutine.
type Part struct {
	name    string
	path    string
	args    []string
	logPath string
	ready   string // URL
	tls     *tls.Config
	timeout time.Duration

	mu    sync.Mutex // guards what follows
	proc  *process   // nil when stopped
	state State
}

// process is one run of a part's program.
type process struct {
	*os.Process
	done chan struct{} // closed when it has ended
	err  error         // how, once done is closed
}

// Name returns "etcd" or "kube-apiserver".
func (p *Part) Name() string { return p.name }

// State returns what the part is doing. One that ended by itself is stopped.
func (p *Part) State() State {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reap()
	return p.state
}

// reap notices a process that has ended. p.mu is held.
func (p *Part) reap() {
	if p.proc == nil {
		return
	}
	select {
	case <-p.proc.done:
		p.proc, p.state = nil, Stopped
	default:
	}
}

// Start starts the process and waits until it is ready. The error has the end of its log.
//
// A port that was free while nothing ran may be in use by a connection now. Start waits for
// such a port, a few times.
func (p *Part) Start(ctx context.Context) error {
	const tries = 5
	for try := 1; ; try++ {
		err := p.launch()
		if err == nil {
			err = p.WaitReady(ctx)
		}
		if err == nil || try == tries || !strings.Contains(err.Error(), portTaken) || p.State() != Stopped {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(time.Second):
		}
	}
}

// portTaken is the message of both programs.
const portTaken = "address already in use"

// launch starts the process and does not wait.
func (p *Part) launch() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reap(); p.proc != nil {
		return fmt.Errorf("%w: %s is %s already", ErrState, p.name, p.state)
	}
	log, err := os.OpenFile(p.logPath, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	cmd := exec.Command(p.path, p.args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = dieWithParent()
	proc, started := &process{done: make(chan struct{})}, make(chan error)
	go func() {
		// The kernel kills the child with the thread that started it.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer log.Close()
		err := cmd.Start()
		started <- err
		if err == nil {
			proc.err = cmd.Wait()
			close(proc.done)
		}
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("controlplane: starting %s: %w", p.name, err)
	}
	proc.Process = cmd.Process
	p.proc, p.state = proc, Running
	return nil
}

// WaitReady waits until the part says that it is ready. The error has the end of its log.
func (p *Part) WaitReady(ctx context.Context) error {
	p.mu.Lock()
	proc := p.proc
	p.mu.Unlock()
	if proc == nil {
		return fmt.Errorf("%w: %s is not running", ErrState, p.name)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, p.timeout, fmt.Errorf("after %s", p.timeout))
	defer cancel()
	transport := &http.Transport{TLSClientConfig: p.tls, DisableKeepAlives: true}
	client := &http.Client{Transport: transport, Timeout: 5 * time.Second}
	tick := time.NewTicker(25 * time.Millisecond)
	defer tick.Stop()
	var last error
	for {
		if last = probe(ctx, client, p.ready); last == nil {
			return nil
		}
		select {
		case <-proc.done:
			return fmt.Errorf("controlplane: %s ended before it was ready: %v\n%s", p.name, proc.err, p.Log(30))
		case <-ctx.Done():
			return fmt.Errorf("controlplane: %s is not ready: %w: %w\n%s", p.name, context.Cause(ctx), last, p.Log(30))
		case <-tick.C:
		}
	}
}

func probe(ctx context.Context, client *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusOK {
		return nil
	}
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
	return fmt.Errorf("%s: %s: %s", url, resp.Status, tail(string(body), 10))
}

// Stop shuts the process down gracefully and waits. The API server finishes its requests
// first. The process is killed when the context ends. Stopping a stopped process does nothing.
func (p *Part) Stop(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reap(); p.proc == nil {
		return nil
	}
	if err := p.signal(syscall.SIGTERM); err != nil {
		return err
	}
	if p.state == Paused {
		if err := p.signal(syscall.SIGCONT); err != nil {
			return err
		}
	}
	var err error
	select {
	case <-p.proc.done:
	case <-ctx.Done():
		err = fmt.Errorf("controlplane: %s did not end and was killed: %w", p.name, context.Cause(ctx))
		_ = p.signal(syscall.SIGKILL)
		<-p.proc.done
	}
	p.proc, p.state = nil, Stopped
	return err
}

// Kill ends the process at once, as a crash would, and waits until it has ended. Killing a
// stopped process does nothing.
func (p *Part) Kill() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reap(); p.proc == nil {
		return nil
	}
	if err := p.signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.proc.done
	p.proc, p.state = nil, Stopped
	return nil
}

// Pause suspends the process: its connections stay open but carry nothing.
func (p *Part) Pause() error { return p.turn(syscall.SIGSTOP, Running, Paused) }

// Resume continues a paused process.
func (p *Part) Resume() error { return p.turn(syscall.SIGCONT, Paused, Running) }

func (p *Part) turn(sig syscall.Signal, from, to State) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reap(); p.state != from {
		return fmt.Errorf("%w: %s is %s", ErrState, p.name, p.state)
	}
	if err := p.signal(sig); err != nil {
		return err
	}
	p.state = to
	return nil
}

// signal sends a signal to the process. It is not an error if the process has ended. p.mu is held.
func (p *Part) signal(sig syscall.Signal) error {
	if err := p.proc.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("controlplane: %s to %s: %w", sig, p.name, err)
	}
	return nil
}

// Log returns the last lines of what the process wrote, over all its starts.
func (p *Part) Log(lines int) string {
	f, err := os.Open(p.logPath)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	const most = 256 << 10
	if info, err := f.Stat(); err == nil && info.Size() > most {
		if _, err := f.Seek(-most, io.SeekEnd); err != nil {
			return err.Error()
		}
	}
	text, err := io.ReadAll(f)
	if err != nil {
		return err.Error()
	}
	return tail(string(bytes.TrimSpace(text)), lines)
}
