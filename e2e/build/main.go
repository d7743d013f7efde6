// Command build builds the programs of a real control plane (etcd, kube-apiserver and
// kubectl) from the modules that its go.mod pins, and prints their folder. The first build
// takes minutes. Later runs do nothing, because the folder is named after the inputs.
//
// With -version, or KUBERNETES_VERSION in the environment, it builds another version of
// Kubernetes (and the same etcd), from a module that it makes from that version's go.mod: its requirements with
// the staging modules of the same release.
//
// It is a module of its own because those programs need other versions of the Kubernetes
// modules than Tarn does, and many more of them. It imports nothing of Tarn.
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"
)

//go:embed go.mod
var mod []byte

//go:embed go.sum
var sum []byte

// program is one of the programs: its import path, the name that go build gives it and
// its usual name.
type program struct{ path, built, name string }

var programs = []program{
	{"go.etcd.io/etcd/server/v3", "server", "etcd"},
	{"k8s.io/kubernetes/cmd/kube-apiserver", "kube-apiserver", "kube-apiserver"},
	{"k8s.io/kubernetes/cmd/kubectl", "kubectl", "kubectl"},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return
		}
		fmt.Fprintln(os.Stderr, "build:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("build", flag.ContinueOnError)
	flags.SetOutput(stderr)
	cache := flags.String("cache", "", "folder below which the programs are kept (default: tarn-e2e in the user's cache folder)")
	other := flags.String("version", os.Getenv("KUBERNETES_VERSION"), "version of Kubernetes, such as v1.30.14 (default: that of go.mod)")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	version, err := kubernetesVersion(mod)
	if err != nil {
		return err
	}
	if *cache == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return fmt.Errorf("no folder to keep the programs in: %w; name one with -cache", err)
		}
		*cache = filepath.Join(user, "tarn-e2e")
	}
	mod, sum, module := mod, sum, ""
	if *other != "" && *other != version {
		version = *other
		if mod, sum, err = moduleOf(ctx, version); err != nil {
			return err
		}
		if module, err = os.MkdirTemp("", "tarn-e2e-module-"); err != nil {
			return err
		}
		defer os.RemoveAll(module)
		if err := errors.Join(os.WriteFile(filepath.Join(module, "go.mod"), mod, 0o644), os.WriteFile(filepath.Join(module, "go.sum"), sum, 0o644)); err != nil {
			return err
		}
	}
	stamp := ldflags(version)
	dir := filepath.Join(*cache, fingerprint(mod, sum, []byte(stamp)))
	if !complete(dir) {
		if err := build(ctx, module, *cache, dir, stamp, stderr); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintln(stdout, dir)
	return err
}

// ldflags are the linker's flags: no debugging information, and the version that
// /version and kubectl show.
func ldflags(version string) string {
	flags := "-s -w"
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		flags += " -X " + pkg + ".gitVersion=" + version + " -X " + pkg + ".gitTreeState=clean"
	}
	return flags
}

var required = regexp.MustCompile(`(?m)^\s*k8s\.io/kubernetes (v\S+)`)

func kubernetesVersion(mod []byte) (string, error) {
	found := required.FindSubmatch(mod)
	if found == nil {
		return "", errors.New("go.mod does not name k8s.io/kubernetes")
	}
	return string(found[1]), nil
}

var staging = regexp.MustCompile(`(?m)^\s*(k8s\.io/\S+) => \./staging/`)

// moduleOf returns a module from which that version of Kubernetes can be built. Its go.sum is that of
// Kubernetes, which lacks the staging modules; go build adds them, verified by the checksum database.
func moduleOf(ctx context.Context, version string) (mod, sum []byte, err error) {
	out, err := exec.CommandContext(ctx, "go", "mod", "download", "-json", "k8s.io/kubernetes@"+version).Output()
	var module struct{ Dir, Error string }
	if jerr := json.Unmarshal(out, &module); jerr != nil || module.Dir == "" {
		return nil, nil, fmt.Errorf("k8s.io/kubernetes %s: %w", version, errors.Join(err, jerr, errors.New(module.Error)))
	}
	if mod, err = os.ReadFile(filepath.Join(module.Dir, "go.mod")); err != nil {
		return nil, nil, err
	}
	if sum, err = os.ReadFile(filepath.Join(module.Dir, "go.sum")); err != nil {
		return nil, nil, err
	}
	_, minor, _ := strings.Cut(version, ".")
	own := []byte("module build\n\ngo 1.26.0\n\nrequire k8s.io/kubernetes " + version + "\n")
	for _, m := range staging.FindAllSubmatch(mod, -1) {
		own = fmt.Appendf(own, "replace %s => %s v0.%s\n", m[1], m[1], minor)
	}
	return own, sum, nil
}

// fingerprint identifies what the programs are built from.
func fingerprint(parts ...[]byte) string {
	h := sha256.New()
	for _, part := range append(parts, []byte(runtime.Version()), []byte(runtime.GOOS+"/"+runtime.GOARCH)) {
		fmt.Fprintf(h, "%d\n", len(part))
		h.Write(part)
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}

func complete(dir string) bool {
	for _, p := range programs {
		if info, err := os.Stat(filepath.Join(dir, p.name)); err != nil || !info.Mode().IsRegular() {
			return false
		}
	}
	return true
}

// build makes the programs in a folder beside dir and renames it, so that dir is complete or absent,
// even with concurrent builds. The programs of Kubernetes are those of the module in that folder if
// there is one; etcd is always this one's.
func build(ctx context.Context, module, cache, dir, stamp string, stderr io.Writer) error {
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(cache, "building-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	began := time.Now()
	fmt.Fprintln(stderr, "building etcd, kube-apiserver and kubectl; the first time takes some minutes")
	progress := &progress{out: stderr, every: 10 * time.Second, began: began, reported: began}
	for _, p := range programs {
		cmd := exec.CommandContext(ctx, "go", "build", "-v", "-ldflags", stamp, "-o", tmp+string(filepath.Separator))
		if module != "" && p.name != "etcd" {
			cmd.Dir, cmd.Args = module, append(cmd.Args, "-mod=mod")
		}
		cmd.Args = append(cmd.Args, p.path)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		cmd.Stdout, cmd.Stderr = progress, progress
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("go build: %w\n%s", err, progress.last())
		}
	}
	for _, p := range programs {
		if p.built == p.name {
			continue
		}
		if err := os.Rename(filepath.Join(tmp, p.built), filepath.Join(tmp, p.name)); err != nil {
			return err
		}
	}
	if err := os.Chmod(tmp, 0o755); err != nil {
		return err
	}
	if err := os.Rename(tmp, dir); err != nil {
		if complete(dir) {
			return nil // another build was faster
		}
		// dir is incomplete: part of it was deleted.
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
		if err := os.Rename(tmp, dir); err != nil && !complete(dir) {
			return err
		}
	}
	fmt.Fprintf(stderr, "built in %s\n", time.Since(began).Round(time.Second))
	return nil
}

// progress reads the output of go build -v, a package a line, and reports it periodically.
// It is written to by one goroutine.
type progress struct {
	out             io.Writer
	every           time.Duration
	began, reported time.Time
	packages        int
	part            []byte   // a line that has not ended
	tail            [][]byte // the last lines, for when it fails
}

func (p *progress) Write(b []byte) (int, error) {
	n := len(b)
	for {
		line, rest, whole := bytes.Cut(b, []byte("\n"))
		if !whole {
			p.part = append(p.part, b...)
			break
		}
		p.line(append(p.part, line...))
		p.part, b = nil, rest
	}
	return n, nil
}

func (p *progress) line(line []byte) {
	if p.tail = append(p.tail, line); len(p.tail) > 40 {
		p.tail = p.tail[1:]
	}
	p.packages++
	if now := time.Now(); now.Sub(p.reported) >= p.every {
		p.reported = now
		fmt.Fprintf(p.out, "  %4s  %4d packages, now %s\n", now.Sub(p.began).Round(time.Second), p.packages, line)
	}
}

func (p *progress) last() []byte {
	return append(bytes.Join(p.tail, []byte("\n")), p.part...)
}
