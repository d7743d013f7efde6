package apiserver_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/tarnproject/tarn/apiserver"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// response is an HTTP response, decoded from JSON.
type response struct {
	code   int
	header http.Header
	body   map[string]any
	raw    string
}

func do(t testing.TB, s *apiserver.Server, method, path, body string, headers ...string) response {
	t.Helper()
	resp := open(t, s, method, path, body, headers...)
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	a := response{code: resp.StatusCode, header: resp.Header, raw: string(raw)}
	_ = json.Unmarshal(raw, &a.body) // some responses are not JSON
	return a
}

func open(t testing.TB, s *apiserver.Server, method, path, body string, headers ...string) *http.Response {
	t.Helper()
	resp, err := send(t.Context(), s, method, path, body, headers...)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return resp
}

func send(ctx context.Context, s *apiserver.Server, method, path, body string, headers ...string) (*http.Response, error) {
	cfg := s.MemoryConfig()
	req, err := http.NewRequestWithContext(ctx, method, cfg.Host+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	return cfg.Transport.RoundTrip(req)
}

func get(t testing.TB, s *apiserver.Server, path string) response {
	t.Helper()
	return do(t, s, http.MethodGet, path, "")
}

// at returns a field of the body, or "" if it is absent.
func (a response) at(path ...string) string { return field(a.body, path...) }

func field(tree any, path ...string) string {
	for _, step := range path {
		m, ok := tree.(map[string]any)
		if !ok {
			return ""
		}
		tree = m[step]
	}
	switch v := tree.(type) {
	case nil:
		return ""
	case float64:
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprint(tree)
}

// names returns the names of a list's items.
func (a response) names() []string {
	names := []string{}
	items, _ := a.body["items"].([]any)
	for _, item := range items {
		names = append(names, field(item, "metadata", "name"))
	}
	return names
}

// refused checks that the response is an API error.
func (a response) refused(t testing.TB, code int, reason, message string) {
	t.Helper()
	if a.code != code || a.at("reason") != reason || !strings.Contains(a.at("message"), message) {
		t.Errorf("got %d %s %q, want %d %s and %q", a.code, a.at("reason"), a.at("message"), code, reason, message)
	}
}

// events reads an open watch.
type events struct {
	resp  *http.Response
	lines *bufio.Scanner
}

func watching(t testing.TB, s *apiserver.Server, path string) *events {
	t.Helper()
	resp := open(t, s, http.MethodGet, path, "")
	t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != http.StatusOK {
		raw, _ := io.ReadAll(resp.Body)
		t.Fatalf("%s: %d %s", path, resp.StatusCode, raw)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	return &events{resp, lines}
}

// next returns an event such as "ADDED web 12", or how the watch ended.
func (e *events) next() string {
	if !e.lines.Scan() {
		if err := e.lines.Err(); err != nil {
			return "cut"
		}
		return "end"
	}
	var ev struct {
		Type   string
		Object map[string]any
	}
	if err := json.Unmarshal(e.lines.Bytes(), &ev); err != nil {
		return "garbage"
	}
	switch {
	case ev.Type == "ERROR":
		return strings.Join([]string{"ERROR", field(ev.Object, "code"), field(ev.Object, "reason")}, " ")
	case field(ev.Object, "metadata", "annotations", metav1.InitialEventsAnnotationKey) == "true":
		return ev.Type + " end " + field(ev.Object, "metadata", "resourceVersion")
	case ev.Type == "BOOKMARK":
		return "BOOKMARK " + field(ev.Object, "metadata", "resourceVersion")
	}
	return strings.Join([]string{ev.Type, field(ev.Object, "metadata", "name"), field(ev.Object, "metadata", "resourceVersion")}, " ")
}

func (e *events) expect(t testing.TB, want ...string) {
	t.Helper()
	for _, w := range want {
		if got := e.next(); got != w {
			t.Fatalf("got event %q, want %q", got, w)
		}
	}
}

func pod(name string, labels ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	p.Spec.Containers = []corev1.Container{{Name: "main", Image: "example.com/" + name}}
	for i := 0; i+1 < len(labels); i += 2 {
		metav1.SetMetaDataLabel(&p.ObjectMeta, labels[i], labels[i+1])
	}
	return p
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// fill creates objects and returns the resulting version.
func fill(t testing.TB, s *apiserver.Server, objs ...runtime.Object) string {
	t.Helper()
	for _, obj := range objs {
		if _, err := s.Create(obj); err != nil {
			t.Fatal(err)
		}
	}
	return version(s)
}

func version(s *apiserver.Server) string { return fmt.Sprint(s.Version()) }

// relabel updates a pod and returns the resulting version.
func relabel(t testing.TB, s *apiserver.Server, name, value string) string {
	t.Helper()
	if _, err := s.Update(pod(name, "tier", value)); err != nil {
		t.Fatal(err)
	}
	return version(s)
}

func clientset(t testing.TB, s *apiserver.Server) *kubernetes.Clientset {
	t.Helper()
	return clientsetOf(t, s.Config())
}

func clientsetOf(t testing.TB, cfg *rest.Config) *kubernetes.Clientset {
	t.Helper()
	c, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

const pods = "/api/v1/namespaces/default/pods"
