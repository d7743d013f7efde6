package wire

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// tattler returns the credentials of the request in every part of a response that ends up in a text.
func tattler(secret string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		said := "rejected " + secret + ", really"
		quoted := strconv.Quote(said)
		status := `{"kind":"Status","apiVersion":"v1","status":"Failure","code":403,"reason":"Forbidden","message":` + quoted +
			`,"details":{"name":` + quoted + `,"kind":` + quoted + `,"causes":[{"reason":"x","field":` + quoted + `,"message":` + quoted + `}]}}`
		w.Header().Set("Warning", `299 - `+quoted)
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/status":
			w.WriteHeader(http.StatusForbidden)
			io.WriteString(w, status)
		case "/text":
			w.WriteHeader(http.StatusBadGateway)
			io.WriteString(w, said)
		case "/object":
			io.WriteString(w, said)
		}
	}
}

func TestTheClientsCredentialsAreRedactedEverywhere(t *testing.T) {
	const secret = "kiwi"
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	basic := base64.StdEncoding.EncodeToString([]byte("jane:" + secret))
	for name, c := range map[string]struct {
		cfg  rest.Config
		said string
	}{
		"bearer token":   {rest.Config{BearerToken: secret}, secret},
		"token file":     {rest.Config{BearerTokenFile: file}, secret},
		"password":       {rest.Config{Username: "jane", Password: secret}, secret},
		"basic auth":     {rest.Config{Username: "jane", Password: secret}, basic},
		"key":            {rest.Config{TLSClientConfig: rest.TLSClientConfig{KeyData: []byte("-----BEGIN X-----\n" + secret + "\n-----END X-----\n")}}, secret},
		"plugin's token": {rest.Config{WrapTransport: func(rt http.RoundTripper) http.RoundTripper { return bearer{rt, secret} }}, secret},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(tattler(c.said))
			t.Cleanup(s.Close)
			var shown bytes.Buffer
			cfg := c.cfg
			cfg.Host = s.URL
			cfg.KeyData = nil // client-go rejects a key without a certificate
			cl := newClient(t, &cfg, Options{
				Warnings: func(w Warning) { fmt.Fprintln(&shown, w) },
				Logger:   slog.New(slog.NewTextHandler(&shown, &slog.HandlerOptions{Level: slog.LevelDebug})),
			})
			cl.secrets.add(configured(&c.cfg)...)
			show := func(err error) {
				if err == nil {
					t.Error("no error")
					return
				}
				fmt.Fprintf(&shown, "%v\n%+v\n", err, err)
				var rejected *Error
				if errors.As(err, &rejected) {
					fmt.Fprintf(&shown, "%+v\n", rejected.Status())
				}
			}
			for _, path := range []string{"/status", "/text"} {
				_, err := cl.Request(VerbGet).AbsPath(path).Do(t.Context())
				show(err)
			}
			res, err := cl.Request(VerbGet).AbsPath("/object").Do(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			show(res.Into(&struct{}{}))
			show(cl.StatusError(Call{Verb: "watch"}, &metav1.Status{Message: "rejected " + c.said}))
			fmt.Fprintln(&shown, cl.Redact("rejected "+c.said))
			if strings.Contains(shown.String(), c.said) || !strings.Contains(shown.String(), "rejected "+redacted) {
				t.Errorf("%s", shown.String())
			}
		})
	}
}

// bearer is a transport that adds a token, as credential plugins do.
type bearer struct {
	rt    http.RoundTripper
	token string
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return b.rt.RoundTrip(r)
}
