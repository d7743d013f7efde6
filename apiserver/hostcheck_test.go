package apiserver_test

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/tarnproject/tarn/apiserver"
)

// over sends a request to the server's address with the given Host header.
func over(t *testing.T, s *apiserver.Server, method, path, host string, headers ...string) (code int, body string) {
	t.Helper()
	req := must(http.NewRequestWithContext(t.Context(), method, s.Config().Host+path, nil))
	req.Host = host
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	return resp.StatusCode, string(must(io.ReadAll(resp.Body)))
}

func TestUnknownHostsAreRejected(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{Address: "127.0.0.1:0", AllowedHosts: []string{"api.example"}})
	for host, want := range map[string]int{
		"": 200, "localhost": 200, "127.0.0.1:1": 200, "[::1]:6443": 200, "api.example": 200, "API.example.:443": 200,
		"evil.example": 403, "localhost.evil.example": 403, "10.0.0.1": 403,
	} {
		for _, path := range []string{"/api/v1/secrets", "/healthz", "/version"} {
			if code, body := over(t, s, http.MethodGet, path, host); code != want || want == 403 && !strings.Contains(body, "AllowedHosts") {
				t.Errorf("Host %q: GET %s: %d, want %d: %s", host, path, code, want, body)
			}
		}
	}
	if a := get(t, s, "/api/v1/secrets"); a.code != http.StatusOK {
		t.Errorf("in memory: %d %s", a.code, a.raw)
	}
}

func TestConfigNamesAHostThatTheServerAccepts(t *testing.T) {
	for _, address := range []string{":0", "0.0.0.0:0", "[::]:0", "[::1]:0", "localhost:0", "127.0.0.1:0"} {
		if probe, err := net.Listen("tcp", address); err != nil {
			t.Logf("%s is left out: %v", address, err) // a machine without IPv6
			continue
		} else {
			probe.Close()
		}
		for _, tls := range []bool{false, true} {
			s := apiserver.Start(t, apiserver.Options{Address: address, TLS: tls})
			if err := clientsetOf(t, s.Config()).RESTClient().Get().AbsPath("/healthz").Do(t.Context()).Error(); err != nil {
				t.Errorf("listening on %s, TLS %v, as %s: %v", address, tls, s.Config().Host, err)
			}
		}
	}
}

func TestCrossOriginWritesAreRejected(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{Address: "127.0.0.1:0", Admin: true})
	self := s.Config().Host
	for _, c := range []struct {
		method, path string
		headers      []string
		want         int
	}{
		{http.MethodPost, "/tarn/compact", nil, 200},
		{http.MethodPost, "/tarn/compact", []string{"Origin", self}, 200},
		{http.MethodPost, "/tarn/compact", []string{"Sec-Fetch-Site", "same-origin", "Origin", self}, 200},
		{http.MethodPost, "/tarn/compact", []string{"Sec-Fetch-Site", "none"}, 200},
		{http.MethodGet, "/tarn/faults", []string{"Sec-Fetch-Site", "cross-site"}, 200}, // the browser hides the response from the page
		{http.MethodPost, "/tarn/compact", []string{"Origin", "http://evil.example"}, 403},
		{http.MethodPost, "/tarn/compact", []string{"Origin", "null"}, 403},
		{http.MethodPost, "/tarn/compact", []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{http.MethodPost, "/tarn/compact", []string{"Sec-Fetch-Site", "same-site", "Origin", "http://127.0.0.1:1"}, 403},
		{http.MethodDelete, "/tarn/faults", []string{"Sec-Fetch-Site", "cross-site"}, 403},
		// A request without a Content-Type needs no preflight.
		{http.MethodPost, "/api/v1/namespaces", []string{"Sec-Fetch-Site", "cross-site"}, 403},
	} {
		if code, body := over(t, s, c.method, c.path, "", c.headers...); code != c.want {
			t.Errorf("%s %s %v: %d, want %d: %s", c.method, c.path, c.headers, code, c.want, body)
		}
	}
}

func TestTheCertificateContainsTheAllowedHosts(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{Address: "127.0.0.1:0", TLS: true, AllowedHosts: []string{"api.example"}})
	cfg := s.Config()
	cfg.ServerName = "api.example"
	if err := clientsetOf(t, cfg).RESTClient().Get().AbsPath("/healthz").Do(t.Context()).Error(); err != nil {
		t.Error(err)
	}
}
