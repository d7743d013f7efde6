package cli

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarnproject/tarn/apiserver"
)

// figures matches values that differ between runs.
var figures = regexp.MustCompile(`\b\d+(\.\d+)?(ms|µs|s)\b|tarn\.invalid`)

// Uses virtual time, since the verdicts depend on response times.
func TestDoctorReportsProblemsAndRemedies(t *testing.T) {
	for _, c := range []struct {
		name   string
		opts   apiserver.Options
		faults []apiserver.Fault
		args   string
		all    bool
		audit  bool
		want   error
	}{
		{name: "healthy", args: "pods,nodes secrets", audit: true},
		{name: "all-namespaces", args: "pods,deploy", all: true},
		{name: "old-server", opts: apiserver.Options{NoStreamingLists: true, NoBookmarks: true, NoSharding: true}, args: "pods"},
		{name: "forbidden", faults: []apiserver.Fault{{Kind: apiserver.Forbidden, Resource: "pods"}}, args: "pods,nodes", want: errFound},
		{name: "no-watch", faults: []apiserver.Fault{{Kind: apiserver.Forbidden, Resource: "pods", Verb: "watch"}}, args: "pods", want: errFound},
		{name: "bad-events", faults: []apiserver.Fault{{Kind: apiserver.CorruptFrame, Resource: "pods"}}, args: "pods", want: errFound},
		{name: "no-bookmarks", faults: []apiserver.Fault{{Kind: apiserver.DropBookmarks, Resource: "pods"}}, args: "pods"},
		{name: "cut-lists", faults: []apiserver.Fault{{Kind: apiserver.TruncateBody, Resource: "pods"}}, args: "pods", want: errFound},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c.opts.Seed = 1
				server := apiserver.Start(t, c.opts)
				create(t, server, pod("web-1"), pod("web-2"), secret("login", "hunter2"))
				for _, f := range c.faults {
					if _, err := server.Inject(f); err != nil {
						t.Fatal(err)
					}
				}
				var out bytes.Buffer
				e := &env{out: newPrinter(&out), err: newPrinter(io.Discard), log: slog.New(slog.DiscardHandler)}
				flags := doctorFlags{wait: time.Second, timeout: 20 * time.Second}
				flags.allNamespaces, flags.audit = c.all, c.audit
				if err := examineAll(t.Context(), e, server.MemoryConfig(), "default", flags, strings.Fields(c.args)); err != c.want {
					t.Errorf("%v, want %v", err, c.want)
				}
				golden(t, "doctor-"+c.name, figures.ReplaceAllString(out.String(), "N"))
			})
		})
	}
}

func TestDoctorWritesJSON(t *testing.T) {
	server, kubeconfig := serve(t, apiserver.Options{})
	var large []string
	for range 4000 {
		large = append(large, "a line that says nothing, over and over again")
	}
	create(t, server, configMap("large", strings.Join(large, "\n")), configMap("larger", strings.Repeat(strings.Join(large, "\n"), 2)))
	r := call(t.Context(), "doctor", "cm", "-o", "json", "--wait", "1s", "--kubeconfig", kubeconfig)
	var report report
	if err := json.Unmarshal([]byte(r.out), &report); err != nil || r.code != exitDone {
		t.Fatal(err, r)
	}
	if len(report.Resources) != 1 || report.Broken || report.Version == "" {
		t.Fatalf("%s", r.out)
	}
	cm := report.Resources[0]
	if cm.Objects != 2 || cm.Bytes < 400_000 || cm.Resource != "configmaps" || cm.Namespace != "default" {
		t.Errorf("%+v", cm)
	}
	if rules := report.Rules; len(rules) != 1 || rules[0].Namespace != "default" || rules[0].Rules[0].Resources[0] != "configmaps" {
		t.Errorf("%+v", rules)
	}
}
