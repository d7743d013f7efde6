package cli

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/object"
)

// shells are those that cobra has completion scripts for.
var shells = []string{"bash", "zsh", "fish", "powershell"}

// completions returns the completions of the last word.
func completions(t *testing.T, args ...string) []string {
	t.Helper()
	r := call(t.Context(), append([]string{"__complete"}, args...)...)
	if r.code != exitDone {
		t.Fatal(r)
	}
	lines := strings.Split(strings.TrimSpace(r.out), "\n")
	var words []string
	for _, line := range lines[:len(lines)-1] { // the last is a directive
		word, _, _ := strings.Cut(line, "\t")
		words = append(words, word)
	}
	return words
}

func TestCompletionSuggestsResourcesOfTheCluster(t *testing.T) {
	server, kubeconfig := serve(t, apiserver.Options{})
	if err := server.Define(apiserver.Definition{
		Resource: object.Resource{Group: "example.com", Version: "v1", Resource: "widgets", Kind: "Widget", Namespaced: true},
	}); err != nil {
		t.Fatal(err)
	}
	create(t, server, pod("web"), pod("other"))
	kc := "--kubeconfig=" + kubeconfig
	for _, c := range []struct {
		args  []string
		has   []string
		hasnt []string
	}{
		{[]string{"watch", kc, "p"}, []string{"pods", "persistentvolumes"}, []string{"nodes"}},
		{[]string{"watch", kc, "wi"}, []string{"widgets"}, nil},
		{[]string{"doctor", kc, "pods,n"}, []string{"pods,nodes"}, []string{"pods,pods"}},
		{[]string{"watch", kc, "pods", ""}, []string{"nodes"}, []string{"pods"}},
		{[]string{"watch", kc, "pods", "-n", "kube"}, []string{"kube-system", "kube-public"}, []string{"default"}},
		{[]string{"watch", kc, "pods", "--context", ""}, []string{"test"}, nil},
		{[]string{"watch", "pods", "-o", ""}, outputs, nil},
		{[]string{"demo", "--faults="}, []string{"cut-watch", "random"}, nil},
		{[]string{"completion", ""}, shells, nil},
		{[]string{""}, []string{"watch", "doctor", "version", "completion"}, nil},
	} {
		got := completions(t, c.args...)
		for _, word := range c.has {
			if !slices.Contains(got, word) {
				t.Errorf("%v offers %v, and not %s", c.args, got, word)
			}
		}
		for _, word := range c.hasnt {
			if slices.Contains(got, word) {
				t.Errorf("%v offers %s", c.args, word)
			}
		}
	}
}

func TestCompletionWorksWithoutACluster(t *testing.T) {
	down := "--kubeconfig=" + kubeconfigFor(t, "http://127.0.0.1:1")
	if got := completions(t, "watch", down, "po"); len(got) != 0 {
		t.Errorf("offers %v", got)
	}
	if got := completions(t, "watch", "--kubeconfig=/does/not/exist", "pods", "-n", ""); len(got) != 0 {
		t.Errorf("offers %v", got)
	}
}

func TestCompletionScriptsAreValid(t *testing.T) {
	for _, shell := range shells {
		r := call(t.Context(), "completion", shell)
		if r.code != exitDone || !strings.Contains(r.out, "__complete") {
			t.Errorf("%s: %v", shell, r)
		}
		path, err := exec.LookPath(shell)
		if err != nil || shell == "powershell" {
			continue
		}
		check := exec.Command(path, "-n")
		check.Stdin = strings.NewReader(r.out)
		if out, err := check.CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", shell, err, out)
		}
	}
}

func TestVersionOutput(t *testing.T) {
	r := call(t.Context(), "version")
	if flag := call(t.Context(), "--version"); flag != r {
		t.Errorf("%v, want %v", flag, r)
	}
	if r.code != exitDone || !strings.HasPrefix(r.out, "tarn ") || !strings.Contains(r.out, "go1.") {
		t.Error(r)
	}
}
