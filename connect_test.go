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
		opts            tarn.Options
		host, namespace string
	}{
		{tarn.Options{Kubeconfig: path}, "one.example.com:6443", "shop"},
		{tarn.Options{Kubeconfig: path, Context: "there"}, "two.example.com", "default"},
		{tarn.Options{Config: &rest.Config{Host: "three.example.com"}}, "three.example.com", "default"},
	} {
		cluster := connect(t, c.opts)
		if got := cluster.Client().Host(); got != c.host || cluster.Status().Server != c.host {
			t.Errorf("%+v: the server is %s", c.opts, got)
		}
		if got := cluster.Namespace(); got != c.namespace {
			t.Errorf("%+v: the namespace is %s", c.opts, got)
		}
	}
	t.Setenv("KUBECONFIG", path)
	if got := connect(t, tarn.Options{}).Client().Host(); got != "one.example.com:6443" {
		t.Errorf("by $KUBECONFIG: %s", got)
	}
	config := connect(t, tarn.Options{}).Config()
	if config.BearerToken != "hidden-token" || config.QPS != 0 {
		t.Errorf("the config has QPS %v", config.QPS)
	}
}

func TestConnectErrorsNameTheCause(t *testing.T) {
	nowhere(t)
	path := write(t, "config", kubeconfig)
	for want, opts := range map[string]tarn.Options{
		"/none nor a pod's service account; set Options.Kubeconfig": {},
		"in-cluster configuration: ":                                {InCluster: true},
		"no such file":                                              {Kubeconfig: path + ".missing"},
		"read kubeconfig: ":                                         {Kubeconfig: write(t, "broken", "clusters: {{{hidden-token")},
		" names no cluster":                                         {Kubeconfig: write(t, "empty", "")},
		`context "elsewhere" does not exist`:                        {Kubeconfig: path, Context: "elsewhere"},
		"Options.Config excludes Kubeconfig":                        {Kubeconfig: path, Config: &rest.Config{}},
		"Options.InCluster excludes Kubeconfig and Context":         {Context: "there", InCluster: true},
		"Options.Burst needs a QPS":                                 {Config: &rest.Config{}, Burst: 3},
		"Options.QPS or Burst is negative":                          {Config: &rest.Config{}, QPS: -1},
		"Options.Lists is negative":                                 {Config: &rest.Config{}, Lists: -1},
		"Options.ServedEvery is negative":                           {Config: &rest.Config{}, ServedEvery: -time.Second},
		"neither a URL nor host:port":                               {Config: &rest.Config{Host: "http://%zz"}},
	} {
		_, err := tarn.Connect(opts)
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
	c := connect(t, tarn.Options{Config: &rest.Config{Host: server.URL}, UserAgent: "shopkeeper/1", QPS: 0.001, Burst: 1})
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
