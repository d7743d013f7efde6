package cli

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// A new project runs against tarn apiserver, by the steps that tarn new prints, and passes its tests, also
// with a cluster-scoped resource.
func TestANewProjectIsTestedAndRuns(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and tests a Go module")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	here, dir := filepath.Join(root, "internal", "cli"), t.TempDir()
	t.Chdir(dir)
	r := call(t.Context(), "new", "shopfront", "--kind", "BookStore", "--group", "shop.example.org", "--tarn", root)
	if r.code != exitDone || r.err != "" {
		t.Fatal(r)
	}
	t.Chdir(here)
	golden(t, "new", r.out)
	t.Chdir(filepath.Join(dir, "shopfront"))

	// Another program may listen on port 8080.
	rewrite(t, "main.go", `":8080"`, `"127.0.0.1:0"`)
	goCommand(t, "mod", "tidy")
	goCommand(t, "vet", "./...") // its tests are those of examples/website, with other names
	goCommand(t, "build", "-o", "program", ".")
	t.Chdir(dir)
	if r := call(t.Context(), "new", "tenants", "--kind", "Tenant", "--group", "example.org", "--cluster-scoped", "--tarn", root); r.code != exitDone {
		t.Fatal(r)
	}
	t.Chdir(filepath.Join(dir, "tenants"))
	goCommand(t, "mod", "tidy")
	goCommand(t, "test", "./...")
	t.Chdir(filepath.Join(dir, "shopfront"))

	server := inBackground(t, "apiserver", "--seed", "config", "--kubeconfig-out", "dev.kubeconfig")
	server.out.until(t, "export KUBECONFIG", server.ended)
	log := newHeard()
	program := exec.CommandContext(t.Context(), "./program")
	program.Env = append(os.Environ(), "KUBECONFIG=dev.kubeconfig")
	program.Stdout, program.Stderr = log, log
	program.Cancel = func() error { return program.Process.Signal(os.Interrupt) }
	program.WaitDelay = time.Minute
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = program.Wait() // fails if it is killed, and the log has the other reasons
	}()
	log.until(t, "host=shop.shop.example.org present=true", ended)
	watch := inBackground(t, "watch", "deployments", "-n", "default", "--kubeconfig", "dev.kubeconfig")
	watch.out.until(t, "shop", watch.ended)
	if err := program.Process.Signal(os.Interrupt); err != nil {
		t.Error(err)
	}
	if <-ended; program.ProcessState.ExitCode() != 0 {
		t.Errorf("the program failed:\n%s", log)
	}
}

// goCommand runs the go command in the working directory. It needs no network if the module
// cache has what a project needs, which is little more than what Tarn needs.
func goCommand(t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Env = append(os.Environ(), "GOFLAGS=-ldflags=-w", "GOWORK=off", "GOSUMDB=off")
	start := time.Now()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	t.Logf("go %s: %v", strings.Join(args, " "), time.Since(start).Round(time.Millisecond))
}

// rewrite replaces a text in a file, once.
func rewrite(t *testing.T, path, old, text string) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil || bytes.Count(content, []byte(old)) != 1 {
		t.Fatalf("%s does not have %s once: %v", path, old, err)
	}
	if err := os.WriteFile(path, bytes.Replace(content, []byte(old), []byte(text), 1), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestNewWithInvalidInputIsOneSentence(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	if err := os.Mkdir("taken", 0o755); err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, line := range []string{
		"new",
		"new a b",
		"new shop",
		"new shop --kind Shop",
		"new Shop --kind Shop --group example.org",
		"new shop --kind shop --group example.org",
		"new shop --kind Deployment --group example.org",
		"new shop --kind Shop --group example",
		"new shop --kind Shop --group apps.k8s.io",
		"new shop --kind Shop --group example.org --module a//b",
		"new net --kind Shop --group example.org",
		"new shop --kind Shop --group example.org",
		"new shop --kind Shop --group example.org --tarn .",
		"new taken --kind Shop --group example.org --tarn " + root,
	} {
		r := call(t.Context(), strings.Fields(line)...)
		if r.code != exitUsage || r.out != "" || strings.Count(r.err, "\n") != 1 {
			t.Errorf("%s: %v", line, r)
		}
		text.WriteString("$ tarn " + line + "\n" + r.err + "\n")
	}
	if entries, err := os.ReadDir("."); err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
	t.Chdir(filepath.Join(root, "internal", "cli"))
	golden(t, "new-input", text.String(), root, "ROOT")
}

func TestNewCompletesItsFlags(t *testing.T) {
	if got := completions(t, "new", "shopfront", "--"); !slices.Contains(got, "--kind") || !slices.Contains(got, "--group") || !slices.Contains(got, "--tarn") {
		t.Errorf("offers %v", got)
	}
	if got := completions(t, "new", ""); len(got) != 0 {
		t.Errorf("offers %v for the name", got)
	}
}

// Inside its own source tree the command needs no --tarn.
func TestNewFindsTheSourceTree(t *testing.T) {
	version, source, err := requirement("")
	if want, _ := filepath.Abs("../.."); err != nil || version != "" || source != want {
		t.Errorf("%q, %q, %v; want %s", version, source, err, want)
	}
}
