package cli

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tarnproject/tarn/apiserver"
)

// heard collects output and lets a test wait for it.
type heard struct {
	mu   sync.Mutex // guards text and more
	text bytes.Buffer
	more chan struct{} // closed by the next write
}

func newHeard() *heard { return &heard{more: make(chan struct{})} }

// Write implements [io.Writer].
func (h *heard) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.text.Write(p)
	close(h.more)
	h.more = make(chan struct{})
	return len(p), nil
}

// String returns everything so far.
func (h *heard) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.text.String()
}

// until waits for text and fails if ended is closed before it appears.
func (h *heard) until(t *testing.T, text string, ended <-chan struct{}) string {
	t.Helper()
	for {
		h.mu.Lock()
		all, more := h.text.String(), h.more
		h.mu.Unlock()
		if strings.Contains(all, text) {
			return all
		}
		select {
		case <-more:
		case <-ended:
			if all = h.String(); !strings.Contains(all, text) {
				t.Fatalf("it ended without %q:\n%s", text, all)
			}
			return all
		}
	}
}

// session is a command line that runs in this process.
type session struct {
	out, err *heard
	ended    chan struct{}
	code     int
	stop     func()
}

// inBackground runs a command line in this process until the test stops it or ends.
func inBackground(t *testing.T, args ...string) *session {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	b := &session{out: newHeard(), err: newHeard(), ended: make(chan struct{})}
	b.stop = func() {
		cancel()
		<-b.ended
	}
	go func() {
		defer close(b.ended)
		b.code = run(ctx, wholeRoot, args, strings.NewReader(""), b.out, b.err)
	}()
	t.Cleanup(b.stop)
	return b
}

// exported returns the kubeconfig path in a server's greeting.
func exported(t *testing.T, greeting string) string {
	t.Helper()
	_, rest, ok := strings.Cut(greeting, "export KUBECONFIG=")
	if !ok {
		t.Fatalf("no line to use it:\n%s", greeting)
	}
	path, _, _ := strings.Cut(rest, "\n")
	return path
}

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const widgets = `apiVersion: example.com/v1
kind: Widget
metadata: {name: first, namespace: shop}
spec: {colour: red, size: 3}
---
# a comment alone is no object
---
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

func TestApiserverServesItsSeedAndShutsDownCleanly(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a", "widgets.yaml"), widgets)
	write(t, filepath.Join(dir, "b.json"), `{"apiVersion":"v1","kind":"List","items":[
		{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"one","namespace":"shop"},"data":{"a":"1"}},
		{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"default","labels":{"mine":"yes"}}}]}`)
	write(t, filepath.Join(dir, "README.md"), "not an object")
	write(t, filepath.Join(dir, "kustomization.yaml"), "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [b.json]\n")
	for _, flags := range [][]string{nil, {"--tls"}} {
		b := inBackground(t, append([]string{"apiserver", "--seed", dir}, flags...)...)
		kubeconfig := exported(t, b.out.until(t, "Ctrl-C", b.ended))
		if !strings.Contains(b.out.String(), "Loaded 5 objects") {
			t.Errorf("%v: not everything was loaded:\n%s", flags, b.out)
		}
		r := call(t.Context(), "watch", "widgets,configmaps,namespaces", "-A", "--once", "-o", "yaml", "--kubeconfig", kubeconfig)
		for _, want := range []string{"colour: red", "name: one", "mine: \"yes\""} {
			if !strings.Contains(r.out, want) {
				t.Errorf("%v: no %s in\n%v", flags, want, r)
			}
		}
		b.stop()
		if b.code != exitDone || b.err.String() != "" {
			t.Errorf("%v: exit %d, %s", flags, b.code, b.err)
		}
		if _, err := os.Stat(kubeconfig); !os.IsNotExist(err) {
			t.Errorf("%v: the temporary kubeconfig is still there: %v", flags, err)
		}
	}
}

func TestApiserverOverwritesOnlyItsOwnKubeconfig(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dev.kubeconfig")
	for range 2 { // the second run replaces the file of the first
		b := inBackground(t, "apiserver", "--kubeconfig-out", path)
		b.out.until(t, "Ctrl-C", b.ended)
		b.stop()
		cfg, err := clientcmd.LoadFromFile(path)
		if err != nil || b.code != exitDone {
			t.Fatalf("exit %d: %v", b.code, err)
		}
		if cfg.CurrentContext != kubeconfigEntry || !strings.Contains(b.out.String(), cfg.Clusters[kubeconfigEntry].Server) {
			t.Errorf("the kubeconfig is not of the server: %+v", cfg.Clusters)
		}
	}
	own := write(t, path, "apiVersion: v1\nkind: Config\nclusters: [{name: prod, cluster: {server: https://prod}}]\n")
	before, err := os.ReadFile(own)
	if err != nil {
		t.Fatal(err)
	}
	if r := call(t.Context(), "apiserver", "--kubeconfig-out", own); r.code != exitUsage {
		t.Errorf("another kubeconfig was replaced: %v", r)
	}
	if after, err := os.ReadFile(own); err != nil || !bytes.Equal(before, after) {
		t.Errorf("another kubeconfig was changed: %s, %v", after, err)
	}
	b := inBackground(t, "apiserver", "--kubeconfig-out", own, "--overwrite")
	b.out.until(t, "Ctrl-C", b.ended)
	b.stop()
	if !replaceable(own) {
		t.Error("--overwrite did not replace it")
	}
}

func TestApiserverEvaluatesPermissions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dev.kubeconfig")
	for range 2 { // the second run replaces the file of the first
		b := inBackground(t, "apiserver", "--rbac", "--service-account", "default/operator", "--kubeconfig-out", path)
		b.out.until(t, "Ctrl-C", b.ended)
		if r := call(t.Context(), "watch", "configmaps", "--once", "--kubeconfig", path); r.code != exitDone {
			t.Errorf("an administrator may not read: %v", r)
		}
		if r := call(t.Context(), "watch", "configmaps", "--once", "--kubeconfig", path, "--context", "default/operator"); r.code == exitDone ||
			!strings.Contains(r.err, `User "system:serviceaccount:default:operator" cannot list resource "configmaps"`) {
			t.Errorf("the account is not denied: %v", r)
		}
		b.stop()
	}
}

func TestApiserverInputErrorsAreOneSentence(t *testing.T) {
	dir := t.TempDir()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	file := func(name, text string) string { return write(t, filepath.Join(dir, name), text) }
	const pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: main, image: web}]}\n"
	cases := []struct {
		name string
		args []string
	}{
		{"argument", []string{"please"}},
		{"listen", []string{"--listen", "8080"}},
		{"remote", []string{"--listen", "0.0.0.0:0"}},
		{"port", []string{"--listen", taken.Addr().String()}},
		{"account", []string{"--service-account", "operator"}},
		{"account-namespace", []string{"--service-account", "nowhere/operator"}},
		{"controllers", []string{"--no-controllers", "--workloads"}},
		{"churn", []string{"--churn", "5"}},
		{"churn-negative", []string{"--objects", "9", "--churn", "-1"}},
		{"churn-endless", []string{"--objects", "9", "--churn", "Inf"}},
		{"churn-none", []string{"--objects", "9", "--churn", "nan"}},
		{"fault", []string{"--faults=earthquake"}},
		{"fault-setting", []string{"--faults=cut-watch,colour=red"}},
		{"fault-value", []string{"--faults=cut-watch,times=many"}},
		{"fault-rate", []string{"--faults=random:7"}},
		{"fault-seed", []string{"--faults=random:0.1:x"}},
		{"fault-apart", []string{"--faults", "cut-watch"}},
		{"fault-apart-wrong", []string{"--faults", "bogus"}},
		{"seed-missing", []string{"--seed", filepath.Join(dir, "nowhere")}},
		{"seed-empty", []string{"--seed", filepath.Dir(file("empty/README", "nothing"))}},
		{"seed-yaml", []string{"--seed", file("yaml.yaml", pod+"---\na: b: c\n")}},
		{"seed-invalid", []string{"--seed", file("invalid.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n")}},
		{"seed-key", []string{"--seed", file("key.yaml", "apiVersion: v1\nkind: Pod\nkind: Node\n")}},
		{"seed-kind", []string{"--seed", file("kind.yaml", "apiVersion: v1\nkind: Unicorn\nmetadata: {name: a}\n")}},
		{"seed-nokind", []string{"--seed", file("nokind.yaml", "hello: world\n")}},
		{"seed-text", []string{"--seed", file("text.yaml", "hello\n")}},
		{"seed-namespace", []string{"--seed", file("namespace.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: nowhere}\n")}},
		{"seed-field", []string{"--seed", file("field.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: many}\n")}},
		{"kubeconfig-folder", []string{"--kubeconfig-out", filepath.Join(dir, "missing", "kubeconfig")}},
		{"kubeconfig-other", []string{"--kubeconfig-out", file("other", "something else")}},
	}
	var all strings.Builder
	for _, c := range cases {
		r := call(t.Context(), append([]string{"apiserver"}, c.args...)...)
		if r.code == exitDone || strings.Count(r.err, "\n") != 1 || r.out != "" {
			t.Errorf("%s: %v", c.name, r)
		}
		all.WriteString(c.name + ": exit " + string(rune('0'+r.code)) + ": " + r.err)
	}
	golden(t, "apiserver-input", all.String(), dir, "DIR", taken.Addr().String(), "TAKEN")
}

func TestFaultFlagsAreParsed(t *testing.T) {
	f, err := parseFaults([]string{"random:0.25:7", "cut-watch,resource=pods,after=10", "latency,verb=list,times=2,wait=3s"})
	if err != nil {
		t.Fatal(err)
	}
	want := faultSpec{rate: 0.25, seed: 7, certain: []apiserver.Fault{
		{Kind: apiserver.CutWatch, Resource: "pods", After: 10},
		{Kind: apiserver.Latency, Verb: "list", Times: 2, Wait: 3_000_000_000},
	}}
	if d := cmp.Diff(want, f, cmp.AllowUnexported(faultSpec{})); d != "" {
		t.Error(d)
	}
	if text := f.String(); text != "25 % of requests at random (repeat with --faults=random:0.25:7), cut-watch of pods, latency" {
		t.Error(text)
	}
	server := apiserver.Start(t, apiserver.Options{})
	if err := f.inject(server); err != nil || len(server.Faults()) != 2 {
		t.Errorf("%v, %v", server.Faults(), err)
	}
}

func TestTheApiserverBinaryStopsOnCtrlC(t *testing.T) {
	cmd := command(t, "apiserver", "--objects", "50", "--churn", "20", "--admin", "--faults=latency,verb=get,wait=1ms")
	out, errs := newHeard(), newHeard()
	cmd.Stdout, cmd.Stderr = out, errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // the exit code is checked
	}()
	kubeconfig := exported(t, out.until(t, "Ctrl-C", ended))
	if r := finish(t, command(t, "watch", "pods", "-A", "--once", "--kubeconfig", kubeconfig)); r.code != exitDone || strings.Count(r.out, "\n") < 10 {
		t.Errorf("watch: %v", r)
	}
	for range 3 { // as timeout(1) does, which signals the process and then its group
		if err := cmd.Process.Signal(syscall.SIGINT); err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.Fatal(err)
		}
	}
	<-ended
	if cmd.ProcessState.ExitCode() != exitDone || errs.String() != "" {
		t.Errorf("exit %d: %s", cmd.ProcessState.ExitCode(), errs)
	}
	if _, err := os.Stat(kubeconfig); !os.IsNotExist(err) {
		t.Errorf("the temporary kubeconfig is still there: %v", err)
	}
}

// TestApiserverRunsNoControllersForEnvtestSuites deletes a namespace, and creates an object whose
// owner does not exist.
func TestApiserverRunsNoControllersForEnvtestSuites(t *testing.T) {
	const orphan = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"gone","uid":"u"}]}}`
	for flag, want := range map[string]int{"--no-controllers": http.StatusOK, "--namespace-deletion=false": http.StatusNotFound} {
		b := inBackground(t, "apiserver", flag)
		cfg, err := clientcmd.LoadFromFile(exported(t, b.out.until(t, "Ctrl-C", b.ended)))
		if err != nil {
			t.Fatal(err)
		}
		core := cfg.Clusters[kubeconfigEntry].Server + "/api/v1/namespaces/"
		resp, err := http.Post(core+"default/configmaps", "application/json", strings.NewReader(orphan))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if code, body := ask(t, http.MethodGet, core+"default/configmaps/a", ""); code != want {
			t.Errorf("%s: an orphan: %d: %s", flag, code, body)
		}
		ask(t, http.MethodDelete, core+"kube-node-lease", "")
		if code, body := ask(t, http.MethodGet, core+"kube-node-lease", ""); code != http.StatusOK || !strings.Contains(body, "Terminating") {
			t.Errorf("%s: a deleted namespace: %d: %s", flag, code, body)
		}
		b.stop()
	}
}

// TestForceDeletionRemovesAScheduledPod verifies the help text: without a kubelet, only kubectl delete
// --grace-period=0 --force removes such a pod.
func TestForceDeletionRemovesAScheduledPod(t *testing.T) {
	server, kubeconfig := serve(t, apiserver.Options{})
	web := pod("web")
	web.Spec.NodeName = "n1"
	create(t, server, web)
	url := "http://" + server.Addr().String() + "/api/v1/namespaces/default/pods/web"
	if code, body := ask(t, http.MethodDelete, url, ""); code != http.StatusOK {
		t.Fatalf("%d: %s", code, body)
	}
	if r := call(t.Context(), "watch", "pods", "--once", "--kubeconfig", kubeconfig); !strings.Contains(r.out, "Terminating") {
		t.Error(r)
	}
	if code, body := ask(t, http.MethodDelete, url+"?gracePeriodSeconds=0", ""); code != http.StatusOK {
		t.Fatalf("%d: %s", code, body)
	}
	if code, body := ask(t, http.MethodGet, url, ""); code != http.StatusNotFound {
		t.Errorf("%d: %s", code, body)
	}
}

// TestApiserverRejectsCrossSiteRequests sends requests as a browser would for a web page: with a
// rebound host name, and cross-origin.
func TestApiserverRejectsCrossSiteRequests(t *testing.T) {
	b := inBackground(t, "apiserver", "--listen", "0.0.0.0:0", "--allow-remote", "--admin", "--allow-host", "dev.example")
	kubeconfig := exported(t, b.out.until(t, "use http://dev.example:", b.ended))
	cfg, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	address := cfg.Clusters[kubeconfigEntry].Server
	if !strings.HasPrefix(address, "http://127.0.0.1:") {
		t.Errorf("the kubeconfig has an address that is no host: %s", address)
	}
	for host, want := range map[string]int{
		"": 200, "localhost": 200, "[::1]:80": 200, "dev.example:80": 200,
		"evil.example": 403, "0.0.0.0": 403, "localhost.evil.example": 403,
	} {
		for _, path := range []string{"/api/v1/secrets", "/tarn/faults"} {
			if code, body := ask(t, http.MethodGet, address+path, host); code != want {
				t.Errorf("%s of Host %q: %d, want %d: %s", path, host, code, want, body)
			}
		}
	}
	for _, header := range []http.Header{{"Sec-Fetch-Site": {"cross-site"}}, {"Sec-Fetch-Site": {"same-site"}}, {"Origin": {"http://evil.example"}}, {"Origin": {"null"}}} {
		for _, path := range []string{"/tarn/cut?resource=pods", "/api/v1/namespaces"} {
			if code := post(t, address+path, header); code != http.StatusForbidden {
				t.Errorf("POST %s with %v: %d", path, header, code)
			}
		}
	}
	if code := post(t, address+"/tarn/cut?resource=pods", nil); code != http.StatusOK {
		t.Errorf("POST without a browser: %d", code)
	}
}

func post(t *testing.T, url string, header http.Header) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, values := range header {
		req.Header[name] = values
	}
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}
