package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/journal"
	"github.com/tarnproject/tarn/object"
)

var moments = regexp.MustCompile(`(\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d\.\d{3}|\d{4}-\d\d-\d\dT[0-9:]+(Z|[+-]\d\d:\d\d)|resourceVersion: "\d+"|creationTimestamp: .*|uid: .*|127.0.0.1:\d+|=\S*kubeconfig\S*|\d+\.\d KiB`)

// recording calls tarn record while change is made, and returns the path of the recording.
func recording(t *testing.T, kubeconfig string, change func(), args ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "incident.tarn")
	cmd := start(t, command(t, append([]string{"record", "pods,secrets,deploy,widgets", "-A", "-o", path, "--kubeconfig", kubeconfig}, args...)...))
	cmd.err.count(t, ": watching, ", 4)
	eventually(t, func() bool { return strings.Count(strings.Join(events(t, path), " "), "Synced") == 4 })
	before := len(events(t, path))
	change()
	eventually(t, func() bool { return len(events(t, path)) == before+5 })
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if text := cmd.err.end(t); !strings.Contains(text, ": recorded 4 objects and 5 changes, ") {
		t.Error(text)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	return path
}

func events(t *testing.T, path string) (all []string) {
	for ev, err := range journal.Events(path) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, fmt.Sprint(ev.Kind, ev.Key, ev.State, string(ev.Data)))
	}
	return all
}

// An object that is recorded has a history, and is served again.
func TestARecordingIsShownAndServed(t *testing.T) {
	t.Parallel() // it waits most of the time
	server, kubeconfig := serve(t, apiserver.Options{})
	if err := server.Define(apiserver.Definition{
		Resource:   object.Resource{Group: "example.com", Version: "v1", Resource: "widgets", Kind: "Widget", Namespaced: true},
		ShortNames: []string{"wd"},
	}); err != nil {
		t.Fatal(err)
	}
	web := deployment("web", 3)
	web.Annotations = map[string]string{"about": "customer-4711"}
	create(t, server, running("web-1", 0), secret("login", "hunter2"), web)
	if err := server.LoadYAML([]byte("apiVersion: example.com/v1\nkind: Widget\nmetadata: {namespace: default, name: left}\nspec: {url: customer-4711, size: 3}\n")); err != nil {
		t.Fatal(err)
	}
	secrets := 2
	change := func() {
		secrets++
		replace(t, server, running("web-1", 4), deployment("web", 5), secret("login", fmt.Sprint("hunter", secrets)), deployment("web", 7))
		if err := server.Delete(running("web-1", 4)); err != nil {
			t.Fatal(err)
		}
	}
	path := recording(t, kubeconfig, change)
	if text := strings.Join(events(t, path), "\n"); strings.Contains(text, "aHVudGVy") || !strings.Contains(text, "customer-4711") {
		t.Errorf("the recording has the data of a Secret, or lacks other text:\n%s", text)
	}
	var text strings.Builder
	shows := func(args ...string) {
		r := call(t.Context(), args...)
		text.WriteString("$ tarn " + strings.Join(args, " ") + "\n" + r.String() + "\n")
	}
	end := ""
	for ev := range journal.Events(path) {
		end = ev.At.Format(time.RFC3339Nano)
	}
	for _, args := range []string{"deploy web", "Pod web-1", "secrets login", "wd left", "deployments.apps none", "nodes node-1", "deploy web --at " + end, "deploy web --at 1999-01-01T00:00:00Z", "pods web-1 --at " + end, "pods web-1 --between 02:10"} {
		parts := strings.Fields(args)
		shows(append([]string{"history", parts[0], parts[1], path}, parts[2:]...)...)
	}
	golden(t, "history", moments.ReplaceAllString(strings.NewReplacer(path, "incident.tarn", end, "END").Replace(text.String()), "…"))

	file := filepath.Join(t.TempDir(), "replay.kubeconfig")
	cmd := start(t, command(t, "replay", path, "--at", end, "--kubeconfig-out", file))
	cmd.out.count(t, "Press Ctrl-C", 1)
	r := call(t.Context(), "watch", "deploy,pods,wd", "-A", "--once", "-o", "jsonl", "--kubeconfig", file)
	lines := strings.Split(strings.TrimSpace(r.out), "\n")
	var served struct{ Object corev1.Pod }
	if len(lines) != 2 || json.Unmarshal([]byte(lines[0]), &served) != nil || !strings.Contains(lines[0], `"replicas":7`) || !strings.Contains(lines[1], `"url":"customer-4711"`) {
		t.Errorf("at the end it serves %v", r)
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		t.Fatal(err)
	}
	pods := kubernetes.NewForConfigOrDie(cfg).CoreV1().Pods("default")
	if _, err := pods.Create(t.Context(), pod("mine"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := pods.Delete(t.Context(), "mine", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	cmd.out.count(t, "client   delete pods default/mine: 200", 1)
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if out := cmd.out.end(t); cmd.Wait() != nil || !strings.Contains(out, "It stays at that moment.") || !strings.Contains(out, "client   create pods default/: 201") {
		t.Error(out)
	}

	// It also plays, and ends with what the server had.
	cmd = start(t, command(t, "replay", path, "--speed", "1000", "--kubeconfig-out", file, "--overwrite"))
	cmd.err.count(t, "The recording has ended", 1)
	again := call(t.Context(), "watch", "deploy,pods,wd", "-A", "--once", "-o", "jsonl", "--kubeconfig", file)
	if again.out != r.out {
		t.Errorf("at the end of playing it serves %v, not %v", again, r)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if out := cmd.out.end(t); cmd.Wait() != nil || strings.Count(out, "recorded MODIFIED deployments.apps default/web\n") != 2 || !strings.Contains(out, "recorded DELETED pods default/web-1\n") {
		t.Error(out)
	}

	create(t, server, running("web-1", 0))
	path = recording(t, kubeconfig, change, "--redact")
	if text := strings.Join(events(t, path), "\n"); strings.Contains(text, "4711") || strings.Contains(text, "web:1") || !strings.Contains(text, `"size":3`) {
		t.Errorf("a redacted recording has\n%s", text)
	}
	if r := call(t.Context(), "history", "deploy", "web", path); r.code != exitDone || !strings.Contains(r.out, "spec.replicas: 5 → 7") {
		t.Errorf("its history: %v", r)
	}
}

func TestRecordsThatCannotBeMadeOrRead(t *testing.T) {
	_, kubeconfig := serve(t, apiserver.Options{})
	dir := t.TempDir()
	exists, empty := filepath.Join(dir, "exists.tarn"), filepath.Join(dir, "empty.tarn")
	for path, content := range map[string]string{exists: "tarn journal 2\n" + strings.Repeat("x", 99), empty: ""} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var text strings.Builder
	for _, args := range []string{
		"record pods", "record -o F", "record pods -o EXISTS", "record pods/web -o F", "record pods --for -1s -o F", "record pods -o F --redact --show-secrets", "record pods -o DIR/none/ -l =",
		"record pods -A --for 1ms -o DIR/short.tarn",
		"replay", "replay EXISTS", "replay EMPTY", "replay DIR/none", "replay DIR", "replay DIR/short.tarn --speed 0", "replay DIR/short.tarn --at 02:1x", "replay EXISTS --listen 0.0.0.0:80",
		"history pods web", "history pods web EMPTY", "history pods web EXISTS --at 1 --between 2,3",
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		line := strings.NewReplacer("EXISTS", exists, "EMPTY", empty, "DIR", dir).Replace(args)
		if strings.HasPrefix(args, "record") {
			line += " --kubeconfig " + kubeconfig
		}
		r := call(ctx, strings.Fields(line)...)
		cancel()
		if args == "record pods -A --for 1ms -o DIR/short.tarn" {
			r.err = "" // it may be interrupted at any moment
		}
		text.WriteString("$ tarn " + args + "\n" + strings.ReplaceAll(r.String(), dir, "DIR") + "\n")
	}
	golden(t, "record-input", text.String())
}
