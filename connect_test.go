package tarn_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/tarnproject/tarn"
)

const kubeconfig = `apiVersion: v1
kind: Config
current-context: here
clusters:
- name: one
  cluster: {server: "https://one.example.com:6443"}
- name: two
  cluster: {server: "https://two.example.com"}
contexts:
- name: here
  context: {cluster: one, user: me, namespace: shop}
- name: there
  context: {cluster: two, user: me}
users:
- name: me
  user: {token: hidden-token}
`

// write creates a file and returns its path.
func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// nowhere hides the kubeconfig and service account of this machine.
func nowhere(t *testing.T) {
	t.Helper()
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	t.Setenv("KUBERNETES_SERVICE_PORT", "")
}

func TestConnectFindsTheCluster(t *testing.T) {
	nowhere(t)
	path := write(t, "config", kubeconfig)
	for _, c := range []struct {
		opts            []tarn.ConnectOption
		host, namespace string
	}{
		{with(tarn.WithKubeconfig(path)), "one.example.com:6443", "shop"},
		{with(tarn.WithKubeconfig(path), tarn.WithContext("there")), "two.example.com", "default"},
		{with(tarn.WithConfig(&rest.Config{Host: "three.example.com"})), "three.example.com", "default"},
	} {
		cluster := connect(t, c.opts...)
		if got := cluster.Client().Host(); got != c.host || cluster.Status().Server != c.host {
			t.Errorf("%+v: the server is %s", c.opts, got)
		}
		if got := cluster.Namespace(); got != c.namespace {
			t.Errorf("%+v: the namespace is %s", c.opts, got)
		}
	}
	t.Setenv("KUBECONFIG", path)
	if got := connect(t).Client().Host(); got != "one.example.com:6443" {
		t.Errorf("by $KUBECONFIG: %s", got)
	}
	config := connect(t).Config()
	if config.BearerToken != "hidden-token" || config.QPS != 0 {
		t.Errorf("the config has QPS %v", config.QPS)
	}
}

func TestConnectErrorsNameTheCause(t *testing.T) {
	nowhere(t)
	path := write(t, "config", kubeconfig)
	for want, opts := range map[string][]tarn.ConnectOption{
		"/none nor a pod's service account; use tarn.WithKubeconfig": {},
		"in-cluster configuration: ":                                 with(tarn.InCluster()),
		"no such file":                                               with(tarn.WithKubeconfig(path + ".missing")),
		"read kubeconfig: ":                                          with(tarn.WithKubeconfig(write(t, "broken", "clusters: {{{hidden-token"))),
		" names no cluster":                                          with(tarn.WithKubeconfig(write(t, "empty", ""))),
		`context "elsewhere" does not exist`:                         with(tarn.WithKubeconfig(path), tarn.WithContext("elsewhere")),
		"WithConfig excludes WithKubeconfig":                         with(tarn.WithKubeconfig(path), tarn.WithConfig(&rest.Config{})),
		"InCluster excludes WithKubeconfig and WithContext":          with(tarn.WithContext("there"), tarn.InCluster()),
		"WithRateLimit(0, 3): want a positive rate":                  with(tarn.WithConfig(&rest.Config{}), tarn.WithRateLimit(0, 3)),
		"WithRateLimit(-1, 0): want a positive rate":                 with(tarn.WithConfig(&rest.Config{}), tarn.WithRateLimit(-1, 0)),
		"Tuning.Lists is negative":                                   with(tarn.WithConfig(&rest.Config{}), tarn.WithTuning(tarn.Tuning{Lists: -1})),
		"Tuning.ServedEvery is negative":                             with(tarn.WithConfig(&rest.Config{}), tarn.WithTuning(tarn.Tuning{ServedEvery: -time.Second})),
		"neither a URL nor host:port":                                with(tarn.WithConfig(&rest.Config{Host: "http://%zz"})),
	} {
		_, err := tarn.Connect(opts...)
		if err == nil || !strings.HasPrefix(err.Error(), "tarn: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nwant: %s", err, want)
		}
		if err != nil && strings.Contains(err.Error(), "hidden-token") {
			t.Errorf("the error contains the token: %v", err)
		}
	}
}

func TestUserAgentAndRateReachTheServer(t *testing.T) {
	agents := make(chan string, 10)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) { agents <- req.UserAgent() }))
	defer server.Close()
	c := connect(t, tarn.WithConfig(&rest.Config{Host: server.URL}), tarn.WithUserAgent("shopkeeper/1"), tarn.WithRateLimit(0.001, 1))
	defer c.Client().CloseIdleConnections()
	get := func(ctx context.Context) error {
		_, err := c.Client().Request(http.MethodGet).AbsPath("/healthz").Do(ctx)
		return err
	}
	if err := get(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := <-agents; got != "shopkeeper/1" {
		t.Errorf("user agent %q", got)
	}
	soon, cancel := context.WithTimeout(t.Context(), time.Minute) // shorter than the rate limit's wait, so the request fails immediately
	defer cancel()
	if err := get(soon); err == nil {
		t.Error("a second request within a thousand seconds")
	}
}
