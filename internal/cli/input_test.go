package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarnproject/tarn/apiserver"
)

// TestInputErrorsAreOneSentence runs the built command with invalid input. Usage errors
// exit with 2, failures with 1.
func TestInputErrorsAreOneSentence(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	_, good := serve(t, apiserver.Options{})
	refusing, forbidden := serve(t, apiserver.Options{})
	if _, err := refusing.Inject(apiserver.Fault{Kind: apiserver.Forbidden, Resource: "pods"}); err != nil {
		t.Fatal(err)
	}
	unknowing, unauthorized := serve(t, apiserver.Options{})
	if _, err := unknowing.Inject(apiserver.Fault{Kind: apiserver.Unauthorized, Resource: "pods"}); err != nil {
		t.Fatal(err)
	}
	stalling, stalled := serve(t, apiserver.Options{})
	if _, err := stalling.Inject(apiserver.Fault{Kind: apiserver.Stall, Resource: "pods"}); err != nil {
		t.Fatal(err)
	}
	down := kubeconfigFor(t, "http://127.0.0.1:1")
	nowhere := write("nowhere", "apiVersion: v1\nkind: Config\ncurrent-context: gone\n")
	broken := write("broken", "apiVersion: v1\nkind: [\n")

	var text strings.Builder
	for _, c := range [][]string{
		{"wach"},
		{"nonsense"},
		{"watch"},
		{"watch", "pods", "--colour"},
		{"watch", "pods", "-o", "xml"},
		{"watch", "pods", "-o", "jsonpath-file=/dev/null"},
		{"watch", "pods", "--once", "-o", "diff"},
		{"watch", "pods", "--once", "--watch-only"},
		{"watch", "pods", "--once", "--timeout", "0s"},
		{"watch", "pods", "--timeout", "1s"},
		{"watch", "pods", "--once", "--timeout", "soon"},
		{"watch", "pods", "-l", "a b"},
		{"watch", "pods", "-n", "Bad_NS"},
		{"watch", "pods", "--field-selector", "a"},
		{"watch", "pods"},
		{"watch", "pods", "--kubeconfig", filepath.Join(dir, "missing")},
		{"watch", "pods", "--kubeconfig", dir},
		{"watch", "pods", "--kubeconfig", broken},
		{"watch", "pods", "--kubeconfig", nowhere},
		{"watch", "pods", "--kubeconfig", good, "--context", "prod"},
		{"watch", "podz", "--kubeconfig", good},
		{"watch", "pods,zzzzzz", "--kubeconfig", good},
		{"doctor", "pods/web", "--kubeconfig", good},
		{"watch", "pods/", "--kubeconfig", good},
		{"watch", "pods/web/log", "--kubeconfig", good},
		{"watch", "bindings", "--kubeconfig", good},
		{"watch", "pods", "--field-selector", "spec.color=red", "--kubeconfig", good},
		{"watch", "pods", "--kubeconfig", forbidden},
		{"watch", "pods", "--once", "--kubeconfig", forbidden},
		{"watch", "pods", "--once", "--kubeconfig", unauthorized},
		{"watch", "pods", "--once", "--timeout", "300ms", "--kubeconfig", stalled},
		{"watch", "pods", "--kubeconfig", down},
		{"doctor"},
		{"doctor", "pods", "-o", "yaml"},
		{"doctor", "pods", "--wait", "1ms"},
		{"doctor", "podz", "--kubeconfig", good},
		{"doctor", "pods", "--kubeconfig", down},
		{"version", "now"},
		{"completion"},
		{"completion", "tcsh"},
	} {
		var r result
		if strings.Join(c, " ") == "watch pods" { // a process without the user's kubeconfig
			r = finish(t, command(t, c...))
		} else {
			r = call(t.Context(), c...)
		}
		if r.code != exitUsage && r.code != exitFailed || r.out != "" {
			t.Errorf("%v: %v", c, r)
		}
		if strings.Count(r.err, "\n") != 1 || !strings.HasPrefix(r.err, "tarn: ") {
			t.Errorf("%v: not one line: %q", c, r.err)
		}
		text.WriteString("$ tarn " + strings.Join(c, " ") + "\n" + r.err + "exit " + string(rune('0'+r.code)) + "\n\n")
	}
	golden(t, "bad-input", text.String(),
		good, "GOOD", forbidden, "FORBIDDEN", unauthorized, "UNAUTHORIZED", stalled, "STALLED", down, "DOWN", dir, "DIR")
}

func TestWriteErrorsAreReported(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("this system has no /dev/full")
	}
	defer full.Close()
	server, kubeconfig := serve(t, apiserver.Options{})
	create(t, server, pod("web"))
	for _, args := range [][]string{{"watch", "pods", "--once"}, {"watch", "pods"}, {"doctor", "pods", "--wait", "1s"}} {
		cmd := command(t, append(args, "--kubeconfig", kubeconfig)...)
		var errs strings.Builder
		cmd.Stdout, cmd.Stderr = full, &errs
		if err := cmd.Run(); err == nil || cmd.ProcessState.ExitCode() != exitFailed {
			t.Errorf("%v: %v", args, err)
		}
		if !strings.HasSuffix(errs.String(), "tarn: cannot write output: no space left on device\n") {
			t.Errorf("%v: %q", args, errs.String())
		}
	}
}

func TestTheProgramNameIsTheInvokedOne(t *testing.T) {
	missing := func(string) (string, error) { return "", exec.ErrNotFound }
	installed := func(name string) (string, error) { return "/bin/" + name, nil }
	for _, c := range []struct {
		arg0 string
		look func(string) (string, error)
		want string
	}{
		{"/tmp/go-build123/b001/exe/tarn", installed, "go run ./cmd/tarn"},
		{"/bin/tarn", installed, "tarn"},
		{"./bin/tarn", missing, "./bin/tarn"},
		{"/my tools/tarn", missing, "'/my tools/tarn'"},
	} {
		if got := programName(c.arg0, c.look); got != c.want {
			t.Errorf("%s: %s, want %s", c.arg0, got, c.want)
		}
	}
}

func TestHelpHasExamples(t *testing.T) {
	for _, name := range []string{"watch", "record", "replay", "history", "doctor", "new", "version"} {
		r := call(t.Context(), name, "--help")
		if r.code != exitDone || !strings.Contains(r.out, "Examples:") || r.err != "" {
			t.Errorf("%s: %v", name, r)
		}
		golden(t, "help-"+name, r.out)
	}
	root := call(t.Context())
	golden(t, "help", root.out)
	for _, args := range [][]string{{"help"}, {"--help"}} {
		if r := call(t.Context(), args...); r != root {
			t.Errorf("%v: %v", args, r)
		}
	}
	if help, flag := call(t.Context(), "help", "watch"), call(t.Context(), "watch", "--help"); help != flag {
		t.Errorf("tarn help watch: %v", help)
	}
	for _, sub := range newRoot(&env{}).Commands() {
		if sub.Example == "" && sub.Name() != "help" && sub.Name() != "completion" {
			t.Errorf("%s has no examples", sub.Name())
		}
		if sub.Name() != "help" && !strings.Contains(root.out, "  "+sub.Name()) {
			t.Errorf("%s is not in the help:\n%s", sub.Name(), root.out)
		}
	}
}
