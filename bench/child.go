package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"time"
)

// Some measures are of a whole process: of its processor time, including the garbage
// collector, or of its heap. Each turn of such a measure is a separate process, which is this
// program restarted with a job, so that neither side has the other's heap or warm caches.

// job is one turn of one side.
type job struct {
	// Measure names the job; see jobs.
	Measure string        `json:"measure"`
	Side    string        `json:"side"`
	Objects int           `json:"objects"`
	Turn    time.Duration `json:"turn"`
	// Profile is a file for a CPU profile, empty for none.
	Profile string `json:"profile,omitempty"`
	// Handlers is how many an informer has.
	Handlers int `json:"handlers,omitempty"`
	// Compact makes Tarn hold objects encoded. client-go ignores it.
	Compact bool `json:"compact,omitempty"`
	// Control makes a reader read a map of its own instead of the mirror.
	Control bool `json:"control,omitempty"`
	// Replay is what the replay server is asked for, where there is one.
	Replay replay `json:"replay,omitzero"`
}

// sample is the result of a turn.
type sample struct {
	Ops    float64 `json:"ops"`
	CPU    float64 `json:"cpu"`  // ns of the process, user and system
	Wall   float64 `json:"wall"` // ns
	Allocs float64 `json:"allocs"`
	Bytes  float64 `json:"bytes"`
	// Live is what a measure of memory found.
	Live float64 `json:"live,omitempty"`
	// Beyond is how much more than Live was live at a collection meanwhile.
	Beyond float64 `json:"beyond,omitempty"`
	// Values are what else a measure found, by name.
	Values map[string]float64 `json:"values,omitempty"`
	// Digest sums up which objects there were, and Content some of the objects
	// themselves, so that the answers of both sides can be compared. Content is 0
	// where nothing was decoded.
	Digest  uint64 `json:"digest,omitempty"`
	Content uint64 `json:"content,omitempty"`
}

// name identifies a job.
func (j job) name() string {
	r, name := j.Replay, j.Measure
	if j.Handlers > 0 {
		name += fmt.Sprintf("-%d", j.Handlers)
	}
	if r.Resource != "" {
		name += fmt.Sprintf("-%s-%s-%s", r.Resource, r.Encoding, r.Way)
	}
	for _, m := range []struct {
		set  bool
		name string
	}{{r.TLS, "-tls"}, {r.Drop, "-drop"}, {r.Held, "-held"}, {j.Compact, "-compact"}, {j.Control, "-control"}} {
		if m.set {
			name += m.name
		}
	}
	return name
}

// The sides.
const (
	sideClientGo = "client-go"
	sideTarn     = "tarn"
	sideRuntime  = "controller-runtime"
)

// childArg is the first argument of a process that does a job. It is not a flag, because
// users do not need it.
const childArg = "child"

// jobs returns the function of a job.
func jobs(measure string) func(job) sample {
	for _, of := range []map[string]func(job) sample{queueJobs, replayJobs, mirrorJobs} {
		if do := of[measure]; do != nil {
			return do
		}
	}
	return nil
}

// child does the job that the argument describes and prints the sample.
func child(args []string, stdout, stderr io.Writer) (code int) {
	err := func() (err error) {
		defer recovered(&err)
		var j job
		if len(args) != 1 {
			return errors.New("a job is one argument")
		}
		if err := json.Unmarshal([]byte(args[0]), &j); err != nil {
			return fmt.Errorf("reading the job: %w", err)
		}
		do := jobs(j.Measure)
		if do == nil {
			return fmt.Errorf("no job %q", j.Measure)
		}
		return json.NewEncoder(stdout).Encode(do(j))
	}()
	if err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		return 1
	}
	return 0
}

// recovered turns the panic of a failed check into an error.
func recovered(err *error) {
	if r := recover(); r != nil {
		f, ok := r.(failure)
		if !ok {
			panic(r)
		}
		*err = f.error
	}
}

// jobLimit ends a process that hangs.
const jobLimit = 5 * time.Minute

// do runs a job in a separate process.
func (l *lab) do(j job) sample {
	j.Objects, j.Turn = l.objects, l.turn
	if l.cpuprofile != "" {
		j.Profile = fmt.Sprintf("%s.%s.%s", l.cpuprofile, j.name(), j.Side)
	}
	text, err := json.Marshal(j)
	check(err)
	self, err := os.Executable()
	check(err)
	ctx, cancel := context.WithTimeout(context.Background(), jobLimit)
	defer cancel()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, self, childArg, string(text))
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		fail("%s of %s: %v: %s", j.name(), j.Side, err, bytes.TrimSpace(errs.Bytes()))
	}
	var s sample
	check(json.Unmarshal(out.Bytes(), &s))
	return s
}

// turns runs a job for each side in turn, for a number of rounds, and returns the samples of
// each side. Every round another side begins. All must return the same digest.
func (l *lab) turns(rounds int, j job, sides ...string) [][]sample {
	samples := make([][]sample, len(sides))
	began := time.Now()
	for round := range rounds {
		for i := range sides {
			at := (i + round) % len(sides)
			j.Side = sides[at]
			samples[at] = append(samples[at], l.do(j))
			if !samples[at][round].same(samples[at][0]) {
				fail("%s of %s gave another answer in round %d", j.name(), j.Side, round+1)
			}
		}
		if time.Since(began) > 2*time.Second {
			l.report("%s: round %d of %d", j.name(), round+1, rounds)
		}
	}
	for at := range sides {
		if !samples[at][0].same(samples[0][0]) {
			fail("%s: %s and %s gave different answers", j.name(), sides[0], sides[at])
		}
	}
	return samples
}

// same reports whether two turns gave the same answer.
func (s sample) same(as sample) bool {
	return s.Digest == as.Digest && (s.Content == as.Content || s.Content == 0 || as.Content == 0)
}

// meter measures a process.
type meter struct {
	cpu, wall int64
	mem       runtime.MemStats
	stop      func() // ends the profile
}

// begin begins with a heap that has just been collected.
func (j job) begin() *meter {
	m := new(meter)
	runtime.GC()
	var err error
	m.stop, err = profile(j.Profile)
	check(err)
	runtime.ReadMemStats(&m.mem)
	m.wall, m.cpu = now(), processTime()
	return m
}

// end returns what has been used since begin, for so many operations.
func (m *meter) end(ops int) sample {
	cpu, wall := processTime()-m.cpu, now()-m.wall
	m.stop()
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	return sample{
		Ops:    float64(ops),
		CPU:    float64(cpu),
		Wall:   float64(wall),
		Allocs: float64(mem.Mallocs - m.mem.Mallocs),
		Bytes:  float64(mem.TotalAlloc - m.mem.TotalAlloc),
	}
}

// perOp makes the figure of a value of the samples, per operation.
func perOp(samples []sample, unit Unit, of func(sample) float64) *Figure {
	f := &Figure{Unit: unit}
	for _, s := range samples {
		f.Rounds = append(f.Rounds, of(s)/s.Ops)
	}
	f.Value = median(f.Rounds)
	return f
}

// cpuEach makes the figure of the processor time and the allocations of an operation.
func cpuEach(samples []sample) *Figure {
	f := perOp(samples, Nanoseconds, func(s sample) float64 { return s.CPU })
	f.Counted = true
	f.Allocs = perOp(samples, "", func(s sample) float64 { return s.Allocs }).Value
	f.Bytes = perOp(samples, Bytes, func(s sample) float64 { return s.Bytes }).Value
	return f
}

// leastCPU is cpuEach with the least of the rounds.
func leastCPU(samples []sample) *Figure {
	f := cpuEach(samples)
	f.Value = slices.Min(f.Rounds)
	return f
}

// liveEach makes the figure of the memory that an operation left in use.
func liveEach(samples []sample) *Figure {
	return perOp(samples, Bytes, func(s sample) float64 { return s.Live })
}
