package controlplane

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// Binaries returns the folder with etcd, kube-apiserver and kubectl. It builds them first
// if they are not there, which takes minutes; `make e2e` does so with progress shown.
func Binaries(ctx context.Context) (string, error) {
	_, here, _, ok := runtime.Caller(0)
	if !ok || !filepath.IsAbs(here) {
		return "", errors.New("controlplane: built with -trimpath, the folder e2e/build cannot be found; set Options.Binaries")
	}
	cmd := exec.CommandContext(ctx, "go", "run", ".")
	cmd.Dir = filepath.Join(filepath.Dir(here), "..", "build")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("controlplane: building the programs: %w\n%s", err, tail(stderr.String(), 30))
	}
	return strings.TrimSpace(string(out)), nil
}

// tail returns the last lines of a text.
func tail(text string, lines int) string {
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if len(all) > lines {
		all = all[len(all)-lines:]
	}
	return strings.Join(all, "\n")
}
