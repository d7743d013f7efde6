//go:build unix

package docs

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// The commands of the page that are marked "run" succeed, in the page's order, in a module with
// the page's files, or in this one if they are marked "clone". Those marked "background" run until the end; the next command starts when their output
// has the text in "until=text".
func TestTheCommandsOfTheFirstPageWork(t *testing.T) {
	slow(t)
	const page = "docs/getting-started.md"
	found := blocks(page, pages(t)[page])
	dir := t.TempDir()
	writeModule(t, dir, found)
	env := append(os.Environ(), "GOFLAGS=-vet=off -ldflags=-w") // for a fraction of the time
	ran := 0
	for _, b := range found {
		if len(b.info) < 2 || b.info[0] != "sh" {
			continue
		}
		text := strings.ReplaceAll(b.text, "../dev.kubeconfig", filepath.Join(dir, "dev.kubeconfig"))
		cmd := exec.CommandContext(t.Context(), "sh", "-euc", text)
		cmd.Dir, cmd.Env = dir, env
		if b.is("clone") {
			cmd.Dir = root
		}
		ran++
		switch {
		case b.is("run"):
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%s:%d: %s: %v\n%s", page, b.line, text, err, out)
			}
		case b.is("background"):
			inBackground(t, cmd, b.word("until="))
		default:
			t.Errorf("%s:%d: unknown words %q", page, b.line, b.info)
		}
	}
	if ran == 0 {
		t.Error("no commands")
	}
}

// writeModule writes the files of a page and a go.mod with this module's dependencies, which
// stands for that of the page's "go mod tidy".
func writeModule(t *testing.T, dir string, found []block) {
	t.Helper()
	at, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		files[name] = string(text)
	}
	files["go.mod"] = strings.Replace(files["go.mod"], "module "+module, "module hello", 1) +
		"\nrequire " + module + " v0.0.0\nreplace " + module + " => " + at + "\n"
	for _, b := range found {
		if path := b.word("file="); path != "" {
			files[path] = b.text
		}
	}
	for path, text := range files {
		file := filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// inBackground starts a command and returns when its output has a text. The command and its
// children are interrupted when the test ends.
func inBackground(t *testing.T, cmd *exec.Cmd, until string) {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = write, write
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	write.Close()
	drained := make(chan struct{})
	t.Cleanup(func() { // after the test's context has ended, which calls Cancel
		var exit *exec.ExitError
		if err := cmd.Wait(); err != nil && !errors.As(err, &exit) && !errors.Is(err, t.Context().Err()) {
			t.Errorf("%s: %v", cmd, err)
		}
		<-drained
		read.Close()
	})
	lines := bufio.NewScanner(read)
	var seen []string
	for lines.Scan() {
		seen = append(seen, lines.Text())
		if strings.Contains(lines.Text(), until) {
			go func() { defer close(drained); _, _ = io.Copy(io.Discard, read) }()
			return
		}
	}
	close(drained)
	t.Fatalf("%s ended without %q:\n%s", cmd, until, strings.Join(seen, "\n"))
}
