package wire

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/tarnproject/tarn/internal/soak"
	"github.com/tarnproject/tarn/wire/internal/wiretest"
)

func TestTheHandlerReceivesEachWarningOnce(t *testing.T) {
	var mu sync.Mutex
	var got []Warning
	c := serve(t, Options{Warnings: func(w Warning) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, w)
	}}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Add("Warning", `299 - "policy/v1beta1 is deprecated", 299 kube-apiserver "say \"hi\""`)
		w.Header().Add("Warning", `299 - "third"`)
		w.Header().Add("Warning", `110 - "response is stale"`)
		w.Header().Add("Warning", `nonsense`)
		if r.URL.Path == "/refused" {
			w.Header().Add("Warning", `299 - "also when refused"`)
			w.WriteHeader(http.StatusForbidden)
		}
	})
	for range 3 {
		if _, err := c.Request(VerbGet).AbsPath("/x").Do(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Request(VerbGet).AbsPath("/refused").Do(t.Context()); err == nil {
		t.Fatal("no error")
	}
	want := []Warning{
		{299, "-", "policy/v1beta1 is deprecated"}, {299, "kube-apiserver", `say "hi"`}, {299, "-", "third"}, {299, "-", "also when refused"},
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestWarningsAreLoggedByDefault(t *testing.T) {
	var log bytes.Buffer
	c := inMemory(t, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}, func(r *http.Request) (*http.Response, error) {
		return wiretest.Response(r, 200, "", "Warning", `299 - "mind the gap, Bearer `+opaque+`"`), nil
	})
	for range 2 {
		if _, err := c.Request(VerbGet).AbsPath("/x").Do(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if strings.Count(log.String(), "mind the gap") != 1 || strings.Contains(log.String(), opaque) {
		t.Errorf("the log is %q", log.String())
	}
}

func TestWarningsUseBoundedMemory(t *testing.T) {
	soak.Measures(t)
	reported := map[string]int{}
	w := newWarnings(Options{Warnings: func(w Warning) { reported[w.Text]++ }}, &secrets{})
	for i := range 10 * warningTexts {
		// A text that keeps coming is reported only once, however many others come.
		w.receive([]string{`299 - "always"`, fmt.Sprintf(`299 - "text %d"`, i)})
		if n := len(w.young) + len(w.old); n > 2*warningTexts {
			t.Fatalf("%d texts are held", n)
		}
	}
	if reported["always"] != 1 || reported["text 3"] != 1 {
		t.Errorf("reported %d and %d times", reported["always"], reported["text 3"])
	}
	w.receive([]string{`299 - "` + strings.Repeat("é", 3000) + `"`})
	for text := range reported {
		if len(text) > warningLength+len("…") {
			t.Errorf("a text has %d bytes", len(text))
		}
	}
}
