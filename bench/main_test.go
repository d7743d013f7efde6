package main

import (
	"bytes"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestMain runs the program if the test binary was started as one of its child processes.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && slices.Contains([]string{childArg, serveArg, controllerServeArg}, os.Args[1]) {
		os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// TestEveryMeasureGivesRows runs the whole program with few objects. The figures are meaningless,
// but each measure checks the results of both sides.
func TestEveryMeasureGivesRows(t *testing.T) {
	var stdout, stderr bytes.Buffer
	report, err := measured(options{objects: 1000, rounds: 1, turn: time.Millisecond, run: regexp.MustCompile("")}, &stderr)
	if err != nil {
		t.Fatalf("%v:\n%s", err, stderr.String())
	}
	if err := report.write(&stdout, true); err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`^Benchmark\S+/side=\S+ 1( [0-9.e+-]+ \S+)+$`)
	for _, l := range strings.Split(strings.TrimSpace(stdout.String()), "\n") {
		if !line.MatchString(l) {
			t.Errorf("benchstat cannot read %q", l)
		}
	}
	targets := map[string]bool{}
	for _, r := range report.Rows {
		number, _, _ := strings.Cut(r.Measure, " ")
		if r.Met != nil {
			targets[number] = true
		}
		if r.Tarn == nil || r.Tarn.Value < 0 {
			t.Errorf("%s: no figure for Tarn", r.Measure)
		}
		if strings.Contains(r.Measure, "|") {
			t.Errorf("%s: would break the table", r.Measure)
		}
	}
	if len(targets) != 52 {
		t.Errorf("rows with a target are of %d numbers; want 52: %v", len(targets), targets)
	}
	for _, m := range measures {
		if !m.named && !strings.Contains(stderr.String(), " "+m.name+"\n") {
			t.Errorf("no progress reported for %s", m.name)
		}
	}
}

func TestMillionGivesRowsWhenItIsNamed(t *testing.T) {
	var stderr bytes.Buffer
	report, err := measured(options{objects: 1000, rounds: 1, turn: time.Millisecond, run: regexp.MustCompile("^million$")}, &stderr)
	if err != nil {
		t.Fatalf("%v:\n%s", err, stderr.String())
	}
	if len(report.Rows) != 20 {
		t.Errorf("%d rows; want 20:\n%s", len(report.Rows), stderr.String())
	}
	for _, r := range report.Rows {
		if r.Tarn.Value <= 0 {
			t.Errorf("%s: no figure", r.Measure)
		}
	}
	opts, err := parse([]string{"-run", "^million$"}, &stderr)
	if err != nil || opts.objects != 1_000_000 {
		t.Errorf("%d objects by default (%v); want a million", opts.objects, err)
	}
}

func TestTheTableIsOneTable(t *testing.T) {
	var stdout, stderr bytes.Buffer
	code := run([]string{"-objects", "1000", "-rounds", "1", "-turn", "1ms", "-run", "^(get|index)$"}, &stdout, &stderr)
	if code != 0 {
		t.Fatalf("status %d:\n%s", code, stderr.String())
	}
	table, _, _ := strings.Cut(stdout.String(), "\n\n")
	lines := strings.Split(table, "\n")
	if len(lines) != 4 {
		t.Fatalf("%d lines; want a header, a rule and two rows:\n%s", len(lines), table)
	}
	for _, line := range lines {
		if strings.Count(line, "|") != 7 {
			t.Errorf("not six columns: %s", line)
		}
	}
}

func TestWrongFlagsAreRefusedWithAReason(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"-objects 5", "at least 1,000"},
		{"-rounds 0", "at least 1"},
		{"-turn 0s", "positive"},
		{"-run nothing-of-this-name", "matches none"},
		{"-run (", "missing closing"},
		{"extra", `unexpected argument "extra"`},
		{"-unknown", "not defined"},
	} {
		var stdout, stderr bytes.Buffer
		if code := run(strings.Fields(c.args), &stdout, &stderr); code != 2 {
			t.Errorf("%s: status %d; want 2", c.args, code)
		}
		if !strings.Contains(stderr.String(), c.want) {
			t.Errorf("%s: %q does not say %q", c.args, stderr.String(), c.want)
		}
	}
}

func TestHelpNamesFlagsAndMeasures(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if code := run([]string{"-help"}, &stdout, &stderr); code != 0 {
		t.Errorf("status %d; want 0", code)
	}
	for _, want := range []string{"-objects", "-run", "-benchstat", "-cpuprofile", "-rounds", "-turn", "replace-unchanged"} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("no word of %s", want)
		}
	}
}
