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

// Some measures cover a whole process: its CPU time including garbage collection, or its heap.
// Each turn of such a measure is a separate process of this program, so that the sides share
// neither heap nor warm caches.

// job is one turn of one side.
type job struct {
	// Measure is the name of the job; see jobs.
	Measure string        `json:"measure"`
	Side    string        `json:"side"`
	Objects int           `json:"objects"`
	Turn    time.Duration `json:"turn"`
	// Profile is a file for a CPU profile, empty for none.
	Profile string `json:"profile,omitempty"`
	// Handlers is the number of handlers of the informer.
	Handlers int `json:"handlers,omitempty"`
	// Compact makes Tarn store objects encoded. client-go ignores it.
	Compact bool `json:"compact,omitempty"`
	// Reads is what the subscriber of Tarn's informer reads: "new" for new objects and "none" for
	// none. Otherwise, and with client-go, it is a handler, which gets old and new ones.
	Reads string `json:"reads,omitempty"`
	// Control makes the reader read a private map instead of the mirror, and the controllers
	// record when changes arrive.
	Control bool `json:"control,omitempty"`
	// Shared makes Tarn's controllers read shared objects.
	Shared bool `json:"shared,omitempty"`
	// Replay is the request to the replay server, if the job uses one.
	Replay replay `json:"replay,omitzero"`
}

// sample is the result of a turn.
type sample struct {
	Ops    float64 `json:"ops"`
	CPU    float64 `json:"cpu"`  // ns of the process, user and system
	Wall   float64 `json:"wall"` // ns
	Allocs float64 `json:"allocs"`
	Bytes  float64 `json:"bytes"`
	// Live is the result of a memory measure.
	Live float64 `json:"live,omitempty"`
	// Beyond is the largest live heap during the turn, beyond Live.
	Beyond float64 `json:"beyond,omitempty"`
	// Values are further results, by name.
	Values map[string]float64 `json:"values,omitempty"`
	// Digest is a checksum of the objects' identities, and Content of some complete
	// objects, to compare the results of both sides. Content is 0 if nothing was
	// decoded.
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
	}{{r.Typed, "-typed"}, {r.TLS, "-tls"}, {r.Drop, "-drop"}, {r.Held, "-held"}, {j.Compact, "-compact"}, {j.Reads != "", "-reads-" + j.Reads}, {j.Control, "-control"}, {j.Shared, "-shared"}} {
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

// childArg is the first argument of a job's process. It is not a flag because users do not
// need it.
const childArg = "child"

// jobs returns the function of a job, or nil.
func jobs(measure string) func(job) sample {
	for _, of := range []map[string]func(job) sample{queueJobs, replayJobs, mirrorJobs, {"controllers": controllersJob, "million": millionJob}} {
		if do := of[measure]; do != nil {
			return do
		}
	}
	return nil
}

// child runs the job described by the argument and prints the sample.
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

// jobLimit is the timeout of a job's process.
const jobLimit = 15 * time.Minute

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

// turns runs a job on the sides in turn for a number of rounds and returns the samples of each
// side. The side that starts alternates. All must give the same result.
func (l *lab) turns(rounds int, j job, sides ...string) [][]sample {
	samples := make([][]sample, len(sides))
	began := time.Now()
	for round := range rounds {
		for i := range sides {
			at := (i + round) % len(sides)
			j.Side = sides[at]
			samples[at] = append(samples[at], l.do(j))
			if !samples[at][round].same(samples[at][0]) {
				fail("%s of %s: different result in round %d", j.name(), j.Side, round+1)
			}
		}
		if time.Since(began) > 2*time.Second {
			l.progress("%s: round %d of %d", j.name(), round+1, rounds)
		}
	}
	for at := range sides {
		if !samples[at][0].same(samples[0][0]) {
			fail("%s: %s and %s have different results", j.name(), sides[0], sides[at])
		}
	}
	return samples
}

// same reports whether two turns had the same result.
func (s sample) same(as sample) bool {
	return s.Digest == as.Digest && (s.Content == as.Content || s.Content == 0 || as.Content == 0)
}

// meter measures a process.
type meter struct {
	cpu, wall int64
	mem       runtime.MemStats
	stop      func() // ends the profile
}

// begin starts measuring after a garbage collection.
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

// end returns the resources used since begin, for a number of operations.
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

// perOp returns the figure of a value of the samples, per operation.
func perOp(samples []sample, unit Unit, of func(sample) float64) *Figure {
	f := &Figure{Unit: unit}
	for _, s := range samples {
		f.Rounds = append(f.Rounds, of(s)/s.Ops)
	}
	f.Value = median(f.Rounds)
	return f
}

// cpuEach returns the figure of CPU time and allocations per operation.
func cpuEach(samples []sample) *Figure {
	f := perOp(samples, Nanoseconds, func(s sample) float64 { return s.CPU })
	f.Counted = true
	f.Allocs = perOp(samples, "", func(s sample) float64 { return s.Allocs }).Value
	f.Bytes = perOp(samples, Bytes, func(s sample) float64 { return s.Bytes }).Value
	return f
}

// leastCPU is cpuEach with the minimum of the rounds.
func leastCPU(samples []sample) *Figure {
	f := cpuEach(samples)
	f.Value = slices.Min(f.Rounds)
	return f
}

// liveEach returns the figure of the live memory per operation.
func liveEach(samples []sample) *Figure {
	return perOp(samples, Bytes, func(s sample) float64 { return s.Live })
}
