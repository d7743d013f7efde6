package shards

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/tarnproject/tarn/controller/shard"
)

// process is a replica that runs, or has run.
type process struct {
	name  string
	cmd   *exec.Cmd
	stdin io.Closer
	log   bytes.Buffer  // its standard error; complete when read is closed
	read  chan struct{} // closed when its last line has been read
	ended error         // how it ended, once read is closed and end has returned
}

// journal has the lines of all processes.
type journal struct {
	mu      sync.Mutex // guards all below
	stints  []stint
	stalls  map[string][]span // by process
	wrong   []string
	latest  map[*process]line // the last status of those that run
	longest time.Duration     // of the reconciles
	// since is when the faults ended, and covered when after that every slot was worked on. Both are
	// zero if that has not happened.
	since, covered time.Time
	statuses       map[*process][]line // all of them, if keep is set
	keep           bool
}

func (j *journal) add(p *process, l line) {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch l.What {
	case reconciled:
		j.stints = append(j.stints, stint{span{l.From, l.At}, p.name, l.Key})
		j.longest = max(j.longest, l.At.Sub(l.From))
	case stalled:
		j.stalls[p.name] = append(j.stalls[p.name], span{l.From, l.At})
	case wrong:
		j.wrong = append(j.wrong, stamp(l.At)+" "+l.Text)
	case status:
		j.latest[p] = l
		if j.keep {
			j.statuses[p] = append(j.statuses[p], l)
		}
		if !j.since.IsZero() && j.covered.IsZero() && j.complete() {
			j.covered = l.At
		}
	}
}

// complete reports whether every slot is worked on, as the processes have said since the faults ended.
// The journal's lock is held.
func (j *journal) complete() bool {
	var worked [shard.Slots]bool
	n := 0
	for _, l := range j.latest {
		if l.At.Before(j.since) {
			continue
		}
		for _, slot := range l.Slots {
			if !worked[slot] {
				worked[slot] = true
				n++
			}
		}
	}
	return n == shard.Slots
}

// calm records that the faults have ended.
func (j *journal) calm(now time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.since, j.covered, j.longest = now, time.Time{}, 0
}

// coverage returns when all slots were worked on after the faults ended, zero if they are not,
// and the longest reconcile since.
func (j *journal) coverage() (covered time.Time, longest time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.covered, j.longest
}

// stalledIn returns how long processes did not run between two times, added up.
func (j *journal) stalledIn(from, to time.Time) (total time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, spans := range j.stalls {
		for _, s := range spans {
			if s.from.Before(to) && s.to.After(from) {
				total += s.to.Sub(s.from)
			}
		}
	}
	return total
}

// launch starts a replica.
func launch(j *journal, do task) (*process, error) {
	first, err := json.Marshal(do)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{name: do.Member, cmd: exec.Command(self, replicaArg), read: make(chan struct{})}
	p.cmd.Stderr = &p.log
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	p.stdin = stdin
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.read)
		lines := bufio.NewScanner(stdout)
		for lines.Scan() {
			var l line
			if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
				break // cut off with the process
			}
			j.add(p, l)
		}
		j.mu.Lock()
		defer j.mu.Unlock()
		delete(j.latest, p)
	}()
	if _, err := stdin.Write(append(first, '\n')); err != nil {
		_ = p.end(syscall.SIGKILL)
		return nil, err
	}
	return p, nil
}

// end ends the replica with a signal and waits for that. The error says that it did not end as it should
// after SIGTERM, or before.
func (p *process) end(signal syscall.Signal) error {
	if p.cmd.ProcessState != nil {
		return nil
	}
	early := false
	select {
	case <-p.read:
		early = true
	default:
		if err := p.cmd.Process.Signal(signal); err != nil {
			return err
		}
	}
	<-p.read
	p.ended = p.cmd.Wait()
	_ = p.stdin.Close()
	if early || p.ended != nil && signal == syscall.SIGTERM {
		return fmt.Errorf("%s ended: %v\n%s", p.name, p.ended, p.lastLog())
	}
	return nil
}

// lastLog returns the end of what the replica has logged. It has ended.
func (p *process) lastLog() string {
	lines := strings.Split(strings.TrimSpace(p.log.String()), "\n")
	return strings.Join(lines[max(0, len(lines)-20):], "\n")
}
