package cli

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestExplainPrintsWhyAKeyIsNotReconciled(t *testing.T) {
	const body = `{"key":"shop/web","controllers":[{"controller":"website","state":"backing off","why":"It is backing off.","do":"Fix it.","lastError":"oops",` +
		`"lastReconcile":{"controller":"website","key":"shop/web","at":"2026-01-02T03:04:05.000Z","seconds":0.12,"attempt":7,"outcome":"error","error":"oops\u001b","log":["INFO a=b"]},` +
		`"objects":[{"mirror":"websites","exists":true,"version":"7"},{"mirror":"pods","exists":false,"why":"it does not exist"}]},{"controller":"audit","state":"done","why":"It was reconciled."}]}`
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/prefix/debug/tarn/explain" {
			http.NotFound(w, r)
			return
		}
		switch r.URL.Query().Get("controller") {
		case "secret":
			if r.Header.Get("Authorization") != "Bearer s3cret" {
				http.Error(w, "this page requires a bearer token", http.StatusUnauthorized)
				return
			}
		case "other":
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"error":"there is no controller \"other\""}`)
			return
		case "broken":
			_, _ = io.WriteString(w, "hello")
			return
		}
		_, _ = io.WriteString(w, body)
	}))
	defer srv.Close()
	host := strings.TrimPrefix(srv.URL, "http://")
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const text = `shop/web in website: backing off
  It is backing off.
  Fix it.
  websites: version 7
  pods: absent, it does not exist
  last reconcile at 2026-01-02T03:04:05.000Z, attempt 7, 120ms: error: oops\x1b
    INFO a=b

shop/web in audit: done
  It was reconciled.
`
	base := srv.URL + "/prefix"
	for _, tt := range []struct {
		args     []string
		code     int
		out, err string
	}{
		{[]string{"shop/web", "--url", base}, exitDone, text, ""},
		{[]string{"shop/web", "--url", base + "/debug/tarn/"}, exitDone, text, ""},
		{[]string{"shop/web", "--url", base, "-o", "json"}, exitDone, body + "\n", ""},
		{[]string{"shop/web", "--url", base, "--controller", "secret", "--token-file", token}, exitDone, text, ""},
		{[]string{"shop/web", "--url", base, "--controller", "secret"}, exitFailed, "", "tarn: " + host + " requires a bearer token, which is configured or in the log of the program; give it with --token-file\n"},
		{[]string{"shop/web", "--url", base, "--controller", "other"}, exitFailed, "", "tarn: " + host + ": there is no controller \"other\"\n"},
		{[]string{"shop/web", "--url", srv.URL}, exitFailed, "", "tarn: " + host + " has no console at /debug/tarn/; serve Cluster.Handler there\n"},
		{[]string{"shop/web"}, exitUsage, "", "tarn: --url must be the address of a program, such as http://localhost:8080, got \"\"\n"},
		{[]string{"shop/web", "--url", "localhost:8080"}, exitUsage, "", "tarn: --url must be the address of a program, such as http://localhost:8080, got \"localhost:8080\"\n"},
		{[]string{"--url", base}, exitUsage, "", "tarn: tarn explain needs one key, such as shop/web, got 0 arguments\n"},
		{[]string{"shop/", "--url", base}, exitUsage, "", "tarn: not a key: \"shop/\" has an empty name after the slash\n"},
		{[]string{"shop/web", "--url", base, "-o", "xml"}, exitUsage, "", "tarn: --output must be text or json, got \"xml\"\n"},
	} {
		if r := call(t.Context(), append([]string{"explain"}, tt.args...)...); r.code != tt.code || r.out != tt.out || r.err != tt.err {
			t.Errorf("%v: %d\n%s%s", tt.args, r.code, r.out, r.err)
		}
	}
	if r := call(t.Context(), "explain", "shop/web", "--url", base, "--controller", "broken"); r.code != exitFailed || !strings.Contains(r.err, "is not a console of Tarn") {
		t.Error(r)
	}
	srv.Close()
	if r := call(t.Context(), "explain", "shop/web", "--url", base); r.code != exitFailed || !strings.Contains(r.err, "refused; is the server running? (--url ") {
		t.Error(r)
	}
}

func TestTheDemoExplainsItsKeys(t *testing.T) {
	t.Parallel() // it waits most of the time
	b := inBackground(t, "demo", "--objects", "100")
	for wait := regexp.MustCompile(`(?s)Console: (http://127\.0\.0\.1:\d+)/debug/tarn/\n.* [1-9][0-9]* reconciles`); ; {
		b.out.mu.Lock()
		all, more := b.out.text.String(), b.out.more
		b.out.mu.Unlock()
		if found := wait.FindStringSubmatch(all); found != nil {
			r := call(t.Context(), "explain", "shop/"+summaryName, "--url", found[1])
			if r.code != exitDone || !strings.HasPrefix(r.out, "shop/tarn-summary in summary: ") || !strings.Contains(r.out, "configmaps: ") {
				t.Error(r)
			}
			return
		}
		select {
		case <-more:
		case <-b.ended:
			t.Fatalf("it ended:\n%s%s", all, b.err)
		}
	}
}

func TestAPasswordInTheAddressIsNotShown(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, password, _ := r.BasicAuth(); password != "s3cret" {
			t.Errorf("the password is %q", password)
		}
		_, _ = io.WriteString(w, "hello")
	}))
	defer srv.Close()
	host := strings.TrimPrefix(srv.URL, "http://")
	for address, want := range map[string]string{
		"http://me:s3cret@" + host:        "http://xxxxx@" + host + " is not a console of Tarn",
		"me:s3cret@" + host:               `got "xxxxx@` + host + `"`,
		"ftp://me:s3cret@" + host:         `got "ftp://xxxxx@` + host + `"`,
		"http://me:s3cret@[bad":           `got "http://xxxxx@[bad"`,
		"http://me:s3cret%zz@" + host:     `got "http://xxxxx@` + host + `"`,
		"http://me:s3cret s3cret@" + host: `got "http://xxxxx@` + host + `"`,
		"http://me:s3cret@127.0.0.1:1":    "refused; is the server running? (--url 127.0.0.1:1)",
		"http://me:s3cret@[::1]:1/?a=@":   "--url",
	} {
		r := call(t.Context(), "explain", "shop/web", "--url", address)
		if text := r.out + r.err; r.code == exitDone || strings.Contains(text, "s3cret") || !strings.Contains(text, want) {
			t.Errorf("%s: %s", address, text)
		}
	}
}
