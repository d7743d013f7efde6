package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// bench compiles the tests and runs them.
type bench struct {
	folder  string // of the generated files
	remove  bool   // it is temporary
	control bool
	here    string // the folder that the overlay pretends to have the files
	standin []byte
	overlay map[string]string
	todo    []result
}

// result is a test and how it ended.
type result struct {
	path, name string // of the package, and of the test
	binary     string
	passed     bool
	tries      int
	took       time.Duration
	output     []byte
}

// timeLimit ends a test that hangs.
const timeLimit = 2 * time.Minute

func newBench(folder string, control bool) (*bench, error) {
	b := &bench{folder: folder, control: control, overlay: map[string]string{}}
	var err error
	if b.folder == "" {
		b.remove = true
		if b.folder, err = os.MkdirTemp("", "upstream-"); err != nil {
			return nil, err
		}
	}
	if b.here, err = filepath.Abs("upstream/generated"); err != nil {
		return nil, err
	}
	b.standin, err = os.ReadFile("upstream/standin/standin.go")
	return b, err
}

func (b *bench) clean() {
	if b.remove {
		os.RemoveAll(b.folder)
	}
}

// add compiles the tests of a selection.
func (b *bench) add(ctx context.Context, sel *selection, tests []*group) error {
	name := fmt.Sprintf("%s%d", filepath.Base(sel.path), len(b.overlay))
	files := sel.generate(tests, b.control)
	if strings.HasSuffix(sel.path, "/cache") {
		files["standin_test.go"] = b.standin
	}
	if err := os.MkdirAll(filepath.Join(b.folder, name), 0o755); err != nil {
		return err
	}
	for file, text := range files {
		path := filepath.Join(b.folder, name, file)
		if err := os.WriteFile(path, text, 0o644); err != nil {
			return err
		}
		b.overlay[filepath.Join(b.here, name, file)] = path
	}
	text, err := json.Marshal(map[string]any{"Replace": b.overlay})
	if err != nil {
		return err
	}
	overlay, binary := filepath.Join(b.folder, "overlay.json"), filepath.Join(b.folder, name+".test")
	if err := os.WriteFile(overlay, text, 0o644); err != nil {
		return err
	}
	if _, err := command(ctx, "go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", binary, "./upstream/generated/"+name); err != nil {
		return err
	}
	for _, g := range tests {
		b.todo = append(b.todo, result{path: sel.path, name: g.name, binary: binary})
	}
	return nil
}

// run runs the tests, as many at a time as there are processors. Many of them measure time, so
// one that should not fail gets two more tries, alone.
func (b *bench) run(ctx context.Context, mayFail func(result) bool) []result {
	var running sync.WaitGroup
	slots := make(chan struct{}, runtime.NumCPU())
	for i := range b.todo {
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			b.todo[i].run(ctx, b.folder)
		})
	}
	running.Wait()
	for i := range b.todo {
		for r := &b.todo[i]; !r.passed && r.tries < 3 && !mayFail(*r) && ctx.Err() == nil; {
			r.run(ctx, b.folder)
		}
	}
	slices.SortStableFunc(b.todo, func(a, b result) int { return cmp.Or(cmp.Compare(a.path, b.path), cmp.Compare(a.name, b.name)) })
	return b.todo
}

func (r *result) run(ctx context.Context, folder string) {
	began := time.Now()
	cmd := exec.CommandContext(ctx, r.binary, "-test.run", "^"+r.name+"$", "-test.timeout", timeLimit.String())
	cmd.Dir = folder
	output, err := cmd.CombinedOutput()
	r.passed, r.took, r.output = err == nil, time.Since(began), output
	r.tries++
}
