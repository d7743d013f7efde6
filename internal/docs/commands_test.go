//go:build unix

package docs

import (
	"bufio"
	"errors"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/tarnproject/tarn/apiserver"
)

// Every block of shell commands works, or a comment before it says why it is not run:
//
//	<!-- not run: needs a cluster -->
//
// The words behind the fence say how, as in "```sh clone run". The commands of a page run in its
// order: those of a block marked "run" succeed, and those of a block marked "background", one in
// each line, run until the end of the page. Of these, "until=one,two" has for each a text in its
// output, after which the next command starts. "clone" runs them in this source tree, instead of a
// module with the page's files. "port=8080" leaves out a block if that port is in use.
//
// The cluster that kubectl would use is an embedded API server with the contexts staging and prod.
func TestTheCommandsInTheDocumentationWork(t *testing.T) {
	slow(t)
	kubeconfig := ownCluster(t)
	texts, ran := pages(t), 0
	for _, page := range slices.Sorted(maps.Keys(texts)) {
		var commands []block
		found := blocks(page, texts[page])
		for _, b := range found {
			switch {
			case len(b.info) == 0 || b.info[0] != "sh":
			case b.notRun == "" && len(b.info) == 1:
				t.Errorf("%s:%d: say how to run these commands, or why not", page, b.line)
			case b.notRun != "" && len(b.info) > 1:
				t.Errorf("%s:%d: run and not run (%s)", page, b.line, b.notRun)
			case b.notRun == "":
				commands = append(commands, b)
			}
		}
		if len(commands) == 0 {
			continue
		}
		ran += len(commands)
		t.Run(page, func(t *testing.T) {
			t.Parallel() // most of a page is waiting for its programs
			dir := t.TempDir()
			writeModule(t, dir, found)
			for _, b := range commands {
				b.run(t, dir, kubeconfig)
			}
		})
	}
	t.Logf("%d blocks", ran)
}

var devKubeconfig = regexp.MustCompile(`(\.\./)*dev\.kubeconfig`)

// run runs the commands of a block. Kubeconfigs are written to dir.
func (b block) run(t *testing.T, dir, kubeconfig string) {
	t.Helper()
	if port := b.word("port="); port != "" {
		l, err := net.Listen("tcp", ":"+port)
		if err != nil {
			t.Logf("%s:%d: not run: %v", b.page, b.line, err)
			return
		}
		l.Close()
	}
	text := devKubeconfig.ReplaceAllLiteralString(b.text, filepath.Join(dir, "dev.kubeconfig"))
	command := func(text string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), "sh", "-euc", text)
		cmd.Dir = dir
		if b.is("clone") {
			cmd.Dir = root
		}
		// The flags save most of the time.
		cmd.Env = append(os.Environ(), "GOFLAGS=-vet=off -ldflags=-w", "KUBECONFIG="+kubeconfig)
		return cmd
	}
	switch {
	case b.is("run"):
		if out, err := command(text).CombinedOutput(); err != nil {
			t.Fatalf("%s:%d: %s: %v\n%s", b.page, b.line, text, err, out)
		}
	case b.is("background"):
		lines, until := strings.Split(strings.TrimSpace(text), "\n"), strings.Split(b.word("until="), ",")
		if len(until) != len(lines) {
			t.Fatalf("%s:%d: %d commands and %d texts in until=", b.page, b.line, len(lines), len(until))
		}
		for i, line := range lines {
			inBackground(t, command(line), until[i])
		}
	default:
		t.Errorf("%s:%d: unknown words %q", b.page, b.line, b.info)
	}
}

// ownCluster starts an API server and returns its kubeconfig.
func ownCluster(t *testing.T) (file string) {
	t.Helper()
	server := apiserver.Start(t, apiserver.Options{Address: "127.0.0.1:0"})
	config := clientcmdapi.NewConfig()
	config.Clusters["embedded"] = &clientcmdapi.Cluster{Server: server.Config().Host}
	for _, name := range []string{"staging", "prod"} {
		config.Contexts[name] = &clientcmdapi.Context{Cluster: "embedded"}
	}
	config.CurrentContext = "staging"
	file = filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		t.Fatal(err)
	}
	return file
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
