package guard

import (
	"bytes"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

const (
	module = "github.com/tarnproject/tarn"
	file   = "baseline.txt"
	more   = 1.1 // the factor above which a change fails
	none   = "-" // what is not compared
)

//go:embed baseline.txt
var baseline string

// path is one line of the baseline.
type path struct {
	pkg, benchmark string
	iterations     int
	allocs, bytes  string
}

var (
	enabled = flag.Bool("guard", false, "measure what the hot paths allocate")
	update  = flag.Bool("update", false, "write what is measured now into baseline.txt")
)

func TestHotPathsAllocateNoMoreThanTheBaseline(t *testing.T) {
	if !*enabled {
		t.Skip("it compiles and runs benchmarks: make bench-guard")
	}
	paths, err := parse(baseline)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var text strings.Builder
	for _, p := range paths {
		got, err := measure(dir, p)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(&text, got)
		if *update {
			t.Log(got)
			continue
		}
		if err := errors.Join(compare(t, p, "allocations", p.allocs, got.allocs), compare(t, p, "bytes", p.bytes, got.bytes)); err != nil {
			t.Error(err)
		}
	}
	if *update {
		if err := os.WriteFile("baseline.txt", []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// compare returns an error if the second of two measurements is too high.
func compare(t *testing.T, p path, unit, was, now string) error {
	if was == none {
		return nil
	}
	before, err := strconv.ParseFloat(was, 64)
	if err != nil {
		return fmt.Errorf("%s: %s %s: %w", file, p.pkg, p.benchmark, err)
	}
	after, err := strconv.ParseFloat(now, 64)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("%s %s: %s %s per iteration, %s in the baseline", p.pkg, p.benchmark, now, unit, was)
	if after > more*before {
		return errors.New(text)
	}
	if more*after < before {
		t.Log(text + ": lower it with -update")
	}
	return nil
}

// parse reads a baseline. A new line has no measurements yet.
func parse(text string) (paths []path, err error) {
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) != 3 && len(f) != 5 {
			return nil, fmt.Errorf("%s: %q needs a package, a benchmark and a number of iterations", file, strings.TrimSpace(line))
		}
		f = append(f, "0", "0")
		p := path{pkg: f[0], benchmark: f[1], allocs: f[3], bytes: f[4]}
		if p.iterations, err = strconv.Atoi(f[2]); err != nil {
			return nil, fmt.Errorf("%s: %q: %w", file, strings.TrimSpace(line), err)
		}
		paths = append(paths, p)
	}
	return paths, nil
}

func (p path) String() string {
	return fmt.Sprintf("%s %s %d %s %s", p.pkg, p.benchmark, p.iterations, p.allocs, p.bytes)
}

// binary compiles the tests of a package once.
func binary(dir, pkg string) (string, error) {
	name := filepath.Join(dir, strings.ReplaceAll(pkg, "/", "_")+".test")
	if _, err := os.Stat(name); err == nil {
		return name, nil
	}
	_, err := run(exec.Command("go", "test", "-vet=off", "-c", "-o", name, module+"/"+pkg))
	return name, err
}

var result = regexp.MustCompile(`(?m)^Benchmark.*\s(\d+) B/op\s+(\d+) allocs/op`)

// measure runs one benchmark, and returns the path with what it allocated.
func measure(dir string, p path) (path, error) {
	name, err := binary(dir, p.pkg)
	if err != nil {
		return p, err
	}
	var pattern []string
	for part := range strings.SplitSeq(p.benchmark, "/") {
		pattern = append(pattern, "^"+regexp.QuoteMeta(part)+"$")
	}
	cmd := exec.Command(name, "-test.run=^$", "-test.bench="+strings.Join(pattern, "/"), "-test.benchmem", "-test.cpu=2",
		fmt.Sprintf("-test.benchtime=%dx", p.iterations))
	cmd.Dir = filepath.Join("..", "..", filepath.FromSlash(p.pkg))
	out, err := run(cmd)
	if err != nil {
		return p, err
	}
	m := result.FindAllSubmatch(out, -1)
	if len(m) != 1 {
		return p, fmt.Errorf("%s %s: %d results instead of one:\n%s", p.pkg, p.benchmark, len(m), out)
	}
	if p.bytes != none {
		p.bytes = string(m[0][1])
	}
	if p.allocs != none {
		p.allocs = string(m[0][2])
	}
	return p, nil
}

// run returns what a command printed, also as a part of its error.
func run(cmd *exec.Cmd) ([]byte, error) {
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, &out)
	}
	return out.Bytes(), nil
}
