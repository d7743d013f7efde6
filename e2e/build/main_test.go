package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestWhatIsBuiltIsNotBuiltAgain(t *testing.T) {
	t.Setenv("KUBERNETES_VERSION", "")
	cache := t.TempDir()
	version, err := kubernetesVersion(mod)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(cache, fingerprint(mod, sum, []byte(ldflags(version))))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, p := range programs {
		if complete(dir) {
			t.Errorf("complete without %s", p.name)
		}
		if err := os.WriteFile(filepath.Join(dir, p.name), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	var stdout, stderr bytes.Buffer
	if err := run(context.Background(), []string{"-cache", cache}, &stdout, &stderr); err != nil {
		t.Fatal(err)
	}
	if got := strings.TrimSpace(stdout.String()); got != dir || stderr.Len() > 0 {
		t.Errorf("got %q and %q; want %q and nothing", got, stderr.String(), dir)
	}
}

func TestTheFolderIsNamedAfterAllThatMatters(t *testing.T) {
	names := map[string]bool{}
	for _, parts := range [][][]byte{
		{[]byte("mod"), []byte("sum")}, {[]byte("mods"), []byte("um")}, {[]byte("mod"), []byte("sum2")}, {[]byte("mod")},
	} {
		names[fingerprint(parts...)] = true
	}
	if len(names) != 4 {
		t.Errorf("%d names for four sets of sources", len(names))
	}
}

func TestAFailedBuildSaysWhyAndLeavesNothing(t *testing.T) {
	t.Setenv("KUBERNETES_VERSION", "")
	cache := filepath.Join(t.TempDir(), "cache")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var stdout, stderr bytes.Buffer
	err := run(ctx, []string{"-cache", cache}, &stdout, &stderr)
	if err == nil || !strings.Contains(err.Error(), "canceled") {
		t.Errorf("got %v", err)
	}
	if left, _ := os.ReadDir(cache); len(left) > 0 || stdout.Len() > 0 {
		t.Errorf("left %v, printed %q", left, stdout.String())
	}
	if err := run(ctx, []string{"extra"}, &stdout, &stderr); err == nil || !strings.Contains(err.Error(), `"extra"`) {
		t.Errorf("got %v", err)
	}
}

func TestProgressCountsPackagesAndKeepsTheLastLines(t *testing.T) {
	var out bytes.Buffer
	p := &progress{out: &out, began: time.Now()}
	for _, s := range []string{"a/b\nc", "/d\n# c/d\nx.go:1: wrong", "\n"} {
		if _, err := p.Write([]byte(s)); err != nil {
			t.Fatal(err)
		}
	}
	if got := string(p.last()); got != "a/b\nc/d\n# c/d\nx.go:1: wrong" {
		t.Errorf("last lines: %q", got)
	}
	if !strings.Contains(out.String(), "2 packages, now c/d") {
		t.Errorf("progress: %q", out.String())
	}
}
