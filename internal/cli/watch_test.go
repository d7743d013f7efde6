package cli

import (
	"context"
	"encoding/json"
	"net"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/object"
)

// ages matches values that differ between runs.
var ages = regexp.MustCompile(`\b\d+s\b`)

func normal(text string) string { return ages.ReplaceAllString(text, "AGE") }

func running(name string, restarts int32) *corev1.Pod {
	p := pod(name)
	p.Status = corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{Name: "main", Ready: true, RestartCount: restarts}}}
	return p
}

func TestOncePrintsTheStateAndEnds(t *testing.T) {
	server, kubeconfig := serve(t, apiserver.Options{})
	other := pod("far")
	other.Namespace = "kube-system"
	other.Labels = nil
	create(t, server, running("web-1", 0), running("web-2", 3), other, configMap("settings", "1"), secret("login", "hunter2"), deployment("web", 3))
	if err := server.Define(apiserver.Definition{
		Resource:   object.Resource{Group: "example.com", Version: "v1", Resource: "widgets", Kind: "Widget", Namespaced: true},
		ShortNames: []string{"wd"},
	}); err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, args := range []string{
		"pods", "po -A", "pod -n kube-system", "pods -l app=web -A", "pods --field-selector metadata.name=web-1",
		"pods/web-1", "po/far -A", "pods/web-1,pods/web-2,pods/none", "cm/settings secrets", "pods,cm secrets deploy.apps -A", "Deployment", "deployments.v1.apps", "namespaces -n default", "widgets.example.com", "wd", "pods pods,po",
	} {
		r := call(t.Context(), append([]string{"watch", "--once", "--kubeconfig", kubeconfig}, strings.Fields(args)...)...)
		text.WriteString("$ tarn watch --once " + args + "\n" + normal(r.String()) + "\n")
	}
	golden(t, "watch-once", text.String())
}

func TestOnceWritesJSONAndYAML(t *testing.T) {
	server, kubeconfig := serve(t, apiserver.Options{})
	create(t, server, configMap("a", "1"), configMap("b", "<2>"))
	r := call(t.Context(), "watch", "--once", "-o", "jsonl", "cm", "--kubeconfig", kubeconfig)
	lines := strings.Split(strings.TrimSuffix(r.out, "\n"), "\n")
	if len(lines) != 2 || r.code != exitDone || r.err != "" {
		t.Fatal(r)
	}
	var event struct {
		Type   string
		Object corev1.ConfigMap
	}
	if err := json.Unmarshal([]byte(lines[1]), &event); err != nil {
		t.Fatal(err)
	}
	if event.Type != "ADDED" || event.Object.Kind != "ConfigMap" || event.Object.Data["value"] != "<2>" || !strings.Contains(lines[1], "<2>") {
		t.Errorf("%s", lines[1])
	}
	r = call(t.Context(), "watch", "--once", "-o", "yaml", "cm", "--kubeconfig", kubeconfig)
	if docs := strings.Split(r.out, "---\n"); len(docs) != 3 || !strings.Contains(docs[2], "  name: b\n") || strings.Contains(r.out, "#") {
		t.Errorf("%v", r)
	}
}

func TestWatchContinuesThroughCutsAnd410(t *testing.T) {
	t.Parallel() // it waits most of the time
	server, kubeconfig := serve(t, apiserver.Options{})
	create(t, server, configMap("settings", "1"))
	l := start(t, command(t, "watch", "configmaps", "-o", "diff", "--kubeconfig", kubeconfig))
	l.err.count(t, "configmaps: watching, 1 object\n", 1)

	replace(t, server, configMap("settings", "2"))
	l.out.count(t, `data.value: "1" → "2"`, 1)

	if n := server.Cut("configmaps"); n != 1 {
		t.Fatalf("%d watches were cut", n)
	}
	replace(t, server, configMap("settings", "3"))
	l.err.count(t, "configmaps: disconnected: the connection to the server was lost", 1)
	l.out.count(t, `data.value: "2" → "3"`, 1)
	l.err.count(t, "configmaps: live again after ", 1)

	// While the watch is disconnected, the server changes and is compacted.
	remove, err := server.Inject(apiserver.Fault{Kind: apiserver.Unavailable, Resource: "configmaps", Verb: "watch"})
	if err != nil {
		t.Fatal(err)
	}
	server.Cut("configmaps")
	l.err.count(t, "configmaps: disconnected: server rejected watch configmaps in default: ", 1)
	l.err.count(t, "; retrying in ", 1) // the backoff grows until it is reported
	replace(t, server, configMap("settings", "4"))
	create(t, server, configMap("new", "1"))
	replace(t, server, configMap("settings", "5"))
	server.Compact(0)
	remove()
	l.err.count(t, "configmaps: the resource version expired (410); relisting\n", 1)
	l.out.count(t, `data.value: "3" → "5"`, 1)
	l.out.count(t, "+ configmaps default/new\n", 1)
	l.err.count(t, "configmaps: live again after ", 2)

	if r := l.interrupt(t); r.code != exitDone || strings.Contains(r.out, "\x1b") || strings.Contains(r.err, "\x1b") {
		t.Errorf("%q", r)
	}
}

func TestWatchShowsSeveralResourcesAsTheyChange(t *testing.T) {
	server, kubeconfig := serve(t, apiserver.Options{})
	create(t, server, pod("web-1"), secret("login", "hunter2"))
	l := start(t, command(t, "watch", "pods,secrets,horizontalpodautoscalers", "--kubeconfig", kubeconfig))
	l.out.count(t, "pod/web-1", 1)
	l.out.count(t, "secret/login", 1)
	replace(t, server, running("web-1", 1))
	l.out.count(t, "MODIFIED", 1)
	if err := server.Delete(pod("web-1")); err != nil {
		t.Fatal(err)
	}
	l.out.count(t, "DELETED", 1)
	replace(t, server, secret("login", "hunter3"))
	l.out.count(t, "MODIFIED", 2)
	r := l.interrupt(t)
	// The order of the two is not defined, and so is how often headers are repeated.
	rows := regexp.MustCompile(`(?m)^.*/.*$`).FindAllString(normal(r.out), -1)
	slices.Sort(rows[:2])
	golden(t, "watch-several", strings.Join(rows, "\n")+"\n")
}

func TestWatchOnlyOmitsExistingObjects(t *testing.T) {
	server, kubeconfig := serve(t, apiserver.Options{})
	create(t, server, configMap("old", "1"), secret("login", "hunter2"))
	l := start(t, command(t, "watch", "cm,secrets", "-o", "jsonl", "--watch-only", "--kubeconfig", kubeconfig))
	l.err.count(t, "watching, 1 object\n", 2)
	create(t, server, configMap("new", "1"))
	l.out.count(t, `"new"`, 1)
	replace(t, server, secret("login", "hunter3"))
	l.out.count(t, `"MODIFIED"`, 1)
	r := l.interrupt(t)
	if strings.Contains(r.out, `"old"`) || strings.Count(r.out, "\n") != 2 || strings.Contains(r.out, "initial") {
		t.Errorf("%v", r)
	}
	if strings.Contains(r.out, "aHVudGVy") || !strings.Contains(r.out, hidden) {
		t.Errorf("the secret is not hidden: %v", r)
	}
}

func TestWatchEndsWithItsContextInProcess(t *testing.T) {
	server, kubeconfig := serve(t, apiserver.Options{})
	create(t, server, configMap("settings", "1"))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan result)
	go func() { ended <- call(ctx, "watch", "cm", "--kubeconfig", kubeconfig) }()
	eventually(t, func() bool { return server.Watches("configmaps") > 0 })
	cancel()
	if r := <-ended; r.code != exitDone {
		t.Error(r)
	}
}

func TestOnceThatIsInterruptedFails(t *testing.T) {
	server, kubeconfig := serve(t, apiserver.Options{})
	if _, err := server.Inject(apiserver.Fault{Kind: apiserver.Stall, Resource: "pods"}); err != nil {
		t.Fatal(err)
	}
	l := start(t, command(t, "watch", "pods", "--once", "--kubeconfig", kubeconfig))
	eventually(t, func() bool { return server.Injected(apiserver.Stall) > 0 })
	if r := l.interrupt(t); r.code != exitFailed || r.err != "tarn: interrupted before the initial list was complete\n" {
		t.Error(r)
	}
}

func TestAnInterruptIsNotReportedAsAServerFailure(t *testing.T) {
	for _, name := range []string{"watch", "doctor"} {
		// The server accepts connections and never responds. Each command gets its own
		// server, to avoid leftover connections.
		silent, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer silent.Close()
		kubeconfig := kubeconfigFor(t, "http://"+silent.Addr().String())
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan result)
		go func() { ended <- call(ctx, name, "pods", "--kubeconfig", kubeconfig) }()
		conn, err := silent.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Read(make([]byte, 1)); err != nil { // the request was sent
			t.Fatal(err)
		}
		cancel()
		if r := <-ended; r.code != exitFailed || r.err != "tarn: interrupted\n" || r.out != "" {
			t.Errorf("%s: %v", name, r)
		}
		conn.Close()
	}
}

func TestWatchOnATerminal(t *testing.T) {
	server, kubeconfig := serve(t, apiserver.Options{})
	create(t, server, configMap("settings", "1"))
	for _, plain := range []bool{false, true} {
		cmd := command(t, "watch", "cm", "--kubeconfig", kubeconfig)
		if plain {
			cmd.Env = append(cmd.Env, "NO_COLOR=1")
		}
		l, terminal := startTerminal(t, cmd, 100)
		l.out.count(t, "configmaps live, 1 object · Ctrl-C to stop", 1)
		replace(t, server, configMap("settings", "2"))
		l.out.count(t, "MODIFIED", 1)
		replace(t, server, configMap("settings", "1"))
		l.out.count(t, "MODIFIED", 2)
		if _, err := terminal.Write([]byte{3}); err != nil { // Ctrl-C
			t.Fatal(err)
		}
		r := l.finish(t)
		if r.code != exitDone {
			t.Errorf("exit %d", r.code)
		}
		// The terminal finally shows the table and the message, without the status line. ^C
		// is echoed by the terminal.
		screen := normal(emulate(r.out))
		if strings.Contains(screen, "Ctrl-C to stop") || !strings.Contains(screen, "settings") || !strings.Contains(screen, "MODIFIED") {
			t.Errorf("left on the terminal:\n%s", screen)
		}
		if coloured := strings.Contains(r.out, "\x1b[33m"); coloured == plain {
			t.Errorf("NO_COLOR %v, coloured %v: %q", plain, coloured, r.out)
		}
	}
}

// emulate returns what a terminal finally shows, for the sequences used here.
func emulate(written string) string {
	var screen, line []rune
	column := 0
	style := regexp.MustCompile(`\x1b\[[0-9;]*m`)
	for _, part := range regexp.MustCompile(`\x1b\[K|.|\n|\r`).FindAllString(style.ReplaceAllString(written, ""), -1) {
		switch part {
		case "\x1b[K":
			line = line[:column]
		case "\r":
			column = 0
		case "\n":
			screen = append(append(screen, line...), '\n')
			line, column = nil, 0
		default:
			line = append(line[:column], append([]rune(part), line[min(column+1, len(line)):]...)...)
			column++
		}
	}
	return string(append(screen, line...))
}

func TestTheViewEscapesControlCharactersInObjects(t *testing.T) {
	server, kubeconfig := serve(t, apiserver.Options{})
	create(t, server, &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}, Type: "Warning", Reason: "Evil",
		Message: "\x1b]0;title\a\x1b[2Jgone\nnext", InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: "web"},
	})
	r := call(t.Context(), "watch", "--once", "events", "--kubeconfig", kubeconfig)
	if strings.ContainsAny(r.out, "\x1b\a") || strings.Count(r.out, "\n") != 2 || !strings.Contains(r.out, "gone next") {
		t.Errorf("%q", r.out)
	}
}
