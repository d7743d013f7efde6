package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestGrowthHasAPlotOfEveryMeasure(t *testing.T) {
	var stdout, stderr bytes.Buffer
	file := filepath.Join(t.TempDir(), "growth.svg")
	if err := growth(options{rounds: 1, turn: time.Millisecond, growth: file}, []int{1_000, 2_000}, &stdout, &stderr); err != nil {
		t.Fatalf("%v:\n%s", err, stderr.String())
	}
	if lines := strings.Count(stdout.String(), "\n"); lines != 16 { // 3 measures of 3 sides, 3 of 2, and 1 of Tarn
		t.Errorf("%d lines:\n%s", lines, stdout.String())
	}
	svg, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(svg, []byte("<polyline")); n != 16 || bytes.Contains(svg, []byte("NaN")) || bytes.Contains(svg, []byte("Inf")) {
		t.Errorf("%d lines in\n%s", n, svg)
	}
}
