package wire

import (
	"context"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire/internal/wiretest"
)

var (
	podResource  = object.Resource{Version: "v1", Resource: "pods", Kind: "Pod", Namespaced: true}
	nodeResource = object.Resource{Version: "v1", Resource: "nodes", Kind: "Node"}
	webKey       = object.Key{Namespace: "shop", Name: "web"}
)

// inMemory returns a client with a transport in memory.
func inMemory(t testing.TB, opts Options, f wiretest.RoundTrip) *Client {
	t.Helper()
	c, err := NewWithTransport(&url.URL{Scheme: "https", Host: "server"}, f, opts)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// serve starts a real server and returns a client for it.
func serve(t testing.TB, opts Options, h http.HandlerFunc) *Client {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	base, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	c, err := NewWithTransport(base, nil, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.CloseIdleConnections)
	return c
}

// restServer starts a TLS server with HTTP/2 and returns a config for it.
func restServer(t *testing.T, h http.HandlerFunc) *rest.Config {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	return &rest.Config{Host: s.URL, TLSClientConfig: rest.TLSClientConfig{CAData: ca}}
}

func newClient(t *testing.T, cfg *rest.Config, opts Options) *Client {
	t.Helper()
	c, err := New(cfg, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.CloseIdleConnections)
	return c
}

func TestW23_ATokenFileIsReadAgainAfterA401(t *testing.T) {
	cfg := restServer(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer second" {
			w.WriteHeader(http.StatusUnauthorized)
		}
	})
	file := filepath.Join(t.TempDir(), "token")
	write := func(token string) {
		if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("first\n")
	cfg.BearerTokenFile = file
	cfg.BearerToken = "first" // as rest.InClusterConfig has both
	c := newClient(t, cfg, Options{})
	ask := func() error {
		_, err := c.Request(VerbGet).AbsPath("/version").Do(t.Context())
		return err
	}
	if err := ask(); !apierrors.IsUnauthorized(err) {
		t.Fatalf("got %v", err)
	}
	write("second\n")
	if err := ask(); err != nil {
		t.Errorf("the new token was not used: %v", err)
	}
	if cfg.BearerTokenFile != file || cfg.BearerToken != "first" {
		t.Error("the caller's config was changed")
	}
	cfg.BearerToken, cfg.BearerTokenFile = "", file+"-that-is-not-there"
	if _, err := New(cfg, Options{}); err == nil {
		t.Error("a missing file goes unnoticed")
	}
}

func TestNewTakesTLSAndCredentialsFromTheConfig(t *testing.T) {
	var got *http.Request
	cfg := restServer(t, func(w http.ResponseWriter, r *http.Request) { got = r })
	cfg.BearerToken = "t0ken"
	cfg.UserAgent = "shopkeeper/2"
	cfg.Impersonate = rest.ImpersonationConfig{UserName: "jane", Groups: []string{"ops"}}
	c := newClient(t, cfg, Options{})
	if _, err := c.Request(VerbGet).AbsPath("/version").Do(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got.ProtoMajor != 2 {
		t.Errorf("the server was asked by %s", got.Proto)
	}
	for name, want := range map[string]string{
		"Authorization": "Bearer t0ken", "User-Agent": "shopkeeper/2",
		"Impersonate-User": "jane", "Impersonate-Group": "ops", "Accept-Encoding": "gzip",
	} {
		if v := got.Header.Get(name); v != want {
			t.Errorf("%s is %q, want %q", name, v, want)
		}
	}
}

func TestNewReadsAKubeconfig(t *testing.T) {
	var got *http.Request
	cfg := restServer(t, func(w http.ResponseWriter, r *http.Request) { got = r })
	dir := t.TempDir()
	ca := filepath.Join(dir, "ca.crt")
	token := filepath.Join(dir, "token")
	for file, data := range map[string][]byte{ca: cfg.CAData, token: []byte("from-a-file\n")} {
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	kubeconfig := `{"apiVersion":"v1","kind":"Config","current-context":"c",
"clusters":[{"name":"s","cluster":{"server":"` + cfg.Host + `","certificate-authority":"` + ca + `"}}],
"users":[{"name":"u","user":{"tokenFile":"` + token + `"}}],
"contexts":[{"name":"c","context":{"cluster":"s","user":"u"}}]}`
	loaded, err := clientcmd.RESTConfigFromKubeConfig([]byte(kubeconfig))
	if err != nil {
		t.Fatal(err)
	}
	c := newClient(t, loaded, Options{})
	if _, err := c.Request(VerbGet).AbsPath("/version").Do(t.Context()); err != nil {
		t.Fatal(err)
	}
	if v := got.Header.Get("Authorization"); v != "Bearer from-a-file" {
		t.Errorf("Authorization is %q", v)
	}
}

func TestNewRunsACredentialPlugin(t *testing.T) {
	var got string
	cfg := restServer(t, func(w http.ResponseWriter, r *http.Request) { got = r.Header.Get("Authorization") })
	plugin := filepath.Join(t.TempDir(), "plugin")
	script := "#!/bin/sh\necho '{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\",\"status\":{\"token\":\"from-a-plugin\"}}'\n"
	if err := os.WriteFile(plugin, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	cfg.ExecProvider = execConfig(plugin)
	c := newClient(t, cfg, Options{})
	if _, err := c.Request(VerbGet).AbsPath("/version").Do(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got != "Bearer from-a-plugin" {
		t.Errorf("Authorization is %q", got)
	}
}

func TestNewGoesThroughTheProxyOfTheConfig(t *testing.T) {
	var asked string
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { asked = r.URL.String() }))
	t.Cleanup(proxy.Close)
	cfg := &rest.Config{Host: "http://inside.example", Proxy: func(*http.Request) (*url.URL, error) { return url.Parse(proxy.URL) }}
	c := newClient(t, cfg, Options{})
	if _, err := c.Request(VerbGet).AbsPath("/version").Do(t.Context()); err != nil {
		t.Fatal(err)
	}
	if asked != "http://inside.example/version" {
		t.Errorf("the proxy was asked for %q", asked)
	}
}

func TestNewTakesItsDefaultsFromTheConfig(t *testing.T) {
	var mu sync.Mutex
	var texts []string
	limited := 0
	cfg := &rest.Config{
		Host: "server", Timeout: 3 * time.Second,
		RateLimiter: fakeLimiter{func() { limited++ }},
		WarningHandler: warningFunc(func(code int, agent, text string) {
			mu.Lock()
			defer mu.Unlock()
			texts = append(texts, text)
		}),
		Transport: wiretest.RoundTrip(func(r *http.Request) (*http.Response, error) {
			if r.URL.String() != "http://server/healthz" {
				t.Errorf("asked %s", r.URL)
			}
			return wiretest.Response(r, 200, "ok", "Warning", `299 - "mind the gap"`), nil
		}),
	}
	c := newClient(t, cfg, Options{})
	if c.opts.Timeout != 3*time.Second {
		t.Errorf("the timeout of an attempt is %v", c.opts.Timeout)
	}
	if _, err := c.Request("GET").AbsPath("/healthz").Do(t.Context()); err != nil {
		t.Fatal(err)
	}
	if limited != 1 || len(texts) != 1 || texts[0] != "mind the gap" {
		t.Errorf("the limiter was asked %d times, the warnings are %q", limited, texts)
	}
	if c := newClient(t, &rest.Config{Host: "server"}, Options{}); c.opts.Limiter != nil {
		t.Error("there is a limiter by default")
	}
	if c := newClient(t, &rest.Config{Host: "server", QPS: 3}, Options{}); c.opts.Limiter == nil {
		t.Error("QPS is ignored")
	}
}

func TestNewPingsWhereClientGoWouldNot(t *testing.T) {
	c := newClient(t, &rest.Config{Host: "https://server"}, Options{})
	tr, ok := c.http.Transport.(*http.Transport)
	if !ok || tr == http.DefaultTransport {
		t.Fatalf("the transport is %T", c.http.Transport)
	}
	if tr.HTTP2 == nil || tr.HTTP2.SendPingTimeout != 30*time.Second || tr.HTTP2.PingTimeout != 15*time.Second {
		t.Errorf("HTTP/2 is configured as %+v", tr.HTTP2)
	}
}

func TestNewErrorsNameTheCauseWithoutThePassword(t *testing.T) {
	for _, c := range []struct {
		name string
		cfg  *rest.Config
		opts Options
		want string
	}{
		{"no config", nil, Options{}, "no rest.Config"},
		{"bad host", &rest.Config{Host: "https://jane:hunter2@[bad"}, Options{}, "neither a URL nor host:port"},
		{"host with a path but no scheme", &rest.Config{Host: "jane:hunter2@server/path"}, Options{}, "neither a URL nor host:port"},
		{"scheme", &rest.Config{Host: "ftp://jane:hunter2@server"}, Options{}, `scheme "ftp"`},
		{"query", &rest.Config{Host: "https://server?token=hunter2"}, Options{}, "query"},
		{"no such CA file", &rest.Config{Host: "https://server", TLSClientConfig: rest.TLSClientConfig{CAFile: "/does/not/exist"}}, Options{}, "no such file"},
		{"bad CA", &rest.Config{Host: "https://server", TLSClientConfig: rest.TLSClientConfig{CAData: []byte("hunter2")}}, Options{}, "PEM"},
		{"CA and insecure", &rest.Config{Host: "https://server", TLSClientConfig: rest.TLSClientConfig{Insecure: true, CAData: []byte("x")}}, Options{}, "insecure"},
		{"options", &rest.Config{Host: "https://server"}, Options{MaxBody: -1}, "MaxBody"},
	} {
		_, err := New(c.cfg, c.opts)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "wire: ") {
			t.Errorf("%s: %v; want %q in it", c.name, err, c.want)
		} else if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the error shows the password: %v", c.name, err)
		}
	}
}

func TestNewWithTransportRejectsInvalidURLs(t *testing.T) {
	for base, want := range map[string]string{
		"https://": "no host", "server": "scheme", "https://server/#x": "fragment", "https://server/?a=b": "query",
	} {
		u := wiretest.Must(url.Parse(base))(t)
		if _, err := NewWithTransport(u, nil, Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q in it", base, err, want)
		}
	}
	if _, err := NewWithTransport(nil, nil, Options{}); err == nil {
		t.Error("no URL is accepted")
	}
	if _, err := NewWithTransport(&url.URL{Scheme: "http", Host: "h"}, nil, Options{MaxBody: -1}); err == nil {
		t.Error("wrong options are accepted")
	}
}

func TestOptionsErrorsNameTheField(t *testing.T) {
	if err := (Options{}).valid(); err != nil {
		t.Errorf("the zero Options: %v", err)
	}
	for want, o := range map[string]Options{
		"MaxBody":    {MaxBody: -1},
		"Retry.Base": {Retry: Retry{Base: -1}},
		"Retry.Cap":  {Retry: Retry{Cap: -1}},
		"longer":     {Retry: Retry{Base: 2, Cap: 1}},
	} {
		if err := o.valid(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v; want %q in it", o, err, want)
		}
	}
}

func TestRequestsUseThePathAndUserOfTheServerURL(t *testing.T) {
	var path, user string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path = r.URL.Path
		user, _, _ = r.BasicAuth()
	}))
	t.Cleanup(s.Close)
	base := wiretest.Must(url.Parse(s.URL + "/clusters/one/"))(t)
	base.User = url.UserPassword("jane", "hunter2")
	c := wiretest.Must(NewWithTransport(base, nil, Options{}))(t)
	t.Cleanup(c.CloseIdleConnections)
	if _, err := c.Request(VerbGet).Resource(nodeResource).Key(object.Key{Name: "n1"}).Do(t.Context()); err != nil {
		t.Fatal(err)
	}
	if path != "/clusters/one/api/v1/nodes/n1" || user != "jane" {
		t.Errorf("asked for %s by %q", path, user)
	}
}

func TestARedirectIsNotFollowed(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("the redirect was followed, with the credentials of the first server")
	}))
	t.Cleanup(elsewhere.Close)
	cfg := restServer(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL+"/login?token=hunter2", http.StatusFound)
	})
	cfg.BearerToken = "t0ken"
	_, err := newClient(t, cfg, Options{}).Request(VerbGet).AbsPath("/version").Do(t.Context())
	if err == nil || !strings.Contains(err.Error(), "redirect") || !strings.Contains(err.Error(), elsewhere.URL) || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("the error is %v", err)
	}
}

func TestAnUntrustedCertificateIsAnError(t *testing.T) {
	cfg := restServer(t, func(http.ResponseWriter, *http.Request) {})
	cfg.CAData = nil
	attempts := 0
	cfg.Wrap(func(rt http.RoundTripper) http.RoundTripper {
		return wiretest.RoundTrip(func(r *http.Request) (*http.Response, error) { attempts++; return rt.RoundTrip(r) })
	})
	_, err := newClient(t, cfg, Options{}).Request(VerbGet).AbsPath("/version").Do(context.Background())
	if err == nil || !strings.Contains(err.Error(), "certificate") || attempts != 1 {
		t.Errorf("after %d attempts: %v", attempts, err)
	}
}

type fakeLimiter struct{ asked func() }

func (l fakeLimiter) TryAccept() bool            { return true }
func (l fakeLimiter) Accept()                    {}
func (l fakeLimiter) Stop()                      {}
func (l fakeLimiter) QPS() float32               { return 1 }
func (l fakeLimiter) Wait(context.Context) error { l.asked(); return nil }

type warningFunc func(int, string, string)

func (f warningFunc) HandleWarningHeader(code int, agent, text string) { f(code, agent, text) }

func execConfig(command string) *clientcmdapi.ExecConfig {
	return &clientcmdapi.ExecConfig{
		APIVersion: "client.authentication.k8s.io/v1", Command: command,
		InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
	}
}
